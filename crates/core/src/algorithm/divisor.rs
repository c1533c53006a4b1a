//! Division by a fixed number, as a multiplication: a quarter of the time, and exact.

/// Divides numbers below 2^63 by `d`, without dividing.
///
/// With `k = 64 + ⌊log2 d⌋` and `m = ⌊2^k / d⌋` (one less where that is 2^64), `⌊(x + 1)·m / 2^k⌋` is `⌊x / d⌋`:
/// `m` is too small by less than 1, so that the quotient `(x + 1)/d` is too small by something above 0, which
/// undoes the `+ 1`, but by at most `(x + 1)/2^k ≤ 1/d` while `x < 2^63`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Divisor {
    multiplier: u64,
    shift: u32,
}

impl Divisor {
    /// For `d ≥ 1`.
    pub(crate) fn new(d: u64) -> Self {
        let shift = d.max(1).ilog2();
        let multiplier = (1_u128 << (64 + shift)) / u128::from(d.max(1));
        Self { multiplier: u64::try_from(multiplier).unwrap_or(u64::MAX), shift }
    }

    /// `⌊x / d⌋`, for `x < 2^63`.
    #[inline]
    pub(crate) fn divide(&self, x: u64) -> u64 {
        let (_, high) = (x + 1).carrying_mul(self.multiplier, 0);
        high >> self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::Divisor;
    use crate::time::EXACT_MAX;

    #[test]
    fn divides_like_division() {
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = |bits: u32| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> (64 - bits)).min(EXACT_MAX)
        };
        for round in 0..200_000 {
            let d = next(1 + round % 54).max(1);
            let divisor = Divisor::new(d);
            let x = next(1 + round / 7 % 54);
            // Where a wrong multiplier would show first: at the multiples of d and just below them.
            let multiple = x - x % d;
            for x in [
                x,
                multiple,
                multiple.saturating_sub(1),
                EXACT_MAX,
                EXACT_MAX - EXACT_MAX % d,
                1 << 62,
            ] {
                assert_eq!(divisor.divide(x), x / d, "{x} / {d}");
            }
        }
    }
}
