//! [`Breach`]: where an invariant does not hold.

/// Where, and what to do.
pub(super) struct Breach {
    pub(super) place: String,
    pub(super) advice: String,
}

impl Breach {
    pub(super) fn new(place: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { place: place.into(), advice: advice.into() }
    }
}
