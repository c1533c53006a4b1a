//! The faults that a `FaultProxy` can inject.

use std::time::Duration;

/// The default injects no fault.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Stops listening: new connections are refused, open ones stay.
    pub refuse: bool,
    /// Resets every connection, open or new.
    pub reset: bool,
    pub to_server: Way,
    pub to_client: Way,
}

/// The faults in one direction. Byte counts start for each connection when the fault is set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Way {
    /// Delays every byte by this time.
    pub delay: Duration,
    /// Nothing arrives, not even the end of the stream. Bytes that are sent meanwhile arrive afterwards, as with TCP.
    pub blackhole: bool,
    /// The connection ends after this many bytes.
    pub truncate_after_bytes: Option<usize>,
    /// Flips all bits of the byte at this index.
    pub corrupt_at_byte: Option<usize>,
    /// Sends one byte at a time, with this pause after each.
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
