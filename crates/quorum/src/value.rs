//! What an item holds: its content, and which writes it descends from.

use crate::ballot::Ballot;

/// How many ancestors a value knows. Between a write and the question what has become of it, this many others may come.
pub(crate) const ANCESTORS_MAX: usize = 16;

/// The ballots of the writes that a value is made of, the newest first. Each is above the next, since a writer's ballot is
/// above that of the value it read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Lineage {
    ballots: Vec<Ballot>,
    /// Whether it goes back to the first write.
    is_whole: bool,
}

/// Whether a value is made of a certain write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Descent {
    Yes,
    No,
    /// The list ends before it would say.
    Unknown,
}

impl Default for Lineage {
    fn default() -> Self {
        Self { ballots: Vec::new(), is_whole: true }
    }
}

impl Lineage {
    /// With one more write on top.
    pub(crate) fn with(&self, ballot: Ballot) -> Self {
        let kept = self.ballots.iter().take(ANCESTORS_MAX - 1);
        let is_whole = self.is_whole && self.ballots.len() < ANCESTORS_MAX;
        Self { ballots: std::iter::once(&ballot).chain(kept).copied().collect(), is_whole }
    }

    pub(crate) fn descends_from(&self, ballot: Ballot) -> Descent {
        if self.ballots.contains(&ballot) {
            return Descent::Yes;
        }
        // They fall: after a lower one it cannot come any more.
        let is_passed = self.ballots.last().is_some_and(|oldest| *oldest < ballot);
        if self.is_whole || is_passed { Descent::No } else { Descent::Unknown }
    }
}

/// What an item holds.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Value<T> {
    pub(crate) lineage: Lineage,
    /// What `tidegate-cas` wrote. Empty for an item that was removed: only its lineage is left.
    pub(crate) content: T,
}

const FORMAT: u8 = 1;

impl Value<Vec<u8>> {
    /// A format number, whether the lineage is whole, its length, its ballots, and the content.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let Lineage { ballots, is_whole } = &self.lineage;
        let mut bytes = Vec::with_capacity(3 + 16 * ballots.len() + self.content.len());
        // At most ANCESTORS_MAX.
        let count = u8::try_from(ballots.len()).unwrap_or(u8::MAX);
        bytes.extend_from_slice(&[FORMAT, u8::from(*is_whole), count]);
        bytes.extend(ballots.iter().flat_map(|ballot| ballot.to_bytes()));
        bytes.extend_from_slice(&self.content);
        bytes
    }

    /// `None` for bytes that nothing here has written.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&[FORMAT, is_whole @ (0 | 1), count], rest) = bytes.split_first_chunk()? else {
            return None;
        };
        let (ballots, content) = rest.split_at_checked(16 * usize::from(count))?;
        let ballots = ballots.chunks_exact(16).filter_map(|chunk| chunk.try_into().ok());
        let ballots: Vec<Ballot> = ballots.map(Ballot::from_bytes).collect();
        let falls = ballots.windows(2).all(|pair| pair[0] > pair[1]);
        let lineage = Lineage { ballots, is_whole: is_whole == 1 };
        (usize::from(count) <= ANCESTORS_MAX && falls)
            .then(|| Self { lineage, content: content.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ballot(counter: u64) -> Ballot {
        Ballot { counter, writer: 3 }
    }

    #[test]
    fn descent_is_known_as_far_back_as_the_list_goes() {
        let all = (1..=20).fold(Lineage::default(), |lineage, n| lineage.with(ballot(2 * n)));
        // The newest 16 are 40, 38 … 10.
        for (counter, descent) in [
            (40, Descent::Yes),
            (10, Descent::Yes),
            (39, Descent::No),
            (41, Descent::No),
            (11, Descent::No),
            (9, Descent::Unknown),
            (8, Descent::Unknown),
        ] {
            assert_eq!(all.descends_from(ballot(counter)), descent, "{counter}");
        }
        let whole = Lineage::default().with(ballot(5));
        assert_eq!(whole.descends_from(ballot(4)), Descent::No);
        assert_eq!(Lineage::default().descends_from(ballot(4)), Descent::No);
    }

    #[test]
    fn what_was_written_is_read_the_same_and_nothing_else_is_read() {
        let lineage = (1..=20).fold(Lineage::default(), |lineage, n| lineage.with(ballot(n)));
        for lineage in [Lineage::default(), lineage] {
            let value = Value { lineage, content: b"state".to_vec() };
            let bytes = value.to_bytes();
            assert_eq!(Value::from_bytes(&bytes), Some(value));
            let head = bytes.len() - b"state".len();
            for cut in 0..head {
                assert_eq!(Value::from_bytes(&bytes[..cut]), None, "{cut} bytes");
            }
        }
        for bytes in [&b""[..], b"\x02\x01\x00", b"\x01\x02\x00", b"\x01\x01\xff", b"garbage"] {
            assert_eq!(Value::from_bytes(bytes), None, "{bytes:?}");
        }
        let rising = [ballot(1).to_bytes(), ballot(2).to_bytes()].concat();
        assert_eq!(Value::from_bytes(&[&[1, 1, 2], &rising[..]].concat()), None);
    }
}
