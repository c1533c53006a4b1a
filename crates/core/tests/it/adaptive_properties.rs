//! Whatever is read, in whichever order: what the controller promises.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::adaptive::{
    Chain, Controller, Ends, FleetReadings, Hysteresis, NodeReading, Output, Ramp, Reading,
    Settings, Signal, Smoothing, State, WarmUp,
};
use tidegate_core::{EXACT_MAX, Timestamp};

use crate::support::{START_US, at, config, micros};

/// Numbers, most of them about where ramps are, and what is none.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => 0.0..1.0,
        2 => -1.0..2.0,
        2 => 0.0..20_000.0,
        1 => any::<f64>(),
        1 => prop::sample::select(vec![
            f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MAX, f64::MIN_POSITIVE,
        ]),
    ]
}

/// Any reading, of raw bits: most of them where ramps are. Drawn one by one they would take most of the time.
fn reading_of(raw: u32) -> Reading {
    let part = f64::from(raw >> 4) / f64::from(u32::MAX >> 4);
    Reading::Value(match raw % 16 {
        0 => return Reading::Missing,
        1 => return Reading::Failed,
        2 => [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX][(raw >> 4) as usize % 4],
        3 => f64::from_bits(u64::from(raw) << 32 | u64::from(raw)),
        4 => -part,
        5..=7 => part * 20_000.0,
        8 => part * 200.0,
        _ => part,
    })
}

fn ramp() -> impl Strategy<Value = Ramp> {
    let ends = (-100.0..1000.0, 0.001..1000.0, 0.0..=1.0, 0.0..=1.0);
    let drawn = ends.prop_map(|(x_lo, wide, y_lo, part)| {
        Ramp::new(Ends { x_lo, x_hi: x_lo + wide, y_lo, y_hi: y_lo * part }).unwrap()
    });
    let known = [Ramp::pressure(), Ramp::cpu(), Ramp::queue_wait(), Ramp::latency_per_url()];
    prop_oneof![drawn, prop::sample::select(known.to_vec())]
}

fn smoothing() -> impl Strategy<Value = Smoothing> {
    let seconds = || 0.01..60.0_f64;
    let asymmetric = (seconds(), seconds()).prop_map(|(a, b)| {
        let [close, open] = [a.min(b), a.max(b)].map(Duration::from_secs_f64);
        Smoothing::asymmetric(close, open).unwrap()
    });
    prop_oneof![
        Just(Smoothing::default()),
        asymmetric,
        (0.01..=1.0).prop_map(|alpha| Smoothing::fixed(alpha).unwrap()),
    ]
}

fn chain() -> impl Strategy<Value = Chain> {
    let signal = prop::sample::select(vec![Signal::Share, Signal::Millis, Signal::Number]);
    let hysteresis = (0.0..=0.5, 0..10_u64)
        .prop_map(|(play, hold)| Hysteresis::new(play, Duration::from_secs(hold)).unwrap());
    (signal, ramp(), smoothing(), hysteresis).prop_map(|(signal, ramp, smoothing, hysteresis)| {
        let chain = Chain::new("it", signal, ramp).unwrap();
        chain.smoothing(smoothing).hysteresis(hysteresis)
    })
}

fn settings() -> impl Strategy<Value = Settings> {
    (chain(), any::<bool>(), 1..50_u64).prop_map(|(chain, on_start, floor)| {
        let settings = Settings::from_chains([chain, Chain::errors()]).unwrap();
        settings.floor(floor).unwrap().warm_up(WarmUp::default().on_start(on_start))
    })
}

fn limit() -> impl Strategy<Value = u64> {
    prop_oneof![1..2000_u64, 1..=EXACT_MAX]
}

/// Ticks of about a second, some at once, some late, and some of a clock that steps back.
fn instants(gaps: &[u16]) -> Vec<Timestamp> {
    let mut now_us = START_US;
    let step = |gap: &u16| {
        now_us = match gap % 16 {
            0 => now_us,
            1 => now_us - u64::from(*gap) * 1000,
            2 => now_us + u64::from(*gap) * 1000,
            _ => now_us + 1_000_000,
        };
        at(now_us)
    };
    gaps.iter().map(step).collect()
}

type Series = Vec<(u16, [Reading; 2])>;

fn series() -> impl Strategy<Value = Series> {
    let raw = vec(any::<(u16, u32, u32)>(), 1..40);
    raw.prop_map(|raw| {
        let series = raw.into_iter().map(|(gap, a, b)| (gap, [a, b].map(reading_of)));
        series.collect()
    })
}

fn run(settings: &Settings, limit: u64, series: &[(u16, [Reading; 2])]) -> Vec<Output> {
    let mut controller = Controller::new(settings.clone(), limit).unwrap();
    let gaps: Vec<u16> = series.iter().map(|(gap, _)| *gap).collect();
    let ticks = instants(&gaps).into_iter().zip(series);
    ticks.map(|(now, (_, readings))| controller.step(readings, now)).collect()
}

/// Whether the limit ever opens.
fn opens(outputs: &[Output]) -> bool {
    outputs.windows(2).any(|pair| pair[1].computed > pair[0].computed)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_limit_lies_between_its_floor_and_itself_whatever_is_read(
        settings in settings(), limit in limit(), series in series()
    ) {
        let floor = {
            let mut closed = Controller::new(settings.clone(), 1).unwrap();
            closed.step(&[Reading::Value(1.0), Reading::Value(1.0)], at(START_US)).limit
        };
        prop_assert_eq!(floor, 1);
        for output in run(&settings, limit, &series) {
            prop_assert!((1..=limit).contains(&output.limit));
            prop_assert!((0.0..=1.0).contains(&output.share), "{}", output.share);
            prop_assert!((0.0..=1.0).contains(&output.pressure), "{}", output.pressure);
        }
    }

    #[test]
    fn the_floor_is_kept(
        chain in chain(), floor in 1..100_u64, limit in limit(), series in series()
    ) {
        let settings = Settings::from_chains([chain, Chain::errors()]).unwrap().floor(floor).unwrap();
        for output in run(&settings, limit, &series) {
            prop_assert!(output.limit >= floor.min(limit));
        }
    }

    #[test]
    fn a_ramp_is_exact_at_its_ends_and_falls_between_them(
        ramp in ramp(), a in number(), b in number(), limit in limit()
    ) {
        let Ends { x_lo, x_hi, y_lo, y_hi } = ramp.ends();
        prop_assert!(ramp.share(x_lo).to_bits() == y_lo.to_bits());
        prop_assert!(ramp.share(x_hi).to_bits() == y_hi.to_bits());
        prop_assert!(ramp.share(f64::NAN).to_bits() == y_hi.to_bits());
        let (lower, upper) = if a <= b { (a, b) } else { (b, a) };
        if lower <= upper {
            prop_assert!(ramp.share(lower) >= ramp.share(upper));
            prop_assert!(ramp.limit(lower, limit) >= ramp.limit(upper, limit));
        }
    }

    #[test]
    fn from_the_same_state_a_worse_reading_never_opens_more(
        settings in settings(), limit in limit(), series in series(), a in 0.0..2000.0, b in 0.0..2000.0
    ) {
        let mut controller = Controller::new(settings.clone(), limit).unwrap();
        let gaps: Vec<u16> = series.iter().map(|(gap, _)| *gap).collect();
        let ticks = instants(&gaps);
        for (now, (_, readings)) in ticks.iter().zip(&series) {
            controller.step(readings, *now);
        }
        let next = *ticks.last().unwrap() + Duration::from_secs(1);
        let after = |value: f64| {
            let readings = [Reading::Value(value), Reading::Value(0.0)];
            controller.clone().step(&readings, next).limit
        };
        prop_assert!(after(f64::min(a, b)) >= after(f64::max(a, b)));
    }

    // A hold looks back at when it closed, so that it is left out here.
    #[test]
    fn whoever_reads_worse_all_the_time_never_has_more(
        ramp in ramp(), smoothing in smoothing(), play in 0.0..0.5,
        series in vec((any::<u16>(), 0.0..1500.0, 0.0..300.0), 1..40)
    ) {
        let chain = Chain::new("it", Signal::Millis, ramp).unwrap().smoothing(smoothing);
        let chain = chain.hysteresis(Hysteresis::new(play, Duration::ZERO).unwrap());
        let settings = Settings::from_chains([chain]).unwrap().warm_up(WarmUp::NONE);
        let told_with = |worse: f64| -> Series {
            let reading = |value| [Reading::Value(value), Reading::Missing];
            series.iter().map(|&(gap, base, more)| (gap, reading(base + worse * more))).collect()
        };
        let (better, worse) = (told_with(0.0), told_with(1.0));
        let pairs = run(&settings, 1000, &better).into_iter().zip(run(&settings, 1000, &worse));
        for (better, worse) in pairs {
            prop_assert!(better.limit >= worse.limit);
        }
    }

    #[test]
    fn two_half_steps_are_one(
        smoothing in prop_oneof![Just(Smoothing::default()), smoothing_by_time()],
        from in -1.0..1.0, to in -1.0..1.0, span_us in 2..5_000_000_u64, part in 0.0..1.0
    ) {
        let first = Duration::from_micros(span_us).mul_f64(part);
        let second = micros(span_us).saturating_sub(first);
        let whole = smoothing.next(from, to, micros(span_us));
        let halves = smoothing.next(smoothing.next(from, to, first), to, second);
        prop_assert!((whole - halves).abs() < 1e-9, "{whole} {halves}");
    }

    #[test]
    fn a_longer_pause_counts_as_five_seconds(
        smoothing in smoothing(), from in -1.0..1.0, to in -1.0..1.0, more in 0..1_000_000_u64
    ) {
        let five = Duration::from_secs(5);
        let after = |span| smoothing.next(from, to, span).to_bits();
        prop_assert_eq!(after(five), after(five + Duration::from_secs(more)));
    }

    #[test]
    fn closing_is_at_least_as_fast_as_opening(
        smoothing in smoothing(), a in 0.0..1.0, b in 0.0..1.0, span_us in 1..5_000_000_u64
    ) {
        let (low, high) = (f64::min(a, b), f64::max(a, b));
        let closed = smoothing.next(low, high, micros(span_us)) - low;
        let opened = high - smoothing.next(high, low, micros(span_us));
        prop_assert!(closed >= opened - 1e-12, "{closed} {opened}");
    }

    #[test]
    fn what_is_well_has_all_of_its_limit(
        settings in settings(), limit in limit(), gaps in vec(any::<u16>(), 1..40)
    ) {
        let settings = settings.warm_up(WarmUp::default());
        let well = settings.chains()[0].clone().ramp(Ramp::queue_wait());
        let settings = Settings::from_chains([well, Chain::errors()]).unwrap();
        let reading = [Reading::Value(0.0), Reading::Value(0.0)];
        let series: Series = gaps.into_iter().map(|gap| (gap, reading)).collect();
        for output in run(&settings, limit, &series) {
            prop_assert_eq!(output.limit, limit);
            prop_assert_eq!(output.binding, None);
        }
    }

    #[test]
    fn whatever_happened_the_whole_limit_comes_back(
        series in series(), limit in 1..1_000_000_u64
    ) {
        let mut series = series;
        let well = [Reading::Value(0.0), Reading::Value(0.0)];
        // Twenty seconds are a time constant: a ten thousandth is left after nine of them.
        series.extend(std::iter::repeat_n((15, well), 220));
        let settings = Settings::from_chains([Chain::pressure("db"), Chain::errors()]).unwrap();
        prop_assert_eq!(run(&settings, limit, &series).last().unwrap().limit, limit);
    }

    #[test]
    fn nothing_opens_while_nothing_is_told(
        settings in settings(), limit in limit(), series in series(),
        silence in vec((any::<u16>(), any::<bool>()), 1..40)
    ) {
        // Without the warm-up of a start, which goes on while a signal is only late.
        let settings = settings.warm_up(WarmUp::NONE);
        let mut series = series;
        let before = series.len();
        series.extend(silence.into_iter().map(|(gap, failed)| {
            (gap, [if failed { Reading::Failed } else { Reading::Missing }; 2])
        }));
        prop_assert!(!opens(&run(&settings, limit, &series)[before - 1..]));
    }

    #[test]
    fn a_stale_signal_stops_a_warm_up(settings in settings(), series in series()) {
        let mut series = series;
        let before = series.len();
        series.extend(std::iter::repeat_n((15, [Reading::Missing; 2]), 30));
        prop_assert!(!opens(&run(&settings, 1000, &series)[before + 2..]));
    }

    #[test]
    fn a_state_is_its_bytes(settings in settings(), limit in limit(), series in series()) {
        let mut first = Controller::new(settings.clone(), limit).unwrap();
        let mut second = first.clone();
        let gaps: Vec<u16> = series.iter().map(|(gap, _)| *gap).collect();
        for (now, (_, readings)) in instants(&gaps).into_iter().zip(&series) {
            first.step(readings, now);
            let state = State::from_bytes(&first.state().to_bytes(), &settings).unwrap();
            prop_assert_eq!(&state, first.state());
            second.resume(state);
            prop_assert_eq!(second.output(), first.output());
        }
    }

    #[test]
    fn bytes_of_strangers_never_make_a_limit_that_is_none(
        words in vec(prop_oneof![any::<u64>(), (0.0..1.0).prop_map(f64::to_bits)], 17),
        readings in any::<[u32; 2]>().prop_map(|raw| raw.map(reading_of))
    ) {
        let settings = Settings::default();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if let Ok(state) = State::from_bytes(&bytes, &settings) {
            let mut controller = Controller::new(settings, 1000).unwrap();
            controller.resume(state);
            let output = controller.step(&readings, at(START_US));
            prop_assert!((1..=1000).contains(&output.limit));
        }
    }

    #[test]
    fn what_nodes_gather_does_not_hang_on_order_or_repetition(
        noted in vec((0..6_u64, 0..3_u64, any::<u32>().prop_map(reading_of), 0..5_u64), 0..20),
        order in any::<u64>(), signal in prop::sample::select(vec![Signal::Share, Signal::Millis])
    ) {
        let node_reading = |it: &(u64, u64, Reading, u64)| {
            NodeReading { tick: it.1, reading: it.2, weight: it.3 }
        };
        let mut one = FleetReadings::default();
        for it in &noted {
            one.note(it.0, node_reading(it));
        }
        // Turned, split over two, merged both ways and once more.
        let mut turned = noted.clone();
        turned.reverse();
        if !turned.is_empty() {
            let by = usize::try_from(order % 20).unwrap() % turned.len();
            turned.rotate_left(by);
        }
        let (mut left, mut right) = (FleetReadings::default(), FleetReadings::default());
        for (place, it) in turned.iter().enumerate() {
            let side = if order >> (place % 64) & 1 == 0 { &mut left } else { &mut right };
            side.note(it.0, node_reading(it));
        }
        let before = left.clone();
        left.merge(&right);
        right.merge(&before);
        right.merge(&before);
        for tick in 0..3 {
            let of = |gathered: &FleetReadings| gathered.reading(signal, tick);
            prop_assert_eq!(of(&one), of(&left));
            prop_assert_eq!(of(&one), of(&right));
        }
    }
}

fn smoothing_by_time() -> impl Strategy<Value = Smoothing> {
    (0.01..10.0_f64, 1.0..10.0_f64).prop_map(|(close_s, times)| {
        let close = Duration::from_secs_f64(close_s);
        Smoothing::asymmetric(close, close.mul_f64(times)).unwrap()
    })
}

/// The control: who takes silence for good news opens, and the checker sees it.
#[test]
fn taking_silence_for_good_news_is_noticed() {
    let settings = Settings::from_chains([Chain::pressure("db"), Chain::errors()]).unwrap();
    let before = std::iter::repeat_n((15, [Reading::Value(0.9), Reading::Value(0.0)]), 10);
    let series = |silence| -> Series {
        before.clone().chain(std::iter::repeat_n((15, [silence; 2]), 10)).collect()
    };
    assert!(!opens(&run(&settings, 1000, &series(Reading::Missing))[9..]));
    assert!(opens(&run(&settings, 1000, &series(Reading::Value(0.0)))[9..]));
}

/// The control: a median of nodes that is taken as they come hangs on their order.
#[test]
fn the_last_node_to_come_would_decide_otherwise() {
    let noted = [(1, 10.0_f64), (2, 500.0), (3, 20.0)];
    let last = |order: [usize; 3]| noted[order[2]].1.to_bits();
    assert_ne!(last([0, 1, 2]), last([2, 0, 1]));
    let gathered = |order: [usize; 3]| {
        let mut gathered = FleetReadings::default();
        for place in order {
            let (node, value) = noted[place];
            gathered.note(node, NodeReading { tick: 1, reading: Reading::Value(value), weight: 1 });
        }
        gathered.reading(Signal::Millis, 1)
    };
    assert_eq!(gathered([0, 1, 2]), gathered([2, 0, 1]));
    assert_eq!(gathered([0, 1, 2]), Reading::Value(20.0));
}
