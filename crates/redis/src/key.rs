//! Names of keys in Redis: `PREFIX:{tag}:policy:…`.
//!
//! A key is the identifier, the policy and the limit: `tg:{7:user-42}:api:a`, or with the limit's name
//! `tg:{7:user-42}:plan:second:a`. It depends on nothing else, so that a limit keeps its counters whatever is added to
//! its policy or removed from it.
//!
//! In a cluster the tag in braces decides the node. There it is the identifier only where all limits of a request count
//! the same one, so that identifiers spread over the cluster; otherwise it is the policy, so that its limits are
//! together, or the name that several policies share, so that all of theirs are.
//!
//! | in a cluster, the limits count | key |
//! |---|---|
//! | one identifier | as above |
//! | several | `tg:{=signup}:ip:9:127.0.0.1:a` |
//! | under a shared tag | `tg:{@edge}:api::7:user-42:a`, `tg:{@edge}:signup:ip:9:127.0.0.1:a` |
//!
//! What comes from outside has its length before it, so that no two spell the same key; what is long or not plain
//! text is hashed. The last letter is the kind of state: a policy whose algorithm changes starts from nothing.

use std::ops::Range;

use tidegate::store_kit::KeyText;
use tidegate::{KeyedLimit, Scope};

/// Makes the names of keys.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
    /// Whether the keys of one request need one tag.
    in_cluster: bool,
    text: KeyText,
}

impl Keys {
    pub(crate) fn new(prefix: &str, secret: [u8; 16], in_cluster: bool) -> Self {
        Self { prefix: prefix.to_owned(), in_cluster, text: KeyText::new(secret) }
    }

    /// Where nodes announce themselves. No other tag is spelt like this: those begin with a length, `#`, `=` or `@`.
    pub(crate) fn nodes(&self) -> Vec<u8> {
        format!("{}:{{nodes}}", self.prefix).into_bytes()
    }

    /// The table of overrides, by the same rule.
    pub(crate) fn overrides(&self) -> Vec<u8> {
        format!("{}:{{overrides}}", self.prefix).into_bytes()
    }

    /// The readings of a scope; different scopes spread over a cluster.
    pub(crate) fn adaptive(&self, scope: &str) -> Vec<u8> {
        let mut key = self.open();
        key.extend_from_slice(b"adaptive:");
        self.text.hash(&mut key, scope.as_bytes());
        key.push(b'}');
        key
    }

    /// One key per limit; those of one request have one tag in a cluster.
    pub(crate) fn for_limits<'a>(
        &self,
        limits: impl IntoIterator<Item = &'a KeyedLimit<'a>>,
    ) -> Vec<Vec<u8>> {
        let of = |keyed: &KeyedLimit<'_>| {
            let letter = keyed.limit.state_letter();
            match keyed.scope.tag() {
                _ if !self.in_cluster => self.by_identifier(keyed.scope, keyed.key, letter),
                Some(tag) => self.by_tag(tag, keyed.scope, keyed.key, letter),
                None if keyed.scope.is_together() => self.by_policy(keyed.scope, keyed.key, letter),
                None => self.by_identifier(keyed.scope, keyed.key, letter),
            }
        };
        limits.into_iter().map(of).collect()
    }

    /// The key of a limit whose identifier is the tag.
    pub(crate) fn by_identifier(&self, scope: &Scope, identifier: &[u8], letter: char) -> Vec<u8> {
        let mut key = self.open();
        self.text.identifier(&mut key, identifier);
        key.extend_from_slice(b"}:");
        self.text.name(&mut key, scope.policy());
        if !scope.limit().is_empty() {
            key.push(b':');
            self.text.name(&mut key, scope.limit());
        }
        close(key, letter)
    }

    fn by_policy(&self, scope: &Scope, identifier: &[u8], letter: char) -> Vec<u8> {
        let mut key = self.open();
        key.push(b'=');
        self.text.name(&mut key, scope.policy());
        key.extend_from_slice(b"}:");
        self.text.name(&mut key, scope.limit());
        key.push(b':');
        self.text.identifier(&mut key, identifier);
        close(key, letter)
    }

    fn by_tag(&self, tag: &str, scope: &Scope, identifier: &[u8], letter: char) -> Vec<u8> {
        let mut key = self.open();
        key.push(b'@');
        self.text.name(&mut key, tag);
        key.extend_from_slice(b"}:");
        self.text.name(&mut key, scope.policy());
        key.push(b':');
        self.text.name(&mut key, scope.limit());
        key.push(b':');
        self.text.identifier(&mut key, identifier);
        close(key, letter)
    }

    fn open(&self) -> Vec<u8> {
        let mut key = Vec::with_capacity(64);
        key.extend_from_slice(self.prefix.as_bytes());
        key.extend_from_slice(b":{");
        key
    }
}

fn close(mut key: Vec<u8>, letter: char) -> Vec<u8> {
    key.push(b':');
    key.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
    key
}

/// The key to probe a node with, in the slot of another key: `tg:{7:user-42}:_tidegate:probe:a`.
pub(crate) fn probe(beside: &[u8]) -> Vec<u8> {
    let end = tag(beside).map_or(beside.len(), |tag| tag.end + 1);
    let mut key = beside[..end].to_vec();
    key.extend_from_slice(b":_tidegate:probe:a");
    key
}

/// The slot of a key in a cluster: CRC16 (XMODEM) of its tag, of 16,384.
pub(crate) fn slot(key: &[u8]) -> u16 {
    crc16(tag(key).map_or(key, |tag| &key[tag])) % 16_384
}

/// Where the tag of a key is, if it has one.
fn tag(key: &[u8]) -> Option<Range<usize>> {
    let start = key.iter().position(|byte| *byte == b'{')? + 1;
    let length = key[start..].iter().position(|byte| *byte == b'}')?;
    (length > 0).then_some(start..start + length)
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let mut crc = crc ^ (u16::from(*byte) << 8);
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
        crc
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(policy: &str, limit: &str, identifier: &[u8]) -> String {
        let keys = Keys::new("tg", [7; 16], false);
        let key = keys.by_identifier(&Scope::named(policy, limit), identifier, 'a');
        String::from_utf8(key).unwrap()
    }

    #[test]
    fn slots_are_those_of_redis() {
        // As `CLUSTER KEYSLOT` answers them.
        for (key, expected) in [
            ("123456789", 12_739),
            ("foo", 12_182),
            ("{foo}:bar", 12_182),
            ("a{foo}{bar}", 12_182),
            ("{}foo", 9_500),
        ] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }

    #[test]
    fn probes_are_in_the_slot_of_what_failed() {
        for (key, expected) in [
            ("tg:{7:user-42}:api:a", "tg:{7:user-42}:_tidegate:probe:a"),
            ("tg:{=signup}:ip:9:127.0.0.1:a", "tg:{=signup}:_tidegate:probe:a"),
            ("tg:{nodes}", "tg:{nodes}:_tidegate:probe:a"),
            ("a{b}:{7:user-42}:api:a", "a{b}:_tidegate:probe:a"),
        ] {
            let probe = probe(key.as_bytes());
            assert_eq!(String::from_utf8_lossy(&probe), expected);
            assert_eq!(slot(&probe), slot(key.as_bytes()), "{key}");
        }
    }

    #[test]
    fn plain_identifiers_can_be_read_and_others_are_hashed() {
        assert_eq!(key_of("api", "", b"user-42"), "tg:{7:user-42}:api:a");
        assert_eq!(key_of("plan", "second", b"user-42"), "tg:{7:user-42}:plan:second:a");
        for odd in [&b"a}b"[..], b"{a", b"line\nfeed", b"", &[0xff], &[b'x'; 65]] {
            let key = key_of("api", "", odd);
            let hashed = key.starts_with("tg:{#") && key.len() == "tg:{#}:api:a".len() + 32;
            assert!(hashed || odd.is_empty(), "{key}");
        }
    }

    #[test]
    fn no_two_identifiers_spell_the_same_key() {
        let rows = [
            (("p", "", &b"a"[..]), ("p", "", &b"a:b"[..])),
            (("p", "", b"1:a"), ("p", "", b"a")),
            (("a:b", "", b"k"), ("a", "b", b"k")),
            (("#00", "", b"k"), ("00", "", b"k")),
            (("p", "", &[b'x'; 65]), ("p", "", &[b'x'; 66])),
        ];
        for ((policy, limit, key), other) in rows {
            assert_ne!(key_of(policy, limit, key), key_of(other.0, other.1, other.2));
        }
    }

    #[test]
    fn no_two_scopes_of_a_cluster_spell_the_same_key() {
        let keys = Keys::new("tg", [7; 16], true);
        let limit: tidegate_core::Limit = "5/s".parse().unwrap();
        let scopes = [
            Scope::named("a", "b"),
            Scope::together("a", "b"),
            Scope::tagged("a", "b", ""),
            Scope::tagged("a", "", "b"),
            Scope::tagged("a", "a", "b"),
            Scope::tagged("=a", "a", "b"),
            Scope::named("@a", "b"),
            Scope::together("@a", "b"),
        ];
        let keyed = scopes.each_ref().map(|scope| KeyedLimit { scope, key: b"k", limit: &limit });
        let names = keys.for_limits(&keyed);
        let spelt: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(spelt.len(), scopes.len(), "{names:?}");
    }

    #[test]
    fn a_key_does_not_depend_on_its_neighbours() {
        let keys = Keys::new("tg", [7; 16], false);
        let limit: tidegate_core::Limit = "5/s".parse().unwrap();
        let scopes =
            [Scope::named("p", "l"), Scope::together("p", "l"), Scope::tagged("edge", "p", "l")];
        let keyed = scopes.each_ref().map(|scope| KeyedLimit { scope, key: b"k", limit: &limit });
        assert!(keys.for_limits(&keyed).iter().all(|name| name == b"tg:{1:k}:p:l:a"));
    }

    #[test]
    fn limits_of_one_ask_share_a_slot_of_a_cluster() {
        let keys = Keys::new("tg", [7; 16], true);
        let limit: tidegate_core::Limit = "5/s".parse().unwrap();
        let named = [Scope::named("plan", "second"), Scope::named("plan", "day")];
        let together = [Scope::together("signup", "ip"), Scope::together("signup", "mail")];
        let tagged = [Scope::tagged("edge", "api", ""), Scope::tagged("edge", "signup", "ip")];
        for ([ip, mail], first, second) in [
            (&named, &b"k"[..], &b"k"[..]),
            (&together, b"k", b"k"),
            (&together, b"127.0.0.1", b"example.org"),
            (&tagged, b"k", b"k"),
            (&tagged, b"127.0.0.1", b"example.org"),
        ] {
            let names = keys.for_limits(&[
                KeyedLimit { scope: ip, key: first, limit: &limit },
                KeyedLimit { scope: mail, key: second, limit: &limit },
            ]);
            assert_ne!(names[0], names[1]);
            assert_eq!(slot(&names[0]), slot(&names[1]));
        }
    }
}
