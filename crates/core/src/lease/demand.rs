//! How much to ask for: what is likely to be spent within half the life of a lease, and nothing ahead on a cold
//! key.

/// Fewer units than this within half a life are not worth taking ahead: too often one of them would be left
/// over, and what a lease leaves over is lost for GCRA.
const LEAST_AHEAD: u64 = 4;

/// What is asked of one key on one node, over time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// Half the life of a lease: the span over which demand is measured and units are taken ahead.
    span_us: u64,
    /// What was asked for since then.
    since_us: u64,
    offered: u64,
    last_us: u64,
    pub(super) last_cost: u64,
    /// What is expected to be asked for within a span.
    per_span: u64,
}

impl Demand {
    pub(super) fn new(ttl_us: u64) -> Self {
        let span_us = (ttl_us / 2).max(1);
        Self { span_us, since_us: 0, offered: 0, last_us: 0, last_cost: 0, per_span: 0 }
    }

    #[inline]
    pub(super) fn note(&mut self, now_us: u64, cost: u64) {
        self.offered = self.offered.saturating_add(cost);
        (self.last_us, self.last_cost) = (now_us, cost);
    }

    /// Updates the expected demand from the checks since the last update, once that is a whole span.
    pub(super) fn measure(&mut self, now_us: u64) {
        let elapsed_us = now_us.saturating_sub(self.since_us);
        if elapsed_us < self.span_us {
            return;
        }
        let sample = self.offered.saturating_mul(self.span_us) / elapsed_us;
        // After a while without a check the old measure does not count.
        let stale = elapsed_us >= 4 * self.span_us;
        self.per_span = if stale { sample } else { self.per_span.midpoint(sample) };
        (self.since_us, self.offered) = (now_us, 0);
    }

    /// Units worth taking ahead; 0 on a cold key. Once far more has come than was expected, that counts as it is: a key
    /// which is suddenly hot then takes twice as much each time, instead of asking for every unit until a span is
    /// over.
    pub(super) fn ahead(&self) -> u64 {
        let surge = self.offered > self.per_span.saturating_mul(2);
        let expected = if surge { self.offered } else { self.per_span };
        if expected < LEAST_AHEAD { 0 } else { expected }
    }

    /// What is spent within `us`, rounded up.
    pub(super) fn within(&self, us: u64) -> u64 {
        self.ahead().saturating_mul(us).div_ceil(self.span_us)
    }

    /// When demand will have stopped, if nothing more is asked: eight times the usual gap after the last
    /// question, so that a random gap is rarely taken for the end (e^−8), but at most half a life.
    pub(super) fn stops_us(&self) -> u64 {
        let gap_us = self.span_us / self.per_span.max(1);
        self.last_us + (8 * gap_us).clamp(self.span_us / 8, self.span_us)
    }
}
