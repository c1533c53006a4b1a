//! What a `FaultProxy` does to the bytes that pass.

use std::time::Duration;

/// Nothing, unless told.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Nobody listens: new connections are refused, those that are open stay.
    pub refuse: bool,
    /// Every connection, open or new, is ended with a RST.
    pub reset: bool,
    pub to_server: Way,
    pub to_client: Way,
}

/// What happens to the bytes that go one way. Counts begin for each connection when the fault is set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Way {
    /// Each byte arrives so much later, whatever else is on its way.
    pub delay: Duration,
    /// Nothing arrives, also no end; what was sent meanwhile arrives afterwards, as TCP has it.
    pub blackhole: bool,
    /// So many bytes arrive, and where the next should be the connection ends.
    pub truncate_after_bytes: Option<usize>,
    /// All bits of this byte are flipped; the first is 0.
    pub corrupt_at_byte: Option<usize>,
    /// One byte at a time, with this pause after each.
    pub drip_every: Option<Duration>,
}

impl Faults {
    pub fn refuse() -> Self {
        Self { refuse: true, ..Self::default() }
    }

    pub fn reset() -> Self {
        Self { reset: true, ..Self::default() }
    }

    pub fn to_server(way: Way) -> Self {
        Self { to_server: way, ..Self::default() }
    }

    pub fn to_client(way: Way) -> Self {
        Self { to_client: way, ..Self::default() }
    }

    pub fn both_ways(way: Way) -> Self {
        Self { to_server: way, to_client: way, ..Self::default() }
    }
}

impl Way {
    pub fn delay(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    pub fn blackhole() -> Self {
        Self { blackhole: true, ..Self::default() }
    }

    pub fn truncate_after_bytes(count: usize) -> Self {
        Self { truncate_after_bytes: Some(count), ..Self::default() }
    }

    pub fn corrupt_at_byte(index: usize) -> Self {
        Self { corrupt_at_byte: Some(index), ..Self::default() }
    }

    pub fn drip_every(pause: Duration) -> Self {
        Self { drip_every: Some(pause), ..Self::default() }
    }
}
