//! The smoothing, hysteresis and absence of a signal.

use std::time::Duration;

use tidegate_core::adaptive::{Absence, Chain, Hysteresis, Smoothing};

use super::super::amount::span;
use super::super::node::Cursor;
use super::super::text;

/// The settings of one signal, or the defaults of all signals.
#[derive(Clone, Copy)]
pub(super) struct Tuned {
    smoothing: Smoothing,
    hysteresis: Hysteresis,
    absence: Absence,
    /// This many failures of a probe in a row are a signal.
    pub(super) failures: u32,
}

impl Default for Tuned {
    fn default() -> Self {
        let absence = Absence::default();
        let (smoothing, hysteresis) = (Smoothing::default(), Hysteresis::default());
        // The prober counts failures: a tick without a due answer would reset the count.
        let counted = Absence { failures: 1, ..absence };
        Self { smoothing, hysteresis, absence: counted, failures: absence.failures }
    }
}

impl Tuned {
    /// These settings with the written ones on top.
    pub(super) fn with(
        mut self,
        smoothing: Option<&text::Smoothing>,
        hysteresis: Option<&text::Hysteresis>,
        absence: Option<&text::Absence>,
        cursor: &Cursor<'_>,
    ) -> Option<Self> {
        let count_before = cursor.problem_count();
        if let Some(text) = smoothing {
            let read = cursor.field("smoothing").accept(self::smoothing(text));
            self.smoothing = read.unwrap_or(self.smoothing);
        }
        if let Some(text) = hysteresis {
            let read = cursor.field("hysteresis").accept(self::hysteresis(text));
            self.hysteresis = read.unwrap_or(self.hysteresis);
        }
        if let Some(text) = absence {
            let read = cursor.field("absence").accept(self::absence(text, self.absence));
            self.absence = read.unwrap_or(self.absence);
            self.failures = text.failures.map_or(self.failures, whole);
        }
        (cursor.problem_count() == count_before).then_some(self)
    }

    pub(super) fn tune(self, chain: Chain) -> Option<Chain> {
        let chain = chain.smoothing(self.smoothing).hysteresis(self.hysteresis);
        chain.absence(self.absence).ok()
    }
}

fn smoothing(text: &text::Smoothing) -> Result<Smoothing, String> {
    let options = match text {
        text::Smoothing::Word(_) => return Ok(Smoothing::NONE),
        text::Smoothing::Map(options) => options,
    };
    let smoothing = match options.alpha {
        Some(_) if options.close.is_some() || options.open.is_some() => {
            return Err("`alpha` replaces `close` and `open`: remove those".into());
        }
        Some(alpha) => Smoothing::fixed(alpha),
        None => {
            let close = options.close.as_ref().map_or(Ok(Duration::from_millis(1500)), span)?;
            let open = options.open.as_ref().map_or(Ok(Duration::from_secs(20)), span)?;
            Smoothing::asymmetric(close, open)
        }
    };
    smoothing.map_err(|error| error.to_string())
}

fn hysteresis(text: &text::Hysteresis) -> Result<Hysteresis, String> {
    let options = match text {
        text::Hysteresis::Word(_) => return Ok(Hysteresis::NONE),
        text::Hysteresis::Map(options) => options,
    };
    let hold = options.hold.as_ref().map_or(Ok(Duration::from_secs(3)), span)?;
    Hysteresis::new(options.play.unwrap_or(0.05), hold).map_err(|error| error.to_string())
}

fn absence(text: &text::Absence, usual: Absence) -> Result<Absence, String> {
    let absence = Absence {
        hold_ticks: text.hold_ticks.map_or(usual.hold_ticks, whole),
        drift_after: text.drift_after.as_ref().map_or(Ok(usual.drift_after), span)?,
        unknown: text.unknown.unwrap_or(usual.unknown),
        failures: usual.failures,
        failed: text.failed.unwrap_or(usual.failed),
    };
    // The chain checks the values.
    Chain::cpu().absence(absence).map(|_| absence).map_err(|error| error.to_string())
}

/// The schema bounds the number.
fn whole(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
