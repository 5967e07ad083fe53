//! [`Pruner`]: which of a node's candidates become its links.

use memfold_simd::Kernels;

use super::nearest::Near;
use crate::codes::CodeRows;

/// Links with which a candidate is compared at a time.
const COMPARED_TOGETHER: usize = 8;

/// The nearest candidates are links whatever hides them: among near-duplicates, nearly everything hides.
const RESERVED: usize = 4;

/// The first pass takes a candidate that is no nearer to a taken one than to the node.
const STRICT: Occlusion = Occlusion { numerator: 64 };

/// The second pass, for places that are left, one that is not much nearer: 64/72 of the squared distance.
const RELAXED: Occlusion = Occlusion { numerator: 72 };

/// Nothing hides: distances have 31 bits.
const NONE: Occlusion = Occlusion { numerator: 1 << 32 };

/// A candidate hides behind a link when `numerator / 64 · d²(link, candidate) < d²(node, candidate)`.
///
/// Equal distances hide nothing: nodes at one distance of each other keep their links.
#[derive(Clone, Copy)]
struct Occlusion {
    numerator: i64,
}

impl Occlusion {
    fn hides(self, between: i32, candidate: i32) -> bool {
        self.numerator * i64::from(between) < 64 * i64::from(candidate)
    }
}

/// Chooses links, with memory that is used again.
pub(super) struct Pruner<'a> {
    codes: CodeRows<'a>,
    kernels: &'static Kernels,
    taken_codes: Vec<i8>,
    dots: Vec<i32>,
    skipped: Vec<Near>,
}

impl<'a> Pruner<'a> {
    pub(super) const fn new(codes: CodeRows<'a>, kernels: &'static Kernels) -> Self {
        Self { codes, kernels, taken_codes: Vec::new(), dots: Vec::new(), skipped: Vec::new() }
    }

    /// Leaves at most `limit` of the candidates, which are sorted and different: all those in `kept`, which are fewer,
    /// then the nearest ones of each pass.
    pub(super) fn prune(&mut self, candidates: &mut Vec<Near>, kept: &[Near], limit: usize) {
        self.taken_codes.clear();
        self.skipped.clear();
        let mut taken = Vec::with_capacity(limit);
        for &link in kept {
            self.take(link, &mut taken, NONE);
        }
        let reserved = kept.len() + RESERVED;
        for &candidate in &*candidates {
            if taken.len() == limit {
                break;
            }
            if kept.contains(&candidate) {
                continue;
            }
            let occlusion = if taken.len() < reserved { NONE } else { STRICT };
            if !self.take(candidate, &mut taken, occlusion) {
                self.skipped.push(candidate);
            }
        }
        for candidate in std::mem::take(&mut self.skipped) {
            if taken.len() == limit {
                break;
            }
            self.take(candidate, &mut taken, RELAXED);
        }
        *candidates = taken;
    }

    fn take(&mut self, candidate: Near, taken: &mut Vec<Near>, occlusion: Occlusion) -> bool {
        let codes = self.codes.row(candidate.node);
        let norm = self.codes.squared_norm(candidate.node);
        // What is hidden is mostly so by one of the first few.
        let parts = taken.chunks(COMPARED_TOGETHER);
        let hidden = parts.zip(self.taken_codes.chunks(COMPARED_TOGETHER * self.codes.dim)).any(
            |(links, link_codes)| {
                self.dots.clear();
                self.kernels.dots_i8(codes, link_codes, &mut self.dots);
                links.iter().zip(&self.dots).any(|(link, &dot)| {
                    let between = self.codes.distance_from_dot(link.node, norm, dot);
                    occlusion.hides(between, candidate.distance)
                })
            },
        );
        if !hidden {
            self.taken_codes.extend_from_slice(codes);
            taken.push(candidate);
        }
        !hidden
    }
}
