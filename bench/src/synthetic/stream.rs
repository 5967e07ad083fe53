//! [`Stream`]: random numbers as functions of their place; [`Shuffle`]: an order without a table.

/// Random numbers of one purpose: each is a function of seed, purpose, item and position.
///
/// The mixer is SplitMix64's (Steele, Lea and Flood, *Fast splittable pseudorandom number
/// generators*, OOPSLA 2014).
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    state: u64,
}

/// 2⁶⁴ divided by the golden ratio, SplitMix64's step.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Stream {
    pub(crate) const fn new(seed: u64, purpose: u64, item: u64) -> Self {
        Self { state: mix(mix(mix(seed) ^ purpose) ^ item) }
    }

    pub(crate) const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// Returns a number in 0‥1, a multiple of 2⁻⁵³.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number in 0‥`bound`; the bias is below bound / 2⁶⁴.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }

    /// Returns a nearly normal deviate of mean 0 and variance 1: the sum of four uniform 16-bit numbers.
    pub(crate) fn normal(&mut self) -> f64 {
        /// √(3 / 65536²): the sum's standard deviation is 65536 / √3.
        const SCALE: f64 = 1.732_050_807_568_877_2 / 65_536.0;
        let bits = self.next_u64();
        let sum = (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48);
        (sum as f64 - 131_070.0) * SCALE
    }
}

const fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A permutation of `0..count` without a table, the same on every machine.
///
/// A four-round Feistel network (Luby and Rackoff, *How to construct pseudorandom permutations from
/// pseudorandom functions*, 1988) with cycle walking.
#[derive(Debug, Clone, Copy)]
pub struct Shuffle {
    count: u64,
    half_bits: u32,
    seed: u64,
}

impl Shuffle {
    /// Chooses the permutation of `0..count` that `seed` gives.
    #[must_use]
    pub const fn new(count: u64, seed: u64) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        let half_bits = if bits < 2 { 1 } else { bits.div_ceil(2) };
        Self { count, half_bits, seed }
    }

    /// Returns where `position` goes; no two go to the same place.
    ///
    /// # Panics
    /// When `position` is not below the count.
    #[must_use]
    pub const fn apply(self, position: u64) -> u64 {
        assert!(position < self.count, "a position beyond the last");
        let mut at = self.rounds(position);
        while at >= self.count {
            at = self.rounds(at);
        }
        at
    }

    const fn rounds(self, position: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (position >> self.half_bits, position & mask);
        let mut round = 0;
        while round < 4 {
            let mixed = mix(self.seed ^ mix(right ^ (round << 40)));
            (left, right) = (right, left ^ (mixed & mask));
            round += 1;
        }
        left << self.half_bits | right
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_hits_every_position_once() {
        for count in [1, 2, 3, 5, 100, 1000] {
            let mut seen: Vec<u64> = (0..count).map(|i| Shuffle::new(count, 7).apply(i)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..count));
        }
    }

    #[test]
    fn deviates_have_mean_0_and_variance_1() {
        let mut stream = Stream::new(1, 2, 3);
        let values: Vec<f64> = (0..100_000).map(|_| stream.normal()).collect();
        let mean = values.iter().sum::<f64>() / 1e5;
        let variance = values.iter().map(|x| x * x).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }
}
