//! How close together requests went ahead.

/// The most within any `span_us`, half open; the instants are in order.
pub(super) fn most_within(span_us: u64, instants: &[u64]) -> u64 {
    let (mut first, mut most) = (0, 0);
    for (index, &at_us) in instants.iter().enumerate() {
        while instants[first] + span_us <= at_us {
            first += 1;
        }
        most = most.max(index + 1 - first);
    }
    u64::try_from(most).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_does_not_hold_its_end() {
        assert_eq!(most_within(10, &[]), 0);
        assert_eq!(most_within(10, &[0, 10, 20]), 1);
        assert_eq!(most_within(11, &[0, 10, 20]), 2);
        assert_eq!(most_within(10, &[0, 5, 5, 9, 30, 31]), 4);
    }
}
