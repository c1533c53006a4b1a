//! The loop is closed: what is admitted makes the load that is read. It settles, and what swings is seen to.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::adaptive::{
    Chain, Controller, Hysteresis, Reading, Settings, Smoothing, WarmUp,
};

use crate::support::{START_US, at, config};

/// A target that more is asked of than it can do: its pressure is what was admitted, times the gain.
fn admitted(settings: Settings, gain: f64, dead_ticks: usize, ticks: u32) -> Vec<f64> {
    let limit = 1_000_000_u32;
    let mut controller = Controller::new(settings, limit.into()).unwrap();
    let (mut read, mut admitted) = (vec![0.0; dead_ticks + 1], Vec::new());
    for tick in 0..ticks {
        let now = at(START_US) + Duration::from_secs(1) * tick;
        let pressure = read[read.len() - 1 - dead_ticks];
        let output = controller.step(&[Reading::Value(pressure)], now);
        let share = f64::from(u32::try_from(output.limit).unwrap()) / f64::from(limit);
        read.push((share * gain).min(1.0));
        admitted.push(share);
    }
    admitted
}

/// Deviation as a part of the mean, of what comes after everybody had time to settle.
fn variation(values: &[f64]) -> f64 {
    let late = &values[values.len() / 2..];
    let count = f64::from(u32::try_from(late.len()).unwrap());
    let mean = late.iter().sum::<f64>() / count;
    let squares: f64 = late.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / count).sqrt() / mean
}

fn smooth() -> Settings {
    Settings::from_chains([Chain::pressure("cpu")]).unwrap()
}

fn raw() -> Settings {
    let chain = Chain::pressure("cpu").smoothing(Smoothing::NONE).hysteresis(Hysteresis::NONE);
    Settings::from_chains([chain]).unwrap().warm_up(WarmUp::NONE)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..config() })]

    #[test]
    fn a_smoothed_loop_settles(gain in 0.1..3.0, dead_ticks in 0..4_usize) {
        let swing = variation(&admitted(smooth(), gain, dead_ticks, 400));
        prop_assert!(swing < 0.1, "{swing}");
    }

    #[test]
    fn whatever_is_not_warned_of_settles(
        gain in 0.1..3.0, dead_ticks in 0..4_usize, alpha in 0.01..1.0
    ) {
        let smoothing = Smoothing::fixed(alpha).unwrap();
        let warned = smoothing.oscillation(Duration::from_secs(1), gain, u32::try_from(dead_ticks).unwrap());
        if warned.is_none() {
            let chain = Chain::pressure("cpu").smoothing(smoothing).hysteresis(Hysteresis::NONE);
            let settings = Settings::from_chains([chain]).unwrap().warm_up(WarmUp::NONE);
            let swing = variation(&admitted(settings, gain, dead_ticks, 2000));
            prop_assert!(swing < 0.1, "{swing}");
        }
    }
}

/// The negative control: the same checker, on a loop that follows every reading at once.
#[test]
fn a_raw_loop_with_a_gain_of_one_and_a_half_swings() {
    let swing = variation(&admitted(raw(), 1.5, 0, 400));
    assert!(swing > 0.5, "{swing}");
    assert!(variation(&admitted(smooth(), 1.5, 0, 400)) < 0.1);
    assert!(Smoothing::NONE.oscillation(Duration::from_secs(1), 1.5, 0).is_some());
}
