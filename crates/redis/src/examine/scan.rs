//! A bounded sample of our keys.

use redis::{cmd, pipe};
use tidegate::{Clock, SystemClock};

use super::connection::Connection;
use super::facts::KeySample;

/// The most keys that are looked at.
const KEYS_MAX: u64 = 10_000;
/// How many keys Redis passes over in one step: about a millisecond of its time.
const STEP: u64 = 1_000;
/// For servers with many keys of other applications.
const BUDGET_US: u64 = 2_000_000;
/// A state of tidegate has some ten bytes; a sliding log of some thousand admissions has this many.
const BIG_BYTES: u64 = 64 << 10;

/// Samples keys that begin with `prefix:`.
pub(super) async fn collect(connection: &mut Connection, prefix: &str) -> Option<KeySample> {
    // A key that does not exist shows whether MEMORY is permitted.
    let sizes = connection.query::<Option<u64>>("MEMORY", &memory(b"")).await.is_some();
    let start_us = SystemClock.steady_us();
    let (mut keys, mut cursor) = (KeySample::default(), 0_u64);
    loop {
        let (next, page) = page(connection, prefix, cursor).await?;
        for page in page.chunks(256) {
            sample_page(connection, page, sizes, prefix, &mut keys).await?;
        }
        cursor = next;
        keys.all = cursor == 0;
        let took_us = SystemClock.steady_us().saturating_sub(start_us);
        if keys.all || keys.looked_at >= KEYS_MAX || took_us >= BUDGET_US {
            return Some(keys);
        }
    }
}

async fn page(
    connection: &mut Connection,
    prefix: &str,
    cursor: u64,
) -> Option<(u64, Vec<Vec<u8>>)> {
    let mut scan = cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(pattern(prefix)).arg("COUNT").arg(STEP);
    connection.query("SCAN", &scan).await
}

async fn sample_page(
    connection: &mut Connection,
    page: &[Vec<u8>],
    sizes: bool,
    prefix: &str,
    keys: &mut KeySample,
) -> Option<()> {
    let table = overrides(prefix);
    let mut lives = pipe();
    for key in page {
        lives.cmd("PTTL").arg(key);
    }
    let lives: Vec<i64> = connection.query_all("PTTL", &lives).await?;
    let mut bytes = vec![None; page.len()];
    if sizes {
        let mut asked = pipe();
        for key in page {
            asked.add_command(memory(key));
        }
        bytes = connection.query_all("MEMORY", &asked).await?;
    }
    for ((key, life), bytes) in page.iter().zip(lives).zip(bytes) {
        if *key != table {
            sample_key(keys, key, life, bytes.unwrap_or(0));
        }
    }
    Some(())
}

fn sample_key(keys: &mut KeySample, key: &[u8], life_ms: i64, bytes: u64) {
    let name = || String::from_utf8_lossy(key).into_owned();
    keys.looked_at += 1;
    // -2: gone since.
    if life_ms == -1 {
        if keys.without_ttl == 0 {
            keys.example_without_ttl = name();
        }
        keys.without_ttl += 1;
    }
    keys.big += u64::from(bytes > BIG_BYTES);
    if bytes > keys.biggest_bytes {
        (keys.biggest, keys.biggest_bytes) = (name(), bytes);
    }
}

/// The table of overrides is configuration: the one key of tidegate that may be large and does not expire.
fn overrides(prefix: &str) -> Vec<u8> {
    format!("{prefix}:{{overrides}}").into_bytes()
}

fn memory(key: &[u8]) -> redis::Cmd {
    let mut usage = cmd("MEMORY");
    usage.arg("USAGE").arg(key);
    usage
}

/// Escapes the prefix for Redis' patterns.
fn pattern(prefix: &str) -> String {
    let mut pattern = String::with_capacity(prefix.len() + 2);
    for char in prefix.chars() {
        if matches!(char, '*' | '?' | '[' | ']' | '\\' | '^' | '-') {
            pattern.push('\\');
        }
        pattern.push(char);
    }
    pattern.push_str(":*");
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_matches_only_itself() {
        assert_eq!(pattern("tg"), "tg:*");
        assert_eq!(pattern("a*[b]?"), r"a\*\[b\]\?:*");
    }
}
