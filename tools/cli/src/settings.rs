//! What was typed, made valid: configuration, pool, time.

pub(crate) use memfold::ops::{Settings, now, pool, scratch_dir};
