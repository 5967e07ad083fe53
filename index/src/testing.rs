//! Shared by tests: rows of many shapes, pools, thresholds, and a wish to stop.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};

use memfold_simd::Similarity;

use crate::{Pool, Progress, VectorMatrix};

pub(crate) fn pool(threads: usize) -> Pool {
    Pool::new(NonZeroUsize::new(threads)).unwrap()
}

pub(crate) fn matrix(values: &[f32], dim: usize) -> VectorMatrix<'_> {
    VectorMatrix::from_slice(values, dim).unwrap()
}

pub(crate) fn near(threshold: f64) -> Similarity {
    Similarity::new(threshold).unwrap()
}

/// A small stream of values; tests name its seed.
pub(crate) struct Values(pub(crate) u64);

impl Values {
    /// Returns a value in \[−1, 1).
    pub(crate) fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ (bits >> 31)) >> 40) as f32 / 8_388_608.0 - 1.0
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        ((f64::from(self.next()) + 1.0) / 2.0 * limit as f64) as usize
    }
}

/// Shapes of generated rows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// No structure.
    Random,
    /// Few centres with jitter from none to wide.
    Clustered,
    /// A common direction dominates.
    Anisotropic,
    /// Most rows repeat an earlier one.
    Duplicates,
    /// One value differs from zero.
    OneHot,
    /// Rows of very different length, down to subnormal and up to 1e30.
    Norms,
}

pub(crate) const SHAPES: [Shape; 6] = [
    Shape::Random,
    Shape::Clustered,
    Shape::Anisotropic,
    Shape::Duplicates,
    Shape::OneHot,
    Shape::Norms,
];

pub(crate) fn rows(shape: Shape, row_count: usize, dim: usize, seed: u64) -> Vec<f32> {
    let mut values = Values(seed);
    let centers: Vec<f32> = (0..dim * 7).map(|_| values.next()).collect();
    let mut all: Vec<f32> = Vec::new();
    for _ in 0..row_count {
        let center = values.below(7) * dim;
        let repeated = values.below(row_count) * dim;
        let jitter = 0.3 * values.next() * values.next();
        let scale = 10_f64.powi(values.below(70) as i32 - 39) as f32;
        let hot = values.below(dim);
        for at in 0..dim {
            let random = values.next();
            let clustered = centers[center + at] + jitter * random;
            all.push(match shape {
                Shape::Random => random,
                Shape::Clustered => clustered,
                Shape::Anisotropic => 1.0 + 0.2 * clustered,
                Shape::Duplicates => all.get(repeated + at).copied().unwrap_or(random),
                Shape::OneHot if at == hot => random.max(0.0) + 0.5,
                Shape::OneHot => 0.0,
                Shape::Norms => clustered * scale,
            });
        }
    }
    all
}

/// Returns 36,047 real embeddings, stored as f16, and their dimension.
pub(crate) fn real_embeddings() -> Option<(Vec<f32>, usize)> {
    let Some(folder) = std::env::var_os("MEMFOLD_DATA") else {
        // Test output is captured: shown with --nocapture.
        let _ = std::io::Write::write_all(
            &mut std::io::stdout(),
            b"skipped: MEMFOLD_DATA is not set\n",
        );
        return None;
    };
    let path = std::path::Path::new(&folder).join("embeddings/vectors_f16.npy");
    let bytes = std::fs::read(path).unwrap();
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let values: Vec<f32> = bytes[header..]
        .as_chunks()
        .0
        .iter()
        .map(|&half| widened(u16::from_le_bytes(half)))
        .collect();
    Some((values, 384))
}

/// Returns the value of an IEEE half-precision number.
fn widened(half: u16) -> f32 {
    let sign = if half >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(half >> 10 & 31), f32::from(half & 1_023));
    match exponent {
        0 => sign * fraction * 2_f32.powi(-24),
        _ => sign * (1.0 + fraction / 1_024.0) * 2_f32.powi(exponent - 15),
    }
}

/// Asks to stop once a stage has begun and advanced so many times.
pub(crate) struct StopIn {
    stage: &'static str,
    advances: u64,
    /// 0 before the stage begins.
    seen: AtomicU64,
}

impl StopIn {
    pub(crate) const fn new(stage: &'static str, advances: u64) -> Self {
        Self { stage, advances, seen: AtomicU64::new(0) }
    }
}

impl Progress for StopIn {
    fn begin(&self, stage: &'static str, _total: Option<u64>) {
        self.seen.fetch_max((stage == self.stage).into(), Ordering::Relaxed);
    }
    fn advance(&self, _done: u64) {
        if self.seen.load(Ordering::Relaxed) > 0 {
            self.seen.fetch_add(1, Ordering::Relaxed);
        }
    }
    fn end(&self) {}
    fn cancelled(&self) -> bool {
        self.seen.load(Ordering::Relaxed) > self.advances
    }
}

/// Stops after so many looks at the wish to stop.
#[derive(Debug, Default)]
pub(crate) struct StopAfter {
    pub(crate) looks_max: u64,
    pub(crate) looks: AtomicU64,
}

impl Progress for StopAfter {
    fn begin(&self, _stage: &'static str, _total: Option<u64>) {}
    fn advance(&self, _done: u64) {}
    fn end(&self) {}
    fn cancelled(&self) -> bool {
        self.looks.fetch_add(1, Ordering::Relaxed) >= self.looks_max
    }
}
