//! Reads request bodies whole, within a bound per body and one for all bodies together.

use std::ops::Deref;

use http_body_util::BodyExt;
use hyper::body::Body;
use hyper::body::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Nearly all bodies are smaller. Up to this size a body needs no permits: a request head may be larger.
const SMALL_BYTES: usize = 4 << 10;
/// The bytes of all larger bodies together, beyond [`SMALL_BYTES`] each.
static BODY_BUDGET: Semaphore = Semaphore::const_new(64 << 20);

/// A whole body, and the memory permits that it holds until it is dropped.
#[derive(Debug)]
pub(crate) struct Collected<'r> {
    pub(crate) bytes: Bytes,
    pub(crate) room: Option<SemaphorePermit<'r>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyReadError {
    /// The body ended early or was not well framed.
    Broken,
    TooLarge,
    /// All bodies together take too much memory.
    NoRoom,
}

pub(crate) async fn collect<B>(
    body: &mut B,
    bytes_max: usize,
) -> Result<Collected<'static>, BodyReadError>
where
    B: Body<Data = Bytes> + Unpin,
{
    collect_into(&BODY_BUDGET, body, bytes_max).await
}

async fn collect_into<'r, B>(
    all: &'r Semaphore,
    body: &mut B,
    bytes_max: usize,
) -> Result<Collected<'r>, BodyReadError>
where
    B: Body<Data = Bytes> + Unpin,
{
    let (mut bytes, mut room) = (Vec::new(), None);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| BodyReadError::Broken)?;
        let Ok(data) = frame.into_data() else { continue };
        let length = bytes.len() + data.len();
        if length > bytes_max {
            return Err(BodyReadError::TooLarge);
        }
        if length > SMALL_BYTES {
            extend(&mut room, all, length - SMALL_BYTES)?;
        }
        // Nearly all bodies are one frame, which needs no copy. Others are copied, because a small slice would keep
        // its whole read buffer alive.
        if bytes.is_empty() && body.is_end_stream() {
            return Ok(Collected { bytes: data, room });
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Collected { bytes: bytes.into(), room })
}

/// Acquires the permits missing to `size`. Does not wait: their holders may be slow clients.
fn extend<'r>(
    room: &mut Option<SemaphorePermit<'r>>,
    all: &'r Semaphore,
    size: usize,
) -> Result<(), BodyReadError> {
    let missing = size - room.as_ref().map_or(0, SemaphorePermit::num_permits);
    let missing = u32::try_from(missing).map_err(|_| BodyReadError::NoRoom)?;
    let more = all.try_acquire_many(missing).map_err(|_| BodyReadError::NoRoom)?;
    match room {
        Some(room) => room.merge(more),
        None => *room = Some(more),
    }
    Ok(())
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
    use crate::net::timeout::poll_once;

    const ALL: usize = 64 << 10;
    const BYTES_MAX: usize = 48 << 10;

    type Piece = Result<Frame<Bytes>, Infallible>;

    fn pieces(sizes: &[usize]) -> impl Stream<Item = Piece> + Unpin + use<> {
        let piece = |size: &usize| Ok(Frame::data(vec![b' '; *size].into()));
        iter(sizes.iter().map(piece).collect::<Vec<_>>())
    }

    #[tokio::test]
    async fn a_body_holds_room_for_what_was_read_until_it_is_dropped() {
        let all = Semaphore::new(ALL);
        for (sizes, expected) in [
            (&[][..], 0),
            (&[1, 1], 0),
            (&[SMALL_BYTES], 0),
            (&[SMALL_BYTES, 1], 1),
            (&[3000, 3000, 96, 0], 2000),
            (&[BYTES_MAX], BYTES_MAX - SMALL_BYTES),
        ] {
            let mut unfinished = StreamBody::new(pieces(sizes).chain(pending()));
            {
                let mut collecting = pin!(collect_into(&all, &mut unfinished, BYTES_MAX));
                assert!(poll_once(collecting.as_mut()).await.is_pending(), "{sizes:?}");
                assert_eq!(ALL - all.available_permits(), expected, "unfinished {sizes:?}");
            }
            assert_eq!(all.available_permits(), ALL, "given up {sizes:?}");
            let mut whole = StreamBody::new(pieces(sizes));
            let collected = collect_into(&all, &mut whole, BYTES_MAX).await.unwrap();
            assert_eq!(collected.len(), sizes.iter().sum::<usize>());
            assert_eq!(ALL - all.available_permits(), expected, "whole {sizes:?}");
            drop(collected);
            assert_eq!(all.available_permits(), ALL, "dropped {sizes:?}");
        }
    }

    #[tokio::test]
    async fn without_room_a_large_body_fails_at_once_and_a_small_one_is_read() {
        let all = Semaphore::new(ALL);
        let begin = async |sizes: &[usize]| {
            let mut body = StreamBody::new(pieces(sizes).chain(pending()));
            let mut collecting = pin!(collect_into(&all, &mut body, BYTES_MAX));
            poll_once(collecting.as_mut()).await.map(|done| done.map(|collected| collected.len()))
        };
        assert_eq!(begin(&[BYTES_MAX, 1]).await, Poll::Ready(Err(BodyReadError::TooLarge)));
        assert_eq!(begin(&[BYTES_MAX]).await, Poll::Pending);
        let mut large = StreamBody::new(pieces(&[BYTES_MAX]));
        let held = collect_into(&all, &mut large, BYTES_MAX).await.unwrap();
        assert_eq!(begin(&[20 << 10, 20 << 10]).await, Poll::Ready(Err(BodyReadError::NoRoom)));
        assert_eq!(begin(&[20 << 10]).await, Poll::Pending, "a refused body holds no room");
        assert_eq!(begin(&[2000, 2000]).await, Poll::Pending);
        drop(held);
        assert_eq!(begin(&[20 << 10, 20 << 10]).await, Poll::Pending);
    }
}
