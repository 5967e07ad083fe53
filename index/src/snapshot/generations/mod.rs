//! Generations.
