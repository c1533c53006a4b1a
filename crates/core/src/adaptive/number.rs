//! Between floats and integers, in one place: every limit is below 2^53, so that it is exact as a float.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "bounded by 2^53, or saturating on purpose"
)]

/// A count as a float.
pub(super) const fn float(count: u64) -> f64 {
    count as f64
}

/// Whole units of `share × limit`, from `floor` (at most the limit) to `limit`. Arithmetic that misses a whole
/// number by a few last bits does not cost a unit: a pressure of 0.07 leaves 93 of 100.
pub(super) fn units(share: f64, limit: u64, floor: u64) -> u64 {
    let whole = float(limit);
    let units = (share * whole + whole * 8.0 * f64::EPSILON).floor() as u64;
    units.clamp(floor.min(limit), limit)
}

/// Slots of a cap, rounded down.
pub(super) fn whole(slots: f64) -> u64 {
    slots.floor() as u64
}
