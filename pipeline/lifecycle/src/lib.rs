//! How alive is a memory, how does it hang together with others, and what does a session need to know?
//!
//! Pure functions over plain data: no I/O, no clock. The stores and commands around them are elsewhere.
