//! Which server keeps an item: consistent hashing, so that a server more or less moves only its share.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

/// Points of each server on the ring: shares then differ by some percent.
const POINTS: u32 = 160;

/// The same on every node, whatever the order in which servers are named.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    /// Points in ascending order, each with the number of its server.
    points: Vec<(u64, usize)>,
}

impl Ring {
    pub(crate) fn new(servers: &[String]) -> Self {
        let point = |server: &str, point: u32| hash(&[server.as_bytes(), &point.to_le_bytes()]);
        let numbered = servers.iter().enumerate();
        let points =
            numbered.flat_map(|(n, server)| (0..POINTS).map(move |p| (point(server, p), n)));
        let mut points: Vec<_> = points.collect();
        points.sort_unstable();
        Self { points }
    }

    /// The number of the server for a key made of these parts.
    pub(crate) fn server(&self, parts: &[&[u8]]) -> usize {
        let at = self.points.partition_point(|(point, _)| *point < hash(parts));
        self.points.get(at).or_else(|| self.points.first()).map_or(0, |(_, server)| *server)
    }
}

/// Not against flooding: who can choose identifiers can fill one server, as they can fill one key.
fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = SipHasher13::new();
    for part in parts {
        hasher.write(part);
        hasher.write_u8(0xff);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("10.0.0.{n}:11211")).collect()
    }

    fn keys() -> impl Iterator<Item = String> {
        (0..10_000).map(|n| format!("user-{n}"))
    }

    #[test]
    fn servers_have_like_shares() {
        let ring = Ring::new(&servers(4));
        let mut counts = [0_u32; 4];
        keys().for_each(|key| counts[ring.server(&[key.as_bytes()])] += 1);
        assert!(counts.iter().all(|count| (1_800..3_300).contains(count)), "{counts:?}");
    }

    #[test]
    fn one_more_server_moves_only_its_share() {
        let (before, after) = (Ring::new(&servers(4)), Ring::new(&servers(5)));
        let moved = keys().filter(|key| {
            let to = after.server(&[key.as_bytes()]);
            assert!(to == 4 || to == before.server(&[key.as_bytes()]), "moved between old servers");
            to == 4
        });
        let moved = moved.count();
        assert!((1_200..2_800).contains(&moved), "{moved}");
    }

    #[test]
    fn the_order_of_servers_does_not_matter() {
        let (forward, mut backward) = (servers(4), servers(4));
        backward.reverse();
        let (one, other) = (Ring::new(&forward), Ring::new(&backward));
        for key in keys().take(500) {
            let parts: &[&[u8]] = &[key.as_bytes()];
            assert_eq!(forward[one.server(parts)], backward[other.server(parts)]);
        }
    }
}
