//! What was asked, whether it came as protobuf or as JSON. Text is borrowed from what was sent.

use smallvec::SmallVec;
use tidegate::{EXACT_MAX, Op};

use tidegate_config::envoy::{Entry, Unit};

/// The most descriptors of one request.
pub(super) const DESCRIPTORS_MAX: usize = 64;
/// The most entries of one descriptor.
pub(super) const ENTRIES_MAX: usize = 64;

/// A question: one domain, some descriptors.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Request<'a> {
    pub(super) domain: &'a str,
    pub(super) descriptors: SmallVec<[Descriptor<'a>; 2]>,
}

/// Who is asking, in one respect.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Descriptor<'a> {
    pub(super) entries: SmallVec<[Entry<'a>; 2]>,
    /// A limit instead of the rule's.
    pub(super) limit: Option<OwnLimit>,
    pub(super) hits: Hits,
}

/// A limit that came with the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OwnLimit {
    pub(super) requests_per_unit: u32,
    pub(super) unit: Unit,
}

/// What a descriptor spends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hits {
    Spend(u64),
    /// Nothing: it asks whether one more would be admitted.
    Peek,
    GiveBack(u64),
}

/// A request that cannot be answered, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Bad(pub(super) String);

impl Bad {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl Default for Hits {
    fn default() -> Self {
        Self::Spend(1)
    }
}

impl Hits {
    /// What the engine is asked to do.
    pub(super) const fn op(self) -> Op {
        match self {
            Self::Spend(_) => Op::Take,
            Self::Peek => Op::Peek,
            Self::GiveBack(_) => Op::Refund,
        }
    }

    pub(super) const fn spends(&self) -> bool {
        matches!(self, Self::Spend(_))
    }

    /// What a descriptor's own number means, or else the request's, where 0 is not said and means 1.
    pub(super) fn from_addend(
        own: Option<u64>,
        is_negative: bool,
        of_request: u32,
    ) -> Result<Self, Bad> {
        let hits = own.unwrap_or_else(|| u64::from(of_request.max(1)));
        if hits > EXACT_MAX {
            return Err(Bad::new(format!("hits_addend {hits} is above {EXACT_MAX}")));
        }
        Ok(match (hits, is_negative) {
            (0, _) => Self::Peek,
            (hits, false) => Self::Spend(hits),
            (hits, true) => Self::GiveBack(hits),
        })
    }
}

impl Request<'_> {
    /// Checks what the types alone cannot say.
    pub(super) fn checked(self) -> Result<Self, Bad> {
        if self.domain.is_empty() {
            return Err(Bad::new("rate limit domain must not be empty"));
        }
        if self.descriptors.is_empty() {
            return Err(Bad::new("rate limit descriptor list must not be empty"));
        }
        // Told before anything is charged: the engine gives back by the limits that it knows.
        let gives_back = |it: &Descriptor<'_>| matches!(it.hits, Hits::GiveBack(_));
        if self.descriptors.iter().any(|it| it.limit.is_some() && gives_back(it)) {
            return Err(Bad::new(
                "is_negative_hits does not go with a limit of the descriptor's own",
            ));
        }
        Ok(self)
    }
}
