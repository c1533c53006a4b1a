//! memcached's meta commands over one connection: several leave in one write, and their replies are read in order.

use std::collections::BTreeMap;
use std::io::{self, Write as _};

use tidegate::{StoreError, StoreErrorKind};
use tidegate_cas::{ItemKey, Stored, Written};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// The longest line of a reply.
const LINE_MAX: u64 = 2_048;

/// The replies of a batch of small items fit: they are read in one call.
const BUFFER_BYTES: usize = 32 << 10;

/// More than the bytes of most commands.
pub(crate) const COMMAND_BYTES_EXPECTED: usize = 200;

/// The most bytes of an item, unless memcached was started with `-I`: 1 MiB, less what memcached adds.
pub(crate) const ITEM_BYTES_MAX: usize = (1 << 20) - 1_024;

/// More statistics than this are no memcached's.
const STATS_MAX: usize = 1_000;

#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    /// The line that is being read; kept for its memory.
    line: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(server: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::with_capacity(BUFFER_BYTES, stream), line: Vec::new() })
    }

    /// Reads items, in the order of the keys.
    pub(crate) async fn get(&mut self, keys: &[ItemKey]) -> io::Result<Vec<Stored<u64>>> {
        let mut commands = Vec::with_capacity(keys.len() * COMMAND_BYTES_EXPECTED);
        for key in keys {
            commands.extend_from_slice(b"mg ");
            commands.extend_from_slice(key.as_bytes());
            commands.extend_from_slice(b" c v\r\n");
        }
        self.send(&commands).await?;
        let mut items = Vec::with_capacity(keys.len());
        for _ in keys {
            items.push(self.item().await?);
        }
        Ok(items)
    }

    /// Sends writes, and reads what became of each.
    pub(crate) async fn set(&mut self, commands: &[u8], count: usize) -> io::Result<Vec<Written>> {
        self.send(commands).await?;
        let mut written = Vec::with_capacity(count);
        for _ in 0..count {
            let line = self.line().await?;
            written.push(match line.split(' ').next() {
                Some("HD") => Written::Done,
                Some("EX" | "NF" | "NS") => Written::Changed,
                // It has no memory for it, or it is too large.
                Some("SERVER_ERROR") => {
                    Written::Failed(StoreError::new(StoreErrorKind::OutOfMemory, line.to_owned()))
                }
                _ => return Err(unexpected(line)),
            });
        }
        Ok(written)
    }

    /// The server's statistics, by name.
    pub(crate) async fn stats(&mut self) -> io::Result<BTreeMap<String, String>> {
        self.send(b"stats\r\n").await?;
        let mut stats = BTreeMap::new();
        while stats.len() < STATS_MAX {
            let line = self.line().await?;
            let mut words = line.splitn(3, ' ');
            match (words.next(), words.next(), words.next()) {
                (Some("STAT"), Some(name), Some(value)) => {
                    stats.insert(name.to_owned(), value.to_owned());
                }
                (Some("END"), ..) => return Ok(stats),
                _ => return Err(unexpected(line)),
            }
        }
        Err(unexpected("too many statistics"))
    }

    async fn send(&mut self, commands: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(commands).await
    }

    async fn item(&mut self) -> io::Result<Stored<u64>> {
        let line = self.line().await?;
        let mut words = line.split(' ');
        match words.next() {
            Some("EN") => return Ok(Stored { version: None, bytes: Vec::new() }),
            Some("VA") => {}
            _ => return Err(unexpected(line)),
        }
        let length = words.next().and_then(|length| length.parse::<usize>().ok());
        let version = words.find_map(|flag| flag.strip_prefix('c')?.parse().ok());
        let (Some(length), Some(version)) = (length.filter(|it| *it <= 1 << 20), version) else {
            return Err(unexpected(line));
        };
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes).await?;
        if !bytes.ends_with(b"\r\n") {
            return Err(unexpected("an item without its end"));
        }
        bytes.truncate(length);
        Ok(Stored { version: Some(version), bytes })
    }

    /// One line without its end.
    async fn line(&mut self) -> io::Result<&str> {
        self.line.clear();
        (&mut self.stream).take(LINE_MAX).read_until(b'\n', &mut self.line).await?;
        match self.line.strip_suffix(b"\r\n").map(std::str::from_utf8) {
            Some(Ok(line)) => Ok(line),
            Some(Err(_)) => Err(unexpected("a line that is no text")),
            None if self.line.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            None => Err(unexpected("a line without its end")),
        }
    }
}

/// Appends the command that writes an item if it is unchanged. `expires` is what memcached calls an expiration time.
pub(crate) fn push_set(
    commands: &mut Vec<u8>,
    key: &str,
    expected: Option<u64>,
    bytes: &[u8],
    expires: u64,
) {
    let _ = write!(commands, "ms {key} {} ", bytes.len());
    let _ = match expected {
        Some(version) => write!(commands, "C{version}"),
        None => write!(commands, "ME"),
    };
    let _ = write!(commands, " T{expires}\r\n");
    commands.extend_from_slice(bytes);
    commands.extend_from_slice(b"\r\n");
}

/// Appends the command that removes an item if it is unchanged.
pub(crate) fn push_delete(commands: &mut Vec<u8>, key: &str, expected: u64) {
    let _ = write!(commands, "md {key} C{expected}\r\n");
}

fn unexpected(line: &str) -> io::Error {
    let shown: String = line.chars().take(80).flat_map(char::escape_default).collect();
    io::Error::new(io::ErrorKind::InvalidData, format!("memcached answered: {shown}"))
}
