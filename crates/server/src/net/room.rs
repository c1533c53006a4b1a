//! The memory that clients can make the server hold: what they have sent in part, and what they have not read. Each kind has
//! a bound over all connections of all doors, and one client may take a part of it only.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::clients::ClientUsage;

/// Bodies, commands and transactions that are not complete.
pub(crate) static REQUESTS: Room = Room::new(RoomKind::Requests, 64 << 20);
/// The same for bodies of up to 4 KiB, that large ones must not keep out.
pub(crate) static SMALL_REQUESTS: Room = Room::new(RoomKind::SmallRequests, 32 << 20);
/// Bodies that the proxy reads before it forwards them. Its clients are the public: they do not keep out the bodies of other
/// doors.
pub(crate) static READ_AHEAD: Room = Room::new(RoomKind::ReadAhead, 64 << 20);
/// Answers that clients have not read.
pub(crate) static ANSWERS: Room = Room::new(RoomKind::Answers, 64 << 20);

/// The part of a room that one client may take.
const CLIENT_PART: usize = 4;

/// A client has a part of each kind: whoever leaves answers unread can still ask, and a large body keeps no small one out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RoomKind {
    Requests,
    SmallRequests,
    ReadAhead,
    Answers,
}

/// What one client holds of each kind.
#[derive(Default, Debug)]
pub(crate) struct HeldBytes([AtomicUsize; 4]);

/// A bound on bytes. Relaxed ordering is enough: nothing else depends on the count.
#[derive(Debug)]
pub(crate) struct Room {
    kind: RoomKind,
    used: AtomicUsize,
    bytes_max: usize,
}

/// Bytes of a room, until dropped.
#[derive(Debug)]
pub(crate) struct Reserved<'r> {
    room: &'r Room,
    bytes: usize,
    client: Option<Arc<ClientUsage>>,
}

impl HeldBytes {
    fn of(&self, kind: RoomKind) -> &AtomicUsize {
        &self.0[kind as usize]
    }
}

impl Room {
    pub(crate) const fn new(kind: RoomKind, bytes_max: usize) -> Self {
        Self { kind, used: AtomicUsize::new(0), bytes_max }
    }

    /// Reserves `bytes`, or none of them, for a client, if it is known. Does not wait: their holders may be slow clients. Whoever holds nothing may take any size that fits.
    pub(crate) fn reserve_for(
        &self,
        client: Option<&Arc<ClientUsage>>,
        bytes: usize,
    ) -> Option<Reserved<'_>> {
        let mut reserved = Reserved { room: self, bytes: 0, client: client.cloned() };
        reserved.grow(bytes).then_some(reserved)
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }
}

impl Reserved<'_> {
    /// Reserves more; false if there is no room.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let client = self.client.as_ref().map(|client| client.held_bytes.of(self.room.kind));
        if client.is_some_and(|held| !add(held, bytes, self.room.bytes_max / CLIENT_PART)) {
            return false;
        }
        if !add(&self.room.used, bytes, self.room.bytes_max) {
            if let Some(held) = client {
                held.fetch_sub(bytes, Relaxed);
            }
            return false;
        }
        self.bytes += bytes;
        true
    }
}

/// Adds `bytes` unless that exceeds the bound. One that is larger than the bound fits alone, so that no answer is
/// impossible.
fn add(used: &AtomicUsize, bytes: usize, bytes_max: usize) -> bool {
    let before = used.fetch_add(bytes, Relaxed);
    let fits = before == 0 || before.saturating_add(bytes) <= bytes_max;
    if !fits {
        used.fetch_sub(bytes, Relaxed);
    }
    fits
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.bytes, Relaxed);
        if let Some(client) = &self.client {
            client.held_bytes.of(self.room.kind).fetch_sub(self.bytes, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_is_bounded_and_comes_back() {
        let room = Room::new(RoomKind::Answers, 100);
        let mut first = room.reserve_for(None, 60).unwrap();
        assert!(room.reserve_for(None, 41).is_none());
        assert!(first.grow(40) && !first.grow(1));
        assert_eq!(room.used(), 100);
        drop(first);
        assert_eq!(room.used(), 0);
        let huge = room.reserve_for(None, 1000);
        assert!(huge.is_some(), "one alone always fits");
        assert!(room.reserve_for(None, 1).is_none());
    }

    #[test]
    fn a_client_takes_a_quarter_and_others_the_rest() {
        let room = Room::new(RoomKind::Answers, 100);
        let (ann, bob) = (Arc::<ClientUsage>::default(), Arc::<ClientUsage>::default());
        let held = room.reserve_for(Some(&ann), 20).unwrap();
        assert!(room.reserve_for(Some(&ann), 6).is_none());
        assert_eq!(room.used(), 20, "a refused client holds nothing");
        let other = room.reserve_for(Some(&bob), 80).unwrap();
        assert!(room.reserve_for(Some(&ann), 5).is_none(), "the room is full");
        drop((held, other));
        assert!(room.reserve_for(Some(&ann), 25).is_some());
        assert_eq!((room.used(), ann.held_bytes.of(RoomKind::Answers).load(Relaxed)), (0, 0));
    }
    #[test]
    fn a_client_that_leaves_answers_unread_can_still_ask() {
        let (answers, requests) =
            (Room::new(RoomKind::Answers, 100), Room::new(RoomKind::Requests, 100));
        let ann = Arc::<ClientUsage>::default();
        let _unread = answers.reserve_for(Some(&ann), 25).unwrap();
        assert!(answers.reserve_for(Some(&ann), 1).is_none());
        assert!(requests.reserve_for(Some(&ann), 25).is_some());
    }
}
