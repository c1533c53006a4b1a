//! HTTP/1.1, one request at a time on a keep-alive connection.

use std::ops::Range;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request with a JSON body. The host is an address: from this machine, tidegate answers to no other name.
pub fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
}

/// Sends a request, and reads the answer into `bytes`. Returns its body; any status but 200 is an error.
pub async fn exchange<'a>(
    stream: &mut TcpStream,
    request: &str,
    bytes: &'a mut [u8],
) -> Result<&'a [u8], String> {
    match answer(stream, request, bytes).await? {
        (200, body) => Ok(body),
        (status, _) => Err(format!("status {status}")),
    }
}

/// Sends a request, and reads the answer into `bytes`. Returns its status and body.
pub async fn answer<'a>(
    stream: &mut TcpStream,
    request: &str,
    bytes: &'a mut [u8],
) -> Result<(u16, &'a [u8]), String> {
    stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut filled = 0;
    loop {
        if let Some((status, body)) = head(&bytes[..filled])?.filter(|(_, it)| it.end <= filled) {
            return Ok((status, &bytes[body]));
        }
        let count = stream.read(&mut bytes[filled..]).await.map_err(|error| error.to_string())?;
        if count == 0 {
            return Err("the server closed the connection".to_owned());
        }
        filled += count;
    }
}

/// The status and where the body is, once the head has arrived.
fn head(bytes: &[u8]) -> Result<Option<(u16, Range<usize>)>, String> {
    let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else { return Ok(None) };
    let head = String::from_utf8_lossy(&bytes[..end]);
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let status = status.ok_or_else(|| head.lines().next().unwrap_or_default().to_owned())?;
    let name = "content-length: ";
    let is_length =
        |line: &&str| line.get(..name.len()).is_some_and(|it| it.eq_ignore_ascii_case(name));
    let line = head.split("\r\n").find(is_length);
    let length = line.and_then(|line| line[name.len()..].parse::<usize>().ok());
    let length = length.ok_or_else(|| format!("no length: {head}"))?;
    Ok(Some((status, end + 4..end + 4 + length)))
}
