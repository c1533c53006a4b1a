//! One run: visitors, a gate, the plant behind it, and what is read of it once a second.

use std::collections::VecDeque;

use tidegate_core::Timestamp;
use tidegate_core::adaptive::{Observed, Reading};

use super::gate::{Gate, Signal, Way};
use super::meter::{Meter, Outcome};
use super::plant::{Event, PATIENCE_US, Plant, Visitor, WORKERS};
use super::scenario::{Fault, Scenario};
use crate::chance::Chance;
use crate::{START_US, Unfit, float};

const TICK_US: u64 = 1_000_000;

pub(super) struct World<'a> {
    scenario: &'a Scenario,
    chance: Chance,
    gate: Gate,
    plant: Plant,
    observed: Observed,
    /// What was read and did not arrive yet.
    late: VecDeque<Signal>,
    meter: Meter,
}

/// Runs a scenario from its beginning to its end.
pub(super) fn run(scenario: &Scenario, way: Way, limit: u64, seed: u64) -> Result<Outcome, Unfit> {
    let world = World {
        scenario,
        chance: Chance::new(seed, 0),
        gate: Gate::new(way, limit)?,
        plant: Plant::new(seed, scenario.pace(0)),
        observed: Observed::with_pool(WORKERS),
        late: VecDeque::new(),
        meter: Meter::new(scenario),
    };
    Ok(world.run())
}

fn at(us: u64) -> Timestamp {
    Timestamp::from_micros(START_US + us)
}

impl World<'_> {
    fn run(mut self) -> Outcome {
        let end_us = self.scenario.ends_s() * TICK_US;
        let (mut visit_us, mut tick_us) = (self.gap_us(0), TICK_US);
        loop {
            let event_us = self.plant.next_us();
            let now_us = event_us.min(visit_us).min(tick_us);
            if now_us >= end_us {
                return self.meter.outcome(self.scenario);
            }
            if now_us == event_us {
                self.happen(now_us);
            } else if now_us == visit_us {
                let is_bot = self.chance.below(100) < self.scenario.bots_percent;
                self.visit(now_us, Visitor { is_again: false, is_bot });
                visit_us += self.gap_us(now_us / TICK_US);
            } else {
                self.tick(now_us);
                tick_us += TICK_US;
            }
        }
    }

    /// Visitors know nothing of each other: the time between two is exponential.
    fn gap_us(&mut self, second: u64) -> u64 {
        let mean_us = TICK_US / self.scenario.load(second).max(1);
        (self.chance.exponential() * mean_us) >> 32
    }

    fn visit(&mut self, now_us: u64, visitor: Visitor) {
        if !self.gate.admits(at(now_us), self.plant.in_flight(), visitor.is_bot) {
            self.meter.refused += 1;
            self.meter.refused_in_vain += u64::from(self.scenario.is_calm(now_us / TICK_US));
        } else if self.plant.take(now_us, visitor) {
            self.observed.begin(at(now_us));
        }
    }

    fn happen(&mut self, now_us: u64) {
        match self.plant.happen(now_us) {
            Some(Event::Served { request, in_time }) => {
                let took_us = now_us - request.came_us;
                self.meter.served(now_us, took_us, in_time, request.is_bot);
                if in_time {
                    self.observed.end(at(request.came_us), at(now_us), true);
                }
            }
            Some(Event::GivenUp { came_us, tries_again, is_bot }) => {
                self.observed.end(at(came_us), at(came_us + PATIENCE_US), false);
                if tries_again {
                    self.visit(now_us, Visitor { is_again: true, is_bot });
                }
            }
            None => {}
        }
    }

    fn tick(&mut self, now_us: u64) {
        let second = now_us / TICK_US;
        self.plant.pace = self.scenario.pace(second);
        let busy_us = self.plant.take_busy_us(now_us);
        let read = Signal {
            cpu: Reading::Value(float(busy_us) / float(WORKERS * TICK_US)),
            seen: self.observed.tick(at(now_us), self.gate.pressure()),
            in_flight: self.plant.in_flight(),
        };
        self.late.push_back(match self.scenario.fault(second) {
            Fault::None => read,
            // A probe fails, and what others tell of themselves stays away.
            Fault::Outage => read.read_as(Reading::Failed, Reading::Missing),
            Fault::NotANumber => read.read_as(Reading::Value(f64::NAN), Reading::Value(f64::NAN)),
        });
        if self.late.len() > self.scenario.delay_ticks
            && let Some(signal) = self.late.pop_front()
        {
            self.gate.tick(&signal, at(now_us));
        }
    }
}
