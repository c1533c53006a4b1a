//! One run: clients, admission, the backend behind it, and readings once a second.

use std::collections::VecDeque;

use tidegate_core::Timestamp;
use tidegate_core::adaptive::{Observed, Reading};

use super::admission::{Admission, ControllerKind, Signal};
use super::backend::{Backend, CLIENT_TIMEOUT_US, Client, Event, Request, WORKERS};
use super::meter::Meter;
use super::scenario::{Fault, Scenario};
use crate::rng::Rng;
use crate::{InputError, START_US, StopFlag, float};

const TICK_US: u64 = 1_000_000;

pub(super) struct World<'a> {
    scenario: &'a Scenario,
    rng: Rng,
    admission: Admission,
    backend: Backend,
    observed: Observed,
    /// Readings that have not arrived yet.
    late: VecDeque<Signal>,
    meter: Meter,
}

/// Runs a scenario from its beginning to its end, or until it is stopped.
pub(super) fn run(
    scenario: &Scenario,
    kind: ControllerKind,
    limit: u64,
    seed: u64,
    stop: &StopFlag,
) -> Result<Meter, InputError> {
    let world = World {
        scenario,
        rng: Rng::new(seed, 0),
        admission: Admission::new(kind, limit)?,
        backend: Backend::new(seed, scenario.speed(0)),
        observed: Observed::with_pool(WORKERS),
        late: VecDeque::new(),
        meter: Meter::new(scenario),
    };
    Ok(world.run(stop))
}

fn at(us: u64) -> Timestamp {
    Timestamp::from_micros(START_US + us)
}

impl World<'_> {
    fn run(mut self, stop: &StopFlag) -> Meter {
        let end_us = self.scenario.ends_s() * TICK_US;
        let (mut arrival_us, mut tick_us) = (self.gap_us(0), TICK_US);
        loop {
            let event_us = self.backend.next_us();
            let now_us = event_us.min(arrival_us).min(tick_us);
            if now_us >= end_us || stop.is_stopped() {
                return self.meter;
            }
            if now_us == event_us {
                self.step(now_us);
            } else if now_us == arrival_us {
                let is_bot = self.rng.below(100) < self.scenario.bots_percent;
                self.arrive(now_us, Client { is_retry: false, is_bot });
                arrival_us += self.gap_us(now_us / TICK_US);
            } else {
                self.tick(now_us);
                tick_us += TICK_US;
            }
        }
    }

    /// Clients are independent: the time between two is exponential.
    fn gap_us(&mut self, second: u64) -> u64 {
        let mean_us = TICK_US / self.scenario.load(second).max(1);
        (self.rng.exponential() * mean_us) >> 32
    }

    fn arrive(&mut self, now_us: u64, client: Client) {
        if !self.admission.admits(at(now_us), self.backend.in_flight(), client.is_bot) {
            self.meter.refused += 1;
            self.meter.false_rejects += u64::from(self.scenario.is_calm(now_us / TICK_US));
        } else if self.backend.take(now_us, client) {
            self.observed.begin(at(now_us));
        }
    }

    fn step(&mut self, now_us: u64) {
        match self.backend.step(now_us) {
            Some(Event::Served { request, in_time }) => {
                let took_us = now_us - request.arrived_us;
                self.meter.served(now_us, took_us, in_time, request.client.is_bot);
                if in_time {
                    self.observed.end(at(request.arrived_us), at(now_us), true);
                }
            }
            Some(Event::TimedOut { request: Request { arrived_us, client, .. }, retries }) => {
                self.observed.end(at(arrived_us), at(arrived_us + CLIENT_TIMEOUT_US), false);
                if retries {
                    self.arrive(now_us, Client { is_retry: true, ..client });
                }
            }
            None => {}
        }
    }

    fn tick(&mut self, now_us: u64) {
        let second = now_us / TICK_US;
        self.backend.speed = self.scenario.speed(second);
        let busy_us = self.backend.take_busy_us(now_us);
        let read = Signal {
            cpu: Reading::Value(float(busy_us) / float(WORKERS * TICK_US)),
            seen: self.observed.tick(at(now_us), self.admission.pressure()),
            in_flight: self.backend.in_flight(),
        };
        self.late.push_back(match self.scenario.fault(second) {
            Fault::None => read,
            // A probe fails, and reports of others stay away.
            Fault::Outage => read.read_as(Reading::Failed, Reading::Missing),
            Fault::NotANumber => read.read_as(Reading::Value(f64::NAN), Reading::Value(f64::NAN)),
        });
        if self.late.len() > self.scenario.delay_ticks
            && let Some(signal) = self.late.pop_front()
        {
            self.admission.tick(&signal, at(now_us));
        }
    }
}
