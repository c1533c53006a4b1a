//! The site behind the proxy that is measured: answers every request at once, in this process.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A small page.
const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n\r\nok\n";
const END_OF_HEAD: &[u8] = b"\r\n\r\n";
/// Far more than the head of any request has.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Listens on a free port until the run ends.
pub(super) async fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    Ok(address)
}

/// Answers the requests of a connection, which have no bodies, until it is closed.
async fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = Vec::new();
    while stream.read_buf(&mut input).await? > 0 && input.len() <= HEAD_BYTES_MAX {
        while let Some(end) = input.windows(END_OF_HEAD.len()).position(|it| it == END_OF_HEAD) {
            input.drain(..end + END_OF_HEAD.len());
            stream.write_all(ANSWER).await?;
        }
    }
    Ok(())
}
