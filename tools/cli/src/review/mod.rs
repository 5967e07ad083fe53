//! A person looks at the changes of a saved plan, one after the other, and decides.
//!
//! | module | what |
//! |---|---|
//! | [`material`] | the memories that a plan names, as they are now |
//! | [`card`], [`wrap`] | an action on a screen of 80 × 24 |
//! | [`dialogue`] | keys of a terminal, or lines of a pipe |
//! | [`store`] | where answers go |
//! | [`walk`] | the questions in their order |

pub(crate) mod wrap;
mod card;
pub(crate) mod dialogue;
pub(crate) mod material;
pub(crate) mod store;
pub(crate) mod walk;

#[cfg(test)]
mod tests;
