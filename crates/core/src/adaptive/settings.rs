//! What is chosen for one limit: its chains, and what they share.

use super::{AdaptiveError, Chain, WarmUp};

/// More chains than this on one limit are a mistake.
const CHAINS_MAX: usize = 16;

/// Whether what comes out counts.
///
/// ```
/// use tidegate_core::Timestamp;
/// use tidegate_core::adaptive::{Chain, Controller, Mode, Reading, Settings, WarmUp};
///
/// let limit = |mode| -> Result<_, tidegate_core::adaptive::AdaptiveError> {
///     let settings = Settings::from_chains([Chain::pressure("db")])?.mode(mode).warm_up(WarmUp::NONE);
///     let output = Controller::new(settings, 100)?.step(&[Reading::Value(0.3)], Timestamp::EPOCH);
///     Ok((output.limit, output.computed))
/// };
/// assert_eq!(limit(Mode::Off)?, (100, 100));
/// assert_eq!(limit(Mode::Shadow)?, (100, 70));
/// assert_eq!(limit(Mode::Enforce)?, (70, 70));
/// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Mode {
    /// Nothing is computed; the limit is as it was declared.
    Off,
    /// Computed and reported, but the limit stays as it was declared.
    Shadow,
    /// The limit in force is what comes out.
    #[default]
    Enforce,
}

/// The chains of one limit, and what they share: checked, so that no step has to.
///
/// ```
/// use tidegate_core::adaptive::{AdaptiveError, Chain, Mode, Settings};
///
/// let settings = Settings::from_chains([Chain::pressure("db"), Chain::cpu()])?
///     .mode(Mode::Shadow)
///     .floor(5)?
///     .guard(10_000)?;
/// assert_eq!(settings.chains().len(), 2);
/// assert_eq!(Settings::from_chains([]), Err(AdaptiveError::NoChain));
/// assert_eq!(Settings::default().floor(0), Err(AdaptiveError::ZeroFloor));
/// # Ok::<(), AdaptiveError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    chains: Vec<Chain>,
    pub(super) mode: Mode,
    pub(super) floor: u64,
    pub(super) guard: Option<u64>,
    pub(super) warm_up: WarmUp,
}

impl Default for Settings {
    /// The wait in the queue, and errors beside it.
    fn default() -> Self {
        Self::with(vec![Chain::queue_wait(), Chain::errors()])
    }
}

impl Settings {
    /// Settings with these chains; the smallest limit among theirs counts.
    pub fn from_chains(chains: impl IntoIterator<Item = Chain>) -> Result<Self, AdaptiveError> {
        let chains: Vec<Chain> = chains.into_iter().take(CHAINS_MAX + 1).collect();
        if chains.is_empty() {
            return Err(AdaptiveError::NoChain);
        }
        if chains.len() > CHAINS_MAX {
            return Err(AdaptiveError::TooManyChains(chains.len()));
        }
        for (index, chain) in chains.iter().enumerate() {
            if chains[..index].iter().any(|other| other.name() == chain.name()) {
                return Err(AdaptiveError::SameName(chain.name().to_owned()));
            }
        }
        Ok(Self::with(chains))
    }

    fn with(chains: Vec<Chain>) -> Self {
        Self { chains, mode: Mode::Enforce, floor: 1, guard: None, warm_up: WarmUp::default() }
    }

    /// Whether what comes out counts.
    #[must_use]
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// The least that is left for each key; 1 by default. Above the limit it is the limit.
    pub fn floor(mut self, floor: u64) -> Result<Self, AdaptiveError> {
        if floor == 0 {
            return Err(AdaptiveError::ZeroFloor);
        }
        self.floor = floor;
        Ok(self)
    }

    /// What all keys together may have while all is well. It falls with the limit, and is needed because each
    /// key keeps its floor: 4,000 keys with one unit a second each are 4,000 a second.
    pub fn guard(mut self, units: u64) -> Result<Self, AdaptiveError> {
        match units {
            0 => return Err(AdaptiveError::ZeroGuard),
            too_large if too_large > crate::EXACT_MAX => {
                return Err(AdaptiveError::LimitTooLarge(too_large));
            }
            _ => self.guard = Some(units),
        }
        Ok(self)
    }

    /// How what was near closed comes back.
    #[must_use]
    pub const fn warm_up(mut self, warm_up: WarmUp) -> Self {
        self.warm_up = warm_up;
        self
    }

    /// The chains, in the order in which their readings are given.
    pub fn chains(&self) -> &[Chain] {
        &self.chains
    }
}
