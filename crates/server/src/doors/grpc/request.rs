//! A rate limit request, decoded from protobuf or JSON. Strings are borrowed from the input.

use smallvec::SmallVec;
use tidegate::{EXACT_MAX, Op};

use tidegate_config::envoy::{Entry, Unit};

/// Maximum descriptors of one request.
pub(super) const DESCRIPTORS_MAX: usize = 64;
/// Maximum entries of one descriptor.
pub(super) const ENTRIES_MAX: usize = 64;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Request<'a> {
    pub(super) domain: &'a str,
    pub(super) descriptors: SmallVec<[Descriptor<'a>; 2]>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Descriptor<'a> {
    pub(super) entries: SmallVec<[Entry<'a>; 2]>,
    /// A limit that replaces the rule's.
    pub(super) limit: Option<RequestLimit>,
    pub(super) hits: Hits,
}

/// A limit sent with the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RequestLimit {
    pub(super) requests_per_unit: u32,
    pub(super) unit: Unit,
}

/// What a descriptor charges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hits {
    Spend(u64),
    /// Charges nothing: asks whether one more hit would be allowed.
    Peek,
    Refund(u64),
}

/// Why a request is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BadRequest(pub(super) String);

impl BadRequest {
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
    pub(super) const fn op(self) -> Op {
        match self {
            Self::Spend(_) => Op::Take,
            Self::Peek => Op::Peek,
            Self::Refund(_) => Op::Refund,
        }
    }

    pub(super) const fn spends(&self) -> bool {
        matches!(self, Self::Spend(_))
    }

    /// The descriptor's `hits_addend`, or else the request's, where 0 is unset and means 1.
    pub(super) fn from_addend(
        own: Option<u64>,
        is_negative: bool,
        of_request: u32,
    ) -> Result<Self, BadRequest> {
        let hits = own.unwrap_or_else(|| u64::from(of_request.max(1)));
        if hits > EXACT_MAX {
            return Err(BadRequest::new(format!("hits_addend {hits} is above {EXACT_MAX}")));
        }
        Ok(match (hits, is_negative) {
            (0, _) => Self::Peek,
            (hits, false) => Self::Spend(hits),
            (hits, true) => Self::Refund(hits),
        })
    }
}

impl Request<'_> {
    /// Validates what the types cannot express.
    pub(super) fn checked(self) -> Result<Self, BadRequest> {
        if self.domain.is_empty() {
            return Err(BadRequest::new("rate limit domain must not be empty"));
        }
        if self.descriptors.is_empty() {
            return Err(BadRequest::new("rate limit descriptor list must not be empty"));
        }
        // Rejected before anything is charged: the engine refunds by its configured limits only.
        let gives_back = |it: &Descriptor<'_>| matches!(it.hits, Hits::Refund(_));
        if self.descriptors.iter().any(|it| it.limit.is_some() && gives_back(it)) {
            return Err(BadRequest::new(
                "is_negative_hits does not go with a limit of the descriptor's own",
            ));
        }
        Ok(self)
    }
}
