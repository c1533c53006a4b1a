//! What a controller remembers from tick to tick: small, and the same bytes on every node.

use std::time::Duration;

use super::number::float;
use super::warm_up::Warmth;
use super::{AdaptiveError, Settings};
use crate::time::{Timestamp, micros_up};

/// What a controller remembers.
///
/// Nodes that share a target keep it where all can read it: the first node in a tick steps it on, the others
/// read what came out. Equal versions are equal states, and so equal limits.
///
/// ```
/// use tidegate_core::Timestamp;
/// use tidegate_core::adaptive::{Controller, Reading, Settings, State};
///
/// let settings = Settings::default();
/// let mut first = Controller::new(settings.clone(), 1000)?;
/// first.step(&[Reading::Value(110.0), Reading::Missing], Timestamp::from_micros(1));
/// let mut second = Controller::new(settings.clone(), 1000)?;
/// second.resume(State::from_bytes(&first.state().to_bytes(), &settings)?);
/// assert_eq!(second.output(), first.output());
/// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    pub(super) version: u64,
    pub(super) stepped_at: Option<Timestamp>,
    pub(super) warmth: Warmth,
    pub(super) ceiling: f64,
    pub(super) chains: Vec<ChainState>,
}

/// What is remembered of one chain.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct ChainState {
    /// The smoothed position on the ramp.
    pub(super) average: Option<f64>,
    /// The pressure after hysteresis: 0 healthy, 1 overloaded.
    pub(super) pressure: f64,
    /// For how long nothing opens.
    pub(super) held: Duration,
    /// Ticks without a value, and for how long.
    pub(super) missed: u32,
    pub(super) silent: Duration,
    /// Failures in a row.
    pub(super) failed: u32,
}

/// Words per state and per chain, in bytes of eight.
const HEAD: usize = 5;
const CHAIN: usize = 6;
/// Stands for what is not there: no instant, no span and no average has these bits.
const NONE: u64 = u64::MAX;

impl State {
    pub(super) fn start(settings: &Settings) -> Self {
        Self {
            version: 0,
            stepped_at: None,
            warmth: settings.warm_up.start(),
            ceiling: 1.0,
            chains: vec![ChainState::default(); settings.chains().len()],
        }
    }

    /// How often it was stepped.
    ///
    /// ```
    /// # use tidegate_core::Timestamp;
    /// # use tidegate_core::adaptive::{Controller, Settings};
    /// let mut controller = Controller::new(Settings::default(), 1000)?;
    /// controller.step(&[], Timestamp::EPOCH);
    /// assert_eq!(controller.state().version(), 1);
    /// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
    /// ```
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Its bytes, to be kept where all nodes can read them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let span = |span: Option<Duration>| span.map_or(NONE, micros_up);
        let mut words = vec![
            self.version,
            self.stepped_at.map_or(NONE, Timestamp::as_micros),
            span(Some(self.warmth.near_closed)),
            span(self.warmth.warming),
            self.ceiling.to_bits(),
        ];
        for chain in &self.chains {
            words.extend([
                chain.average.map_or(NONE, f64::to_bits),
                chain.pressure.to_bits(),
                span(Some(chain.held)),
                chain.missed.into(),
                span(Some(chain.silent)),
                chain.failed.into(),
            ]);
        }
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// Reads it back, for the same chains. Numbers that no controller writes are refused.
    pub fn from_bytes(bytes: &[u8], settings: &Settings) -> Result<Self, AdaptiveError> {
        let (words, rest) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        if !rest.is_empty() || words.len() != HEAD + CHAIN * settings.chains().len() {
            return Err(AdaptiveError::NotAState);
        }
        let (head, chains) = words.split_at(HEAD);
        let chains = chains.as_chunks::<CHAIN>().0.iter().map(ChainState::read);
        Ok(Self {
            version: head[0],
            stepped_at: (head[1] != NONE).then(|| Timestamp::from_micros(head[1])),
            warmth: Warmth {
                near_closed: Duration::from_micros(head[2]),
                warming: (head[3] != NONE).then(|| Duration::from_micros(head[3])),
            },
            ceiling: share(head[4]).ok_or(AdaptiveError::NotAState)?,
            chains: chains.collect::<Option<_>>().ok_or(AdaptiveError::NotAState)?,
        })
    }
}

impl ChainState {
    fn read(words: &[u64; CHAIN]) -> Option<Self> {
        let [average, pressure, held, missed, silent, failed] = *words;
        let average = match average {
            NONE => None,
            bits => Some(f64::from_bits(bits)).filter(|it| it.abs() <= float(1))?.into(),
        };
        Some(Self {
            average,
            pressure: share(pressure)?,
            held: Duration::from_micros(held),
            missed: u32::try_from(missed).ok()?,
            silent: Duration::from_micros(silent),
            failed: u32::try_from(failed).ok()?,
        })
    }
}

fn share(bits: u64) -> Option<f64> {
    Some(f64::from_bits(bits)).filter(|share| (0.0..=1.0).contains(share))
}
