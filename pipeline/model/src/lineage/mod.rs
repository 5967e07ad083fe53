//! Lineage: what a memory is now, what was folded into it, and what it was folded into.
//!
//! Everything here follows single steps that a store knows ([`Lineage`]); nothing reads a store itself. Whatever
//! a store says, every walk ends: cycles are noticed, long lists and deep trees are cut and counted.

mod fold;
mod resolve;
mod tree;
mod explanation;

pub use explanation::{
    Declined, Explanation, Few, FlagNote, KeptApart, MemoryView, Promotion, explain_folds,
};
pub use fold::{Fold, KnownBy, Lineage, Place, Whereabouts};
pub use resolve::{Resolved, resolve};
pub use tree::{Branch, absorbed_tree};
