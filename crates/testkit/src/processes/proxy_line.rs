//! One connection through a `FaultProxy`: a delay line in each direction, with the faults at its end.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::faults::{Faults, Way};
use super::proxy::FaultState;

const CHUNK_BYTES: usize = 16 * 1024;

/// The maximum of chunks in transit; then the sender has to wait.
const LINE_CHUNKS: usize = 256;

/// The time of arrival, and the bytes; none mean the end of the stream.
type Chunk = (Instant, Vec<u8>);

/// Serves one accepted connection to its end. The permit is released then.
pub(super) async fn connection(
    mut client: TcpStream,
    target: SocketAddr,
    mut state: watch::Receiver<FaultState>,
    _permit: OwnedSemaphorePermit,
) {
    let resets = state.borrow().resets;
    let Ok(mut server) = TcpStream::connect(target).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let received = state.clone();
    let is_reset = tokio::select! {
        biased;
        reset = state.wait_for(|state| state.faults.reset || state.resets != resets) => reset.is_ok(),
        () = carry(&mut client, &mut server, &received) => false,
    };
    if is_reset {
        // With a linger time of zero, closing a socket sends a RST.
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// Copies until both directions have ended, or one is cut.
async fn carry(
    client: &mut TcpStream,
    server: &mut TcpStream,
    state: &watch::Receiver<FaultState>,
) {
    // Single bytes and small commands are sent at once.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let to_server = Line { to: to_server, state: state.clone(), way: |it| it.to_server };
    let to_client = Line { to: to_client, state: state.clone(), way: |it| it.to_client };
    let _ = tokio::try_join!(to_server.carry(from_client), to_client.carry(from_server));
}

struct Line<'a> {
    to: WriteHalf<'a>,
    state: watch::Receiver<FaultState>,
    way: fn(&Faults) -> Way,
}

impl Line<'_> {
    async fn carry(self, from: ReadHalf<'_>) -> io::Result<()> {
        let (line, end) = mpsc::channel(LINE_CHUNKS);
        let read = read(from, line, self.state.clone(), self.way);
        tokio::try_join!(read, self.write(end)).map(|_| ())
    }

    async fn write(mut self, mut line: mpsc::Receiver<Chunk>) -> io::Result<()> {
        let mut passed = Passed::default();
        while let Some((due, mut chunk)) = line.recv().await {
            sleep_until(due).await;
            let mut rest = chunk.as_mut_slice();
            // A black hole also delays the end of the stream.
            let mut now = self.wait_until_open().await?;
            while !rest.is_empty() {
                let piece = passed.next_piece(&now, (self.way)(&now.faults), rest);
                if piece == 0 {
                    self.to.shutdown().await?;
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                let (bytes, later) = rest.split_at_mut(piece);
                self.to.write_all(bytes).await?;
                rest = later;
                if let Some(pause) = (self.way)(&now.faults).drip_every {
                    sleep(pause).await;
                }
                now = self.wait_until_open().await?;
            }
        }
        self.to.shutdown().await
    }

    async fn wait_until_open(&mut self) -> io::Result<FaultState> {
        let way = self.way;
        let open = self.state.wait_for(|state| !way(&state.faults).blackhole).await;
        open.map(|state| *state).map_err(io::Error::other)
    }
}

async fn read(
    mut from: ReadHalf<'_>,
    line: mpsc::Sender<Chunk>,
    state: watch::Receiver<FaultState>,
    way: fn(&Faults) -> Way,
) -> io::Result<()> {
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        let length = from.read(&mut chunk).await?;
        chunk.truncate(length);
        let due = Instant::now() + way(&state.borrow().faults).delay;
        line.send((due, chunk)).await.map_err(io::Error::other)?;
        if length == 0 {
            return Ok(());
        }
    }
}

/// The number of bytes sent since the faults were set.
#[derive(Default)]
struct Passed {
    generation: u64,
    bytes: usize,
}

impl Passed {
    /// Corrupts the next bytes as configured, and returns how many of them to send; 0 cuts the connection.
    fn next_piece(&mut self, state: &FaultState, way: Way, rest: &mut [u8]) -> usize {
        if self.generation != state.generation {
            *self = Self { generation: state.generation, bytes: 0 };
        }
        let room = way.truncate_after_bytes.map_or(usize::MAX, |limit| limit - self.bytes);
        let length = rest.len().min(room).min(way.drip_every.map_or(usize::MAX, |_| 1));
        if let Some(index) = way.corrupt_at_byte.and_then(|index| index.checked_sub(self.bytes))
            && let Some(byte) = rest[..length].get_mut(index)
        {
            *byte = !*byte;
        }
        self.bytes += length;
        length
    }
}
