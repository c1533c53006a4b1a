//! The edges of the numbers: whatever is given, there is an answer or a typed error, never a panic.
//! These run with overflow checks, so that a silent wrap would be a panic too.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{
    Arrival, Concurrency, EXACT_MAX, Every, FixedWindow, Gcra, LeakyBucket, Limit, LimitError,
    Quota, SlidingLog, SlidingWindow, State, Timestamp, Window, Zone,
};

use crate::support::{START_US, any_limit, at, config, micros};

/// Numbers that sit on an edge of something: 0, 1, a tick, 2^53, u64. One draw and a table: several
/// times faster than a choice of strategies, and these are drawn by the hundred thousand.
pub(crate) fn edgy() -> impl Strategy<Value = u64> {
    any::<(u8, u64)>().prop_map(|(kind, raw)| match kind % 8 {
        0 => raw % 4,
        1 => 998 + raw % 4,
        2 => 999_999 + raw % 3,
        3 => EXACT_MAX / 1000 - 2 + raw % 5,
        4 => EXACT_MAX / 2 - 2 + raw % 5,
        5 => EXACT_MAX - 2 + raw % 5,
        6 => u64::MAX - raw % 3,
        _ => raw,
    })
}

/// Every algorithm, built of the same three numbers.
fn built(kind: u8, limit: u64, period_us: u64, third: u64) -> Result<Limit, LimitError> {
    let period = micros(period_us);
    Ok(match kind {
        0 => Gcra::new(limit, period, third)?.into(),
        1 => Limit::TokenBucket(Gcra::token_bucket(third, limit, period)?),
        2 => FixedWindow::new(limit, period)?.into(),
        3 => SlidingWindow::new(limit, period, third)?.into(),
        4 => SlidingLog::new(limit, period)?.into(),
        5 => Quota::fixed(limit, period)?.into(),
        6 => Quota::rolling(limit, period, third)?.into(),
        7 => {
            let offset = period_us.cast_signed();
            Quota::calendar(limit, Every::Month, Zone::fixed(offset)?)?.into()
        }
        _ => Concurrency::new(limit, period)?.into(),
    })
}

fn exercise(limit: &Limit, state: &mut State, asks: &[(u64, u64)]) {
    for &(now_us, cost) in asks {
        let decision = limit.take(state, at(now_us), cost);
        assert_eq!(decision.retry_after_us() == Some(0), decision.allowed());
        assert!(cost <= limit.ceiling() || !decision.allowed());
        assert!(decision.remaining() <= limit.ceiling());
        let refunded = limit.refund(state, at(now_us), cost / 2);
        assert!(refunded.remaining() <= limit.ceiling());
    }
}

fn instants() -> impl Strategy<Value = u64> {
    any::<(u8, u64)>().prop_map(|(kind, raw)| match kind % 4 {
        0 => 0,
        1 => Timestamp::MAX.as_micros(),
        2 => START_US + raw % 10,
        _ => raw,
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_can_be_built_never_panics(
        kind in 0..9_u8, limit in edgy(), period_us in edgy(), third in edgy(),
        asks in vec((instants(), edgy()), 1..6)
    ) {
        match built(kind, limit, period_us, third) {
            Ok(limit) => exercise(&limit, &mut State::Empty, &asks),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn a_shaper_that_can_be_built_never_panics(
        limit in edgy(), period_us in edgy(), third in edgy(), capacity in any::<bool>(),
        asks in vec((instants(), edgy()), 1..6)
    ) {
        let built = if capacity {
            LeakyBucket::with_capacity(limit, micros(period_us), third)
        } else {
            LeakyBucket::new(limit, micros(period_us), micros(third))
        };
        let Ok(shaper) = built else { return Ok(()) };
        let mut state = State::Empty;
        for (now_us, cost) in asks {
            let answer = shaper.reserve(&mut state, at(now_us), cost);
            prop_assert_eq!(answer.retry_after_us() == Some(0), answer.accepted());
            prop_assert!(cost == 0 || answer.delay() <= shaper.max_wait());
            if let Some(after) = state.arrival() {
                let _ = shaper.cancel(&mut state, after, at(now_us), cost);
            }
        }
    }

    // The fields of these two are public: a store may hand over anything.
    #[test]
    fn any_stored_arrival_or_window_is_decided(
        limit in any_limit(), ticks in edgy(), frac in edgy(), scale in edgy(),
        tick_us in edgy(), now_us in instants(), cost in edgy()
    ) {
        let own = |limit: &Limit| {
            let mut state = State::Empty;
            let _ = limit.take(&mut state, at(START_US), 1);
            state.arrival()
        };
        let window = Some(Window { end: ticks, count: frac });
        let foreign = Arrival { ticks, frac, scale, tick_us };
        let decision = match &limit {
            Limit::Gcra(gcra) | Limit::TokenBucket(gcra) => {
                let own = own(&limit).map(|arrival| Arrival { ticks, frac, ..arrival });
                let _ = gcra.decide(own, at(now_us), cost);
                gcra.decide(Some(foreign), at(now_us), cost).0
            }
            Limit::FixedWindow(fixed) => fixed.decide(window, at(now_us), cost).0,
            _ => return Ok(()),
        };
        prop_assert!(decision.remaining() <= limit.ceiling());
        prop_assert_eq!(decision.allowed(), decision.retry_after_us() == Some(0));
    }
}

#[test]
fn huge_costs_are_never_admitted_and_spend_nothing() {
    let texts = [
        "100/min burst 20",
        "token-bucket 100/min capacity 20",
        "999983/day",
        "fixed-window 100/min",
        "sliding-window 100/min",
        "sliding-log 100/min",
        "quota 100/day",
        "quota 100/h",
        "quota 100/h rolling",
        "concurrency 100",
    ];
    for text in texts {
        let limit: Limit = text.parse().unwrap();
        for cost in [limit.ceiling() + 1, EXACT_MAX - 1, EXACT_MAX, EXACT_MAX + 1, u64::MAX] {
            let mut state = State::Empty;
            let decision = limit.take(&mut state, at(START_US), cost);
            assert_eq!((decision.allowed(), decision.retry_after_us()), (false, None), "{text}");
            assert_eq!((decision.remaining(), state), (limit.ceiling(), State::Empty), "{text}");
        }
    }
}

#[test]
fn each_number_out_of_range_has_its_own_error() {
    let second = micros(1_000_000);
    let too_many = EXACT_MAX + 1;
    assert_eq!(Gcra::new(0, second, 1), Err(LimitError::ZeroLimit));
    assert_eq!(Gcra::new(too_many, second, 1), Err(LimitError::LimitTooLarge(too_many)));
    assert_eq!(Gcra::new(1, micros(0), 1), Err(LimitError::ZeroPeriod));
    assert_eq!(Gcra::new(1, micros(too_many), 1), Err(LimitError::PeriodTooLong(too_many)));
    assert_eq!(Gcra::new(1, second, 0), Err(LimitError::ZeroBurst));
    let inexact = LimitError::BurstInexact { burst: u64::MAX, limit: 1, period_us: 1_000_000 };
    assert_eq!(Gcra::new(1, second, u64::MAX), Err(inexact));
    assert_eq!(SlidingWindow::new(1, second, 0), Err(LimitError::Buckets(0)));
    assert_eq!(SlidingWindow::new(1, second, 1001), Err(LimitError::Buckets(1001)));
    let uneven = LimitError::BucketsDoNotDivide { buckets: 7, period_us: 1_000_000 };
    assert_eq!(SlidingWindow::new(1, second, 7), Err(uneven));
    let wide = LimitError::SlidingWindowInexact { limit: EXACT_MAX, width_us: 1_000_000 };
    assert_eq!(SlidingWindow::new(EXACT_MAX, second, 1), Err(wide));
    assert_eq!(SlidingLog::new(1_000_001, second), Err(LimitError::LogTooLong(1_000_001)));
    assert_eq!(Zone::fixed(841), Err(LimitError::OffsetOutOfRange(841)));
    let waiting = LeakyBucket::new(1, second, micros(u64::MAX));
    assert_eq!(waiting, Err(LimitError::MaxWaitTooLong(u64::MAX)));
    assert_eq!(Concurrency::new(1_000_001, second), Err(LimitError::TooManyPermits(1_000_001)));
    assert_eq!(Concurrency::new(1, micros(0)), Err(LimitError::ZeroLease));
    assert_eq!(Concurrency::new(1, micros(EXACT_MAX)), Err(LimitError::LeaseTooLong(EXACT_MAX)));
}
