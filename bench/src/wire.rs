//! What the load generators write to the doors of a server, and how they read its answers.

pub mod grpc;
pub mod http;
pub mod resp;
pub mod rls;

use tokio::net::TcpStream;

/// A connection to a server on this machine.
pub async fn connect(port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
