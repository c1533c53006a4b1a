//! Reads request bodies whole, within bounds: per body, for the bodies of one client, and for all together.

use std::ops::Deref;
use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::body::Bytes;
use hyper::body::{Body, Incoming};

use super::clients::ClientUsage;
use super::http::Activity;
use super::room::{READ_AHEAD, REQUESTS, Reserved, Room, SMALL_REQUESTS};

/// Nearly all bodies are smaller, and arrive in one piece: then they need no room. One in several pieces needs room from its
/// first byte, because its client decides how long it is kept.
const SMALL_BYTES: usize = 4 << 10;

/// The body of a request, and the connection whose client it takes room of.
pub(crate) struct RequestBody<B = Incoming> {
    pub(crate) body: B,
    pub(crate) activity: Arc<Activity>,
}

/// For bodies up to [`SMALL_BYTES`], and for larger ones, which do not keep the small ones out.
struct Rooms<'r, 'c> {
    small: &'r Room,
    large: &'r Room,
    /// Who takes a part of them; `None` if nobody counts it.
    client: Option<&'c Arc<ClientUsage>>,
}

/// A whole body, and the room that it holds until it is dropped.
#[derive(Debug)]
pub(crate) struct Collected<'r> {
    pub(crate) bytes: Bytes,
    pub(crate) room: Option<Reserved<'r>>,
}

/// A body that is being read. Nearly all are one piece, which needs no copy. Others are copied, because a small slice would
/// keep its whole read buffer alive.
#[derive(Debug, Default)]
pub(crate) struct Collecting<'r> {
    whole: Option<Bytes>,
    pieces: Vec<u8>,
    room: Option<Reserved<'r>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyReadError {
    /// The body ended early or was not well framed.
    Broken,
    TooLarge,
    /// All bodies together, or those of this client, take too much memory.
    NoRoom,
}

pub(crate) async fn collect<B>(
    client: Option<&Arc<ClientUsage>>,
    body: &mut B,
    bytes_max: usize,
) -> Result<Collected<'static>, BodyReadError>
where
    B: Body<Data = Bytes> + Unpin,
{
    let rooms = Rooms { small: &SMALL_REQUESTS, large: &REQUESTS, client };
    collect_into(&rooms, body, bytes_max).await
}

async fn collect_into<'r, B>(
    rooms: &Rooms<'r, '_>,
    body: &mut B,
    bytes_max: usize,
) -> Result<Collected<'r>, BodyReadError>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut read = Collecting::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| BodyReadError::Broken)?;
        let Ok(data) = frame.into_data() else { continue };
        if read.len() + data.len() > bytes_max {
            return Err(BodyReadError::TooLarge);
        }
        let is_end = body.is_end_stream();
        read.add(rooms, data, is_end)?;
        if is_end {
            break;
        }
    }
    Ok(read.finish())
}

impl Collecting<'static> {
    /// Adds a piece of a body of `client` that the proxy reads ahead; `is_end`: the last one.
    pub(crate) fn extend(
        &mut self,
        client: Option<&Arc<ClientUsage>>,
        data: Bytes,
        is_end: bool,
    ) -> Result<(), BodyReadError> {
        self.add(&Rooms { small: &READ_AHEAD, large: &READ_AHEAD, client }, data, is_end)
    }
}

impl<'r> Collecting<'r> {
    pub(crate) fn len(&self) -> usize {
        self.whole.as_ref().map_or(self.pieces.len(), Bytes::len)
    }

    pub(crate) fn finish(self) -> Collected<'r> {
        Collected { bytes: self.whole.unwrap_or_else(|| self.pieces.into()), room: self.room }
    }

    fn add(
        &mut self,
        rooms: &Rooms<'r, '_>,
        data: Bytes,
        is_end: bool,
    ) -> Result<(), BodyReadError> {
        let (held, is_whole) = (self.len(), is_end && self.len() == 0);
        if !is_whole || held + data.len() > SMALL_BYTES {
            rooms.extend(&mut self.room, held, data.len())?;
        }
        if is_whole {
            self.whole = Some(data);
        } else {
            self.pieces.extend_from_slice(&data);
        }
        Ok(())
    }
}

impl<'r> Rooms<'r, '_> {
    /// Reserves `more` bytes for a body that has `held`.
    fn extend(
        &self,
        room: &mut Option<Reserved<'r>>,
        held: usize,
        more: usize,
    ) -> Result<(), BodyReadError> {
        let is_large = held + more > SMALL_BYTES;
        let fits = match room {
            Some(room) if is_large == (held > SMALL_BYTES) => room.grow(more),
            _ => {
                let larger = if is_large { self.large } else { self.small };
                *room = larger.reserve_for(self.client, held + more);
                room.is_some()
            }
        };
        if fits { Ok(()) } else { Err(BodyReadError::NoRoom) }
    }
}

impl Deref for Collected<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::pin;
    use std::task::Poll;

    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tokio_stream::{Stream, StreamExt, iter, pending};

    use super::*;
    use crate::net::room::RoomKind;
    use crate::net::timeout::poll_once;

    const ALL: usize = 64 << 10;
    const BYTES_MAX: usize = 48 << 10;

    fn small() -> Room {
        Room::new(RoomKind::SmallRequests, ALL)
    }

    fn large() -> Room {
        Room::new(RoomKind::Requests, ALL)
    }

    type Piece = Result<Frame<Bytes>, Infallible>;

    fn pieces(sizes: &[usize]) -> impl Stream<Item = Piece> + Unpin + use<> {
        let piece = |size: &usize| Ok(Frame::data(vec![b' '; *size].into()));
        iter(sizes.iter().map(piece).collect::<Vec<_>>())
    }

    fn used(rooms: &Rooms<'_, '_>) -> usize {
        rooms.small.used() + rooms.large.used()
    }

    #[tokio::test]
    async fn a_body_holds_room_for_what_was_read_until_it_is_dropped() {
        let rooms = Rooms { small: &small(), large: &large(), client: None };
        for (sizes, expected) in [
            (&[][..], 0),
            (&[1, 1], 2),
            (&[SMALL_BYTES, 1], SMALL_BYTES + 1),
            (&[3000, 3000, 96, 0], 6096),
            (&[BYTES_MAX], BYTES_MAX),
        ] {
            let mut unfinished = StreamBody::new(pieces(sizes).chain(pending()));
            {
                let mut collecting = pin!(collect_into(&rooms, &mut unfinished, BYTES_MAX));
                assert!(poll_once(collecting.as_mut()).await.is_pending(), "{sizes:?}");
                assert_eq!(used(&rooms), expected, "unfinished {sizes:?}");
            }
            assert_eq!(used(&rooms), 0, "given up {sizes:?}");
            let mut whole = StreamBody::new(pieces(sizes));
            let collected = collect_into(&rooms, &mut whole, BYTES_MAX).await.unwrap();
            assert_eq!(collected.len(), sizes.iter().sum::<usize>());
            assert_eq!(used(&rooms), expected, "whole {sizes:?}");
            drop(collected);
            assert_eq!(used(&rooms), 0, "dropped {sizes:?}");
        }
    }

    #[tokio::test]
    async fn a_small_body_in_one_piece_needs_no_room() {
        let full = Room::new(RoomKind::Requests, 0);
        let _held = full.reserve_for(None, 1);
        let rooms = Rooms { small: &full, large: &full, client: None };
        let mut body = http_body_util::Full::new(Bytes::from(vec![b' '; SMALL_BYTES]));
        assert!(collect_into(&rooms, &mut body, BYTES_MAX).await.is_ok());
        let mut body = http_body_util::Full::new(Bytes::from(vec![b' '; SMALL_BYTES + 1]));
        let read = collect_into(&rooms, &mut body, BYTES_MAX).await;
        assert_eq!(read.map(|_| ()), Err(BodyReadError::NoRoom));
    }

    #[tokio::test]
    async fn without_room_a_large_body_fails_at_once_and_a_small_one_is_read() {
        let rooms = Rooms { small: &small(), large: &large(), client: None };
        let begin = async |sizes: &[usize]| {
            let mut body = StreamBody::new(pieces(sizes).chain(pending()));
            let mut collecting = pin!(collect_into(&rooms, &mut body, BYTES_MAX));
            poll_once(collecting.as_mut()).await.map(|done| done.map(|collected| collected.len()))
        };
        assert_eq!(begin(&[BYTES_MAX, 1]).await, Poll::Ready(Err(BodyReadError::TooLarge)));
        assert_eq!(begin(&[BYTES_MAX]).await, Poll::Pending);
        let mut large = StreamBody::new(pieces(&[BYTES_MAX]));
        let held = collect_into(&rooms, &mut large, BYTES_MAX).await.unwrap();
        assert_eq!(begin(&[20 << 10, 20 << 10]).await, Poll::Ready(Err(BodyReadError::NoRoom)));
        assert_eq!(begin(&[10 << 10]).await, Poll::Pending, "a refused body holds no room");
        assert_eq!(begin(&[2000, 2000]).await, Poll::Pending);
        drop(held);
        assert_eq!(begin(&[20 << 10, 20 << 10]).await, Poll::Pending);
    }
    #[tokio::test]
    async fn one_client_fills_its_part_of_the_room_and_others_are_read() {
        let (small, large) = (small(), large());
        let (ann, bob) = (Arc::<ClientUsage>::default(), Arc::<ClientUsage>::default());
        let read = async |client, size| {
            let rooms = Rooms { small: &small, large: &large, client: Some(client) };
            let mut body = StreamBody::new(pieces(&[size / 2, size / 2]));
            collect_into(&rooms, &mut body, BYTES_MAX).await
        };
        for size in [SMALL_BYTES, 2 * SMALL_BYTES] {
            let mut held = Vec::new();
            while let Ok(body) = read(&ann, size).await {
                held.push(body);
            }
            assert_eq!(held.len() * size, ALL / 4);
            assert_eq!(read(&ann, size).await.map(|_| ()), Err(BodyReadError::NoRoom));
            assert!(read(&bob, size).await.is_ok());
            drop(held);
            assert!(read(&ann, size).await.is_ok());
        }
    }
}
