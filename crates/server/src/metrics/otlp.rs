//! The same metrics for OpenTelemetry: every family is an observable instrument.
//!
//! A histogram becomes three counters with Prometheus' names: OpenTelemetry's own would have to record every duration
//! when it happens, which costs a door too much.

use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter};
use tidegate::{Clock, SystemClock};

use super::catalog::{ALL, Family, Kind};
use super::sink::{Figure, Sink};
use super::{Metrics, WithFigures};

/// An export observes each instrument separately, within a moment. Meanwhile they share what was gathered.
const SHARED_US: u64 = 500_000;

/// Registers every family with a meter.
pub(crate) fn observe(meter: &Meter, metrics: &Arc<Metrics>, figures: &WithFigures) {
    let gathered = Arc::new(Mutex::new(Gathered::default()));
    for family in ALL {
        let suffixes: &[&str] = match family.kind {
            Kind::Histogram => &["_bucket", "_sum", "_count"],
            Kind::Counter | Kind::Gauge => &[""],
        };
        for suffix in suffixes {
            let (metrics, figures) = (metrics.clone(), figures.clone());
            let gathered = gathered.clone();
            let observe = move |to: &dyn AsyncInstrument<f64>| {
                let mut gathered = gathered.lock().unwrap_or_else(PoisonError::into_inner);
                gathered.refresh(&metrics, &figures);
                gathered.observe(family.name, suffix, to);
            };
            let name = format!("{}{suffix}", family.name);
            if family.kind == Kind::Gauge {
                let gauge = meter.f64_observable_gauge(name).with_description(family.help);
                gauge.with_callback(observe).build();
            } else {
                let counter = meter.f64_observable_counter(name).with_description(family.help);
                counter.with_callback(observe).build();
            }
        }
    }
}

/// All samples of one instant.
#[derive(Debug, Default)]
struct Gathered {
    at_us: u64,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    name: &'static str,
    suffix: &'static str,
    labels: Vec<KeyValue>,
    value: f64,
}

impl Gathered {
    fn refresh(&mut self, metrics: &Metrics, figures: &WithFigures) {
        let now_us = SystemClock.steady_us();
        if self.samples.is_empty() || now_us.saturating_sub(self.at_us) > SHARED_US {
            *self = Self { at_us: now_us, samples: Vec::new() };
            figures(&mut |figures| metrics.gather(figures, self));
        }
    }

    fn observe(&self, name: &str, suffix: &str, to: &dyn AsyncInstrument<f64>) {
        let samples = self.samples.iter();
        for sample in samples.filter(|it| it.name == name && it.suffix == suffix) {
            to.observe(sample.value, &sample.labels);
        }
    }
}

impl Sink for Gathered {
    fn family(&mut self, _: &Family) {}

    #[expect(clippy::cast_precision_loss, reason = "a count above 2^53 is read as a float anyway")]
    fn line<'a>(
        &mut self,
        family: &Family,
        suffix: &'static str,
        labels: impl Iterator<Item = (&'static str, &'a str)>,
        value: Figure,
    ) {
        let labels = labels.map(|(label, value)| KeyValue::new(label, value.to_owned())).collect();
        let value = match value {
            Figure::Whole(count) => count as f64,
            Figure::Real(figure) => figure,
        };
        self.samples.push(Sample { name: family.name, suffix, labels, value });
    }
}
