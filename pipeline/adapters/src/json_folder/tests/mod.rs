//! The adapter against folders of every shape.

mod factory;
mod properties;
mod crashes;
mod refusals;
