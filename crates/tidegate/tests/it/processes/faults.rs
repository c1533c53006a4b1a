//! What a `FaultProxy` does to the bytes that pass.

use std::time::Duration;

/// Nothing, unless told.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Faults {
    /// Nobody listens: new connections are refused, those that are open stay.
    pub(crate) refuse: bool,
    /// Every connection, open or new, is ended with a RST.
    pub(crate) reset: bool,
    pub(crate) to_server: Way,
    pub(crate) to_client: Way,
}

/// What happens to the bytes that go one way. Counts begin for each connection when the fault is set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Way {
    /// Each byte arrives so much later, whatever else is on its way.
    pub(crate) delay: Duration,
    /// Nothing arrives, also no end; what was sent meanwhile arrives afterwards, as TCP has it.
    pub(crate) blackhole: bool,
    /// So many bytes arrive, and where the next should be the connection ends.
    pub(crate) truncate_after_bytes: Option<usize>,
    /// All bits of this byte are flipped; the first is 0.
    pub(crate) corrupt_at_byte: Option<usize>,
    /// One byte at a time, with this pause after each.
    pub(crate) drip_every: Option<Duration>,
}

impl Faults {
    pub(crate) fn refuse() -> Self {
        Self { refuse: true, ..Self::default() }
    }

    pub(crate) fn reset() -> Self {
        Self { reset: true, ..Self::default() }
    }

    pub(crate) fn to_server(way: Way) -> Self {
        Self { to_server: way, ..Self::default() }
    }

    pub(crate) fn to_client(way: Way) -> Self {
        Self { to_client: way, ..Self::default() }
    }

    pub(crate) fn both_ways(way: Way) -> Self {
        Self { to_server: way, to_client: way, ..Self::default() }
    }
}

impl Way {
    pub(crate) fn delay(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    pub(crate) fn blackhole() -> Self {
        Self { blackhole: true, ..Self::default() }
    }

    pub(crate) fn truncate_after_bytes(count: usize) -> Self {
        Self { truncate_after_bytes: Some(count), ..Self::default() }
    }

    pub(crate) fn corrupt_at_byte(index: usize) -> Self {
        Self { corrupt_at_byte: Some(index), ..Self::default() }
    }

    pub(crate) fn drip_every(pause: Duration) -> Self {
        Self { drip_every: Some(pause), ..Self::default() }
    }
}
