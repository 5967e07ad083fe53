//! What each stream of random numbers is for.

pub(crate) const SIZES: u64 = 1;
pub(crate) const ORDER: u64 = 2;
pub(crate) const COMMON: u64 = 3;
pub(crate) const TOPIC: u64 = 4;
pub(crate) const OWN: u64 = 5;
pub(crate) const COPY: u64 = 6;
pub(crate) const FACTORS: u64 = 7;
pub(crate) const START: u64 = 8;
pub(crate) const DRIFT: u64 = 9;
pub(crate) const NEST_ORDER: u64 = 10;
pub(crate) const NEST_KIND: u64 = 11;
pub(crate) const NEST_GROUP: u64 = 12;
pub(crate) const OBSERVED: u64 = 13;
