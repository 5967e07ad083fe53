//! ISA levels: the instruction sets of a processor.
//!
//! The standard library asks the processor once and remembers the answer; these functions are
//! cheap.

use std::ffi::OsStr;
use std::fmt;

/// The environment variable that forces a level, for tests and comparisons. It never changes an
/// answer.
pub(crate) const LEVEL_VARIABLE: &str = "MEMFOLD_ISA";

/// A level of the instruction set for which there are kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Plain Rust, on every machine.
    Scalar,
    /// x86-64 with AVX2 and FMA.
    Avx2,
    /// x86-64 with AVX2, FMA and AVX-VNNI.
    AvxVnni,
    /// x86-64 with AVX-512 (F, BW, VL) and VNNI.
    Avx512,
    /// x86-64 with AVX-512 as above and AMX (TILE, INT8), on Linux.
    Amx,
    /// aarch64 with NEON.
    Neon,
    /// aarch64 with NEON and its dot products (ARMv8.2, FEAT_DotProd).
    NeonDot,
}

impl Level {
    /// Every level there is, slowest first.
    pub const ALL: [Self; 7] = [
        Self::Scalar,
        Self::Avx2,
        Self::AvxVnni,
        Self::Avx512,
        Self::Amx,
        Self::Neon,
        Self::NeonDot,
    ];

    /// Returns the level that `MEMFOLD_ISA` asks for, if it is set and not empty.
    ///
    /// # Errors
    /// When the name is unknown or the processor lacks the level.
    pub fn requested() -> Result<Option<Self>, RequestLevelError> {
        match std::env::var_os(LEVEL_VARIABLE) {
            Some(name) if !name.is_empty() => Self::parse_available(&name).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the levels of this processor, slowest first. `Scalar` is always among them.
    #[must_use]
    pub fn available() -> Vec<Self> {
        Self::ALL.into_iter().filter(|level| level.is_available()).collect()
    }

    /// Returns the fastest level of this processor.
    #[must_use]
    pub fn best() -> Self {
        Self::ALL.into_iter().rev().find(|level| level.is_available()).unwrap_or(Self::Scalar)
    }

    /// Tells whether this processor has the level.
    #[must_use]
    pub(crate) fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni => Self::Avx2.is_available() && is_x86_feature_detected!("avxvnni"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Amx => Self::Avx512.is_available() && crate::arch::has_amx(),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[cfg(target_arch = "aarch64")]
            Self::NeonDot => {
                Self::Neon.is_available() && std::arch::is_aarch64_feature_detected!("dotprod")
            }
            _ => false,
        }
    }

    /// Returns the level's name: `scalar`, `avx2`, `avxvnni`, `avx512`, `amx`, `neon` or `neondot`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::AvxVnni => "avxvnni",
            Self::Avx512 => "avx512",
            Self::Amx => "amx",
            Self::Neon => "neon",
            Self::NeonDot => "neondot",
        }
    }

    fn parse_available(name: &OsStr) -> Result<Self, RequestLevelError> {
        // The named level alone: to ask for AMX is to have the system reserve room for tiles.
        let found = Self::ALL.into_iter().find(|level| name == level.name());
        found.filter(|level| level.is_available()).ok_or_else(|| RequestLevelError {
            requested: name.to_string_lossy().into_owned(),
            available: Self::available(),
        })
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The name of an unknown level, or of one that this processor lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestLevelError {
    /// The value of `MEMFOLD_ISA`.
    pub requested: String,
    /// The levels of this machine.
    pub available: Vec<Level>,
}

impl RequestLevelError {
    /// Returns advice for the user, if there is any.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let names: Vec<_> = self.available.iter().map(|level| level.name()).collect();
        Some(format!("set {LEVEL_VARIABLE} to one of: {}; or unset it", names.join(", ")))
    }
}

impl fmt::Display for RequestLevelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requested = &self.requested;
        let known = Level::ALL.iter().any(|level| level.name() == requested);
        let fact = if known { "this processor lacks it" } else { "there is no such level" };
        write!(f, "use instruction set level {requested:?} of {LEVEL_VARIABLE}: {fact}")
    }
}

impl std::error::Error for RequestLevelError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_levels_are_found_by_name() {
        let available = Level::available();
        assert_eq!(available[0], Level::Scalar);
        assert_eq!(available.last(), Some(&Level::best()));
        for level in available {
            assert_eq!(Level::parse_available(OsStr::new(level.name())), Ok(level));
        }
    }

    #[test]
    fn unknown_and_missing_levels_are_told_apart() {
        let unknown = Level::parse_available(OsStr::new("sse9")).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "use instruction set level \"sse9\" of MEMFOLD_ISA: there is no such level"
        );
        let hint = unknown.hint().unwrap();
        assert!(hint.starts_with("set MEMFOLD_ISA to one of: scalar"), "{hint}");

        let missing = if cfg!(target_arch = "aarch64") { "avx2" } else { "neon" };
        let missing = Level::parse_available(OsStr::new(missing)).unwrap_err();
        assert!(missing.to_string().ends_with("this processor lacks it"), "{missing}");
    }
}
