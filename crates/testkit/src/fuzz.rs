//! For properties of whatever reads what comes from outside: input that begins well and goes wrong, and a bound on what
//! may be held because of it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::RngSeed;

/// What may be held whatever is read: a message, a table, a few numbers.
const FLOOR_BYTES: u64 = 32 << 10;

/// So many cases, the same for everyone; `PROPTEST_RNG_SEED` asks for others.
pub fn config(cases: u32) -> ProptestConfig {
    let mut config =
        ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(20);
    }
    config
}

/// What a parser takes, and the words that it is made of.
#[derive(Clone, Copy, Debug)]
pub struct Grammar {
    /// Inputs that are right.
    pub whole: &'static [&'static str],
    /// What they are made of.
    pub words: &'static [&'static str],
}

/// Something that is whole, with up to four edits; or words in any order, now and then many times over.
pub fn bytes_like(grammar: Grammar) -> impl Strategy<Value = Vec<u8>> {
    let edits = vec((any::<Index>(), any::<Index>(), piece(grammar)), 0..5);
    let edited = (select(grammar.whole), edits).prop_map(|(whole, edits)| {
        edits.into_iter().fold(whole.as_bytes().to_vec(), |mut bytes, (at, length, piece)| {
            let at = at.index(bytes.len() + 1);
            let end = at + length.index((bytes.len() - at).min(8) + 1);
            bytes.splice(at..end, piece);
            bytes
        })
    });
    let times = prop_oneof![9 => Just(1), 1 => 2_usize..200];
    let words = (vec(piece(grammar), 0..24), times)
        .prop_map(|(pieces, times)| pieces.concat().repeat(times));
    prop_oneof![edited, words]
}

/// … as text.
pub fn text_like(grammar: Grammar) -> impl Strategy<Value = String> {
    bytes_like(grammar).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A word, or a few bytes of nonsense.
fn piece(grammar: Grammar) -> impl Strategy<Value = Vec<u8>> {
    let word = select(grammar.words).prop_map(|word| word.as_bytes().to_vec());
    prop_oneof![6 => word, 1 => vec(any::<u8>(), 0..4)]
}

/// Does something with an input, and holds it to so many bytes for each of the input's, at any moment.
#[track_caller]
pub fn held_to<T>(times: u64, input: &[u8], work: impl FnOnce() -> T) -> T {
    let mut done = None;
    let info = allocation_counter::measure(|| done = Some(work()));
    let most = FLOOR_BYTES + times * input.len() as u64;
    assert!(info.bytes_max <= most, "{} bytes for {} of input", info.bytes_max, input.len());
    done.unwrap()
}

#[test]
#[should_panic(expected = "1000000 bytes for 2 of input")]
fn whoever_believes_a_claim_is_noticed() {
    held_to(100, b"9!", || Vec::<u8>::with_capacity(1_000_000));
}
