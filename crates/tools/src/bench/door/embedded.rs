//! The library itself, with its store in memory.

use std::sync::Arc;

use tidegate::{Check, Engine, Key, Op};

use super::{Answers, Kind, Trouble};

/// Decisions that are timed together: each takes about as long as it takes to read the clock.
pub(in super::super) const AT_ONCE: u64 = 64;

#[derive(Clone, Debug)]
pub(in super::super) struct Line {
    engine: Arc<Engine>,
    policy: Arc<str>,
    cost: u64,
}

impl Line {
    /// The error says why the policy cannot be asked.
    pub(in super::super) fn new(engine: Engine, policy: &str, cost: u32) -> Result<Self, String> {
        let check = Check { policy, key: Key::One(b"anybody"), cost: cost.into() };
        engine.validate(&check, Op::Take).map_err(|error| error.to_string())?;
        Ok(Self { engine: engine.into(), policy: policy.into(), cost: cost.into() })
    }

    pub(super) fn exchange<'k>(&self, keys: impl Iterator<Item = &'k str>) -> Answers {
        let mut answers = Answers::default();
        for key in keys {
            let key = Key::One(key.as_bytes());
            let check = Check { policy: &self.policy, key, cost: self.cost };
            let answer = self.engine.ask(&check, Op::Take).now();
            answers.add(
                answer
                    .map(|answer| answer.decision.allowed())
                    .map_err(|error| Trouble::new(Kind::Refused, error.to_string())),
            );
        }
        answers
    }
}
