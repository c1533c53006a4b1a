//! One connection through a `FaultProxy`: a delay line each way, with the faults at its end.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::faults::{Faults, Way};
use super::proxy::Orders;

const CHUNK_BYTES: usize = 16 * 1024;

/// So many chunks are on their way at most; then the sender has to wait.
const LINE_CHUNKS: usize = 256;

/// When it arrives, and what; nothing is the end of the stream.
type Chunk = (Instant, Vec<u8>);

/// From its acceptance to its end; the place is free again then.
pub(super) async fn connection(
    mut client: TcpStream,
    target: SocketAddr,
    mut told: watch::Receiver<Orders>,
    _place: OwnedSemaphorePermit,
) {
    let resets = told.borrow().resets;
    let Ok(mut server) = TcpStream::connect(target).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let lines = told.clone();
    let is_reset = tokio::select! {
        biased;
        reset = told.wait_for(|orders| orders.faults.reset || orders.resets != resets) => reset.is_ok(),
        () = carry(&mut client, &mut server, &lines) => false,
    };
    if is_reset {
        // Closed with something left to wait for, a socket says RST.
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// Until both ways have ended, or one is cut.
async fn carry(client: &mut TcpStream, server: &mut TcpStream, told: &watch::Receiver<Orders>) {
    // Dripped bytes and small commands leave at once.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let to_server = Line { to: to_server, told: told.clone(), way: |it| it.to_server };
    let to_client = Line { to: to_client, told: told.clone(), way: |it| it.to_client };
    let _ = tokio::try_join!(to_server.carry(from_client), to_client.carry(from_server));
}

struct Line<'a> {
    to: WriteHalf<'a>,
    told: watch::Receiver<Orders>,
    way: fn(&Faults) -> Way,
}

impl Line<'_> {
    async fn carry(self, from: ReadHalf<'_>) -> io::Result<()> {
        let (line, end) = mpsc::channel(LINE_CHUNKS);
        let read = read(from, line, self.told.clone(), self.way);
        tokio::try_join!(read, self.write(end)).map(|_| ())
    }

    async fn write(mut self, mut line: mpsc::Receiver<Chunk>) -> io::Result<()> {
        let mut passed = Passed::default();
        while let Some((due, mut chunk)) = line.recv().await {
            sleep_until(due).await;
            let mut rest = chunk.as_mut_slice();
            // Also the end of the stream waits in a black hole.
            let mut now = self.once_open().await?;
            while !rest.is_empty() {
                let piece = passed.piece(&now, (self.way)(&now.faults), rest);
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
                now = self.once_open().await?;
            }
        }
        self.to.shutdown().await
    }

    async fn once_open(&mut self) -> io::Result<Orders> {
        let way = self.way;
        let open = self.told.wait_for(|orders| !way(&orders.faults).blackhole).await;
        open.map(|orders| *orders).map_err(io::Error::other)
    }
}

async fn read(
    mut from: ReadHalf<'_>,
    line: mpsc::Sender<Chunk>,
    told: watch::Receiver<Orders>,
    way: fn(&Faults) -> Way,
) -> io::Result<()> {
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        let length = from.read(&mut chunk).await?;
        chunk.truncate(length);
        let due = Instant::now() + way(&told.borrow().faults).delay;
        line.send((due, chunk)).await.map_err(io::Error::other)?;
        if length == 0 {
            return Ok(());
        }
    }
}

/// How many bytes have passed since the faults were set.
#[derive(Default)]
struct Passed {
    settings: u64,
    bytes: usize,
}

impl Passed {
    /// How many bytes go now, spoilt as they are to be; none where the connection is cut.
    fn piece(&mut self, orders: &Orders, way: Way, rest: &mut [u8]) -> usize {
        if self.settings != orders.settings {
            *self = Self { settings: orders.settings, bytes: 0 };
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
