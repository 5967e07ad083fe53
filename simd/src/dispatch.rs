//! Which table of kernels this processor runs, chosen once.

use std::sync::OnceLock;

use crate::{Kernels, Level, arch, portable};

impl Kernels {
    /// Returns the table for this machine: the best level, or the one `MEMFOLD_ISA` names.
    ///
    /// An unknown or unavailable name is ignored here; programs check [`Level::requested`] first.
    #[must_use]
    pub fn active() -> &'static Self {
        static ACTIVE: OnceLock<&'static Kernels> = OnceLock::new();
        ACTIVE.get_or_init(|| {
            let level = Level::requested().ok().flatten().unwrap_or_else(Level::best);
            Self::at(level).unwrap_or(&portable::KERNELS)
        })
    }

    /// Returns the table for `level`, or `None` where the processor lacks it.
    #[must_use]
    pub fn at(level: Level) -> Option<&'static Self> {
        match level {
            Level::Scalar => Some(&portable::KERNELS),
            _ => arch::kernels(level),
        }
    }
}
