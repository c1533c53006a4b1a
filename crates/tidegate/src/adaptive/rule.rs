//! Rules: the signals that move a limit, and their sources.

use tidegate_core::adaptive::{AdaptiveError, Chain, Priority, Reading, Settings};

use super::Target;
use crate::effective::Effective;

/// Where the readings of a chain come from.
///
/// ```
/// use tidegate::adaptive::{Adaptive, Chain, Rule, Source};
///
/// let adaptive = Adaptive::default();
/// let database = adaptive.target("db");
/// let rule = Rule::from_chains([
///     (Chain::queue_wait(), Source::QueueWait(database.clone())),
///     (Chain::errors(), Source::Errors(database.clone())),
///     (Chain::pressure("pool"), Source::Pushed(adaptive.target("pool"))),
///     (Chain::cpu(), Source::Cpu),
/// ])?;
/// adaptive.govern("search", 1000, rule)?;
/// # Ok::<(), tidegate::adaptive::AdaptiveError>(())
/// ```
#[derive(Clone, Debug)]
pub enum Source {
    /// How long requests wait in the queue of a target, in milliseconds.
    QueueWait(Target),
    /// The share of requests to a target that fail.
    Errors(Target),
    /// What is [pushed](Target::push) to a target.
    Pushed(Target),
    /// How busy the processors are that this process may use: its control group's on Linux, else all of the machine's.
    /// Missing elsewhere.
    Cpu,
}

/// What moves a limit.
///
/// ```
/// use tidegate::adaptive::{Adaptive, Chain, Mode, Priority, Ramp, Rule, Source};
///
/// let adaptive = Adaptive::default();
/// let database = adaptive.target("db");
/// // How long its queue is and what fails, with 5 units left at worst; only to see what it would do.
/// let rule = Rule::observing(&database).settings(|it| Ok(it.floor(5)?.mode(Mode::Shadow)))?;
/// adaptive.govern("search", 1000, rule)?;
/// // Exports give way before that.
/// adaptive.govern("export", 50, Rule::observing(&database).priority(Priority::Batch))?;
/// # Ok::<(), tidegate::adaptive::AdaptiveError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) settings: Settings,
    /// One per chain.
    pub(super) sources: Vec<Source>,
    pub(super) priority: Option<Priority>,
    pub(super) guard: Option<Effective>,
}

impl Source {
    /// The current reading, and its weight among other nodes.
    pub(super) fn read(&self, cpu: Reading) -> (Reading, u64) {
        match self {
            Self::QueueWait(target) => (target.seen().queue_wait, target.seen().count),
            Self::Errors(target) => (target.seen().errors, target.seen().count),
            Self::Pushed(target) => target.pushed(),
            Self::Cpu => (cpu, 1),
        }
    }

    pub(super) fn target(&self) -> Option<&Target> {
        match self {
            Self::QueueWait(target) | Self::Errors(target) | Self::Pushed(target) => Some(target),
            Self::Cpu => None,
        }
    }
}

impl Rule {
    /// Chains, and where their readings come from. The smallest limit among theirs counts.
    pub fn from_chains(
        chains: impl IntoIterator<Item = (Chain, Source)>,
    ) -> Result<Self, AdaptiveError> {
        // One more than there may be, for the settings to notice.
        let (chains, sources): (Vec<_>, Vec<_>) = chains.into_iter().take(17).unzip();
        let settings = Settings::from_chains(chains)?;
        Ok(Self { settings, sources, priority: None, guard: None })
    }

    /// The usual: how long requests to a target wait, and how many fail.
    pub fn observing(target: &Target) -> Self {
        let sources = vec![Source::QueueWait(target.clone()), Source::Errors(target.clone())];
        Self { settings: Settings::default(), sources, priority: None, guard: None }
    }

    /// With other settings for all chains together.
    pub fn settings(
        mut self,
        change: impl FnOnce(Settings) -> Result<Settings, AdaptiveError>,
    ) -> Result<Self, AdaptiveError> {
        self.settings = change(self.settings)?;
        Ok(self)
    }

    /// For requests of one priority: those below give way first, on ramps of their own.
    #[must_use]
    pub const fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Sets this by the [guard](Settings::guard) of the settings: what all keys together may have.
    ///
    /// ```
    /// # use tidegate::adaptive::{Adaptive, Rule};
    /// # use tidegate::{Effective, Engine, Policy};
    /// let (adaptive, all) = (Adaptive::default(), Effective::default());
    /// let rule = Rule::observing(&adaptive.target("db")).settings(|it| it.guard(4000))?.guard(&all);
    /// let each = adaptive.govern("search", 10, rule)?;
    /// let search = Policy::all()
    ///     .limit_by("client", "ip", "10/s")
    ///     .adaptive("client", &each)
    ///     .limit_by("all", "everybody", "4000/s") // asked with the same value for everybody
    ///     .adaptive("all", &all);
    /// # assert!(Engine::builder().policy("search", search).build().is_ok());
    /// # Ok::<(), tidegate::adaptive::AdaptiveError>(())
    /// ```
    #[must_use]
    pub fn guard(mut self, guard: &Effective) -> Self {
        self.guard = Some(guard.clone());
        self
    }
}
