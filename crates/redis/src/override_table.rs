//! The table of overrides in Redis: one hash for all policies of a prefix, read and written by `lua/overrides.lua`.
//!
//! It has no time to live: it is configuration, and the only thing that tidegate keeps in Redis for ever.

use std::time::Duration;
use tidegate_core::text::percent_decoded;

use tidegate::store_kit::{OVERRIDE_BYTES_MAX, OVERRIDES_MAX};
use tidegate::{OverrideChange, StoredOverride};

/// Longer lifetimes are cut: a century is for ever.
const LIFE_MAX: Duration = Duration::from_hours(100 * 365 * 24);

const HEX: &[u8; 16] = b"0123456789abcdef";

/// The change as the script reads it.
pub(crate) fn change_text(change: &OverrideChange<'_>) -> String {
    match *change {
        OverrideChange::Remove { policy, key } => format!("drop {}", name(policy, key)),
        OverrideChange::Set { policy, key, text, life } => {
            let life_us = life.map_or(0, |life| life.min(LIFE_MAX).as_micros().max(1));
            let name = name(policy, key);
            format!("set {OVERRIDES_MAX} {OVERRIDE_BYTES_MAX} {name} {life_us} {text}")
        }
    }
}

/// One line of a table: `policy:key life_us text`. `None` for what this version cannot read.
pub(crate) fn read_entry(line: &str) -> Option<StoredOverride> {
    let mut words = line.splitn(3, ' ');
    let (policy, key) = words.next()?.split_once(':')?;
    let life_us: u64 = words.next()?.parse().ok()?;
    Some(StoredOverride {
        policy: String::from_utf8(percent_decoded(policy)?).ok()?,
        key: percent_decoded(key)?.into(),
        text: words.next()?.to_owned(),
        life: (life_us > 0).then(|| Duration::from_micros(life_us)),
    })
}

/// Readable where it can be: no policy's name has a colon then, and nothing a space.
fn name(policy: &str, key: &[u8]) -> String {
    let mut name = String::with_capacity(policy.len() + key.len() + 1);
    escape(&mut name, policy.as_bytes(), |byte| byte != b':');
    name.push(':');
    escape(&mut name, key, |_| true);
    name
}

fn escape(into: &mut String, bytes: &[u8], is_plain: impl Fn(u8) -> bool) {
    for byte in bytes {
        if byte.is_ascii_graphic() && *byte != b'%' && is_plain(*byte) {
            into.push(char::from(*byte));
        } else {
            into.push('%');
            into.extend([byte >> 4, byte & 15].map(|half| char::from(HEX[usize::from(half)])));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_comes_back_as_it_was() {
        let every_byte: Vec<u8> = (0..=255).collect();
        for (policy, key) in [
            ("api", &b"partner-7"[..]),
            ("", b""),
            ("a:b c%", b"2001:db8::/64"),
            ("p\u{f6}licy", &every_byte),
            ("50%", b"%41 %"),
        ] {
            let line = format!("{} 5 10/s burst 3", name(policy, key));
            let read = read_entry(&line).unwrap();
            assert_eq!((read.policy.as_str(), &*read.key), (policy, key));
            assert_eq!(
                (read.text.as_str(), read.life),
                ("10/s burst 3", Some(Duration::from_micros(5)))
            );
        }
        assert_eq!(name("api", b"2001:db8::/64"), "api:2001:db8::/64");
    }

    #[test]
    fn what_nobody_here_wrote_is_not_read() {
        for line in [
            "",
            "api",
            "api:k",
            "api:k x allow",
            "api:k -1 allow",
            "api:%4 0 allow",
            "api:%zz 0 allow",
        ] {
            assert_eq!(read_entry(line), None, "{line}");
        }
    }
}
