//! Every interleaving of the table's lock-free parts, as loom explores them: `./dev loom`.

use std::sync::Arc;

use loom::thread;

use crate::bucket::Word;
use crate::budget::Budget;
use crate::table::{FoundEntry, Insert, Line, Table};

/// Two keys of the first line. The first moves when the table grows.
const KEY: u64 = 0b10;
const OTHER: u64 = 0b100;

fn table() -> Arc<Table> {
    Arc::new(Table::new(Arc::new(Budget::new(1 << 20))))
}

/// The table does not know what the bits mean.
fn word(bits: u64) -> Word {
    Word { bits, unit: 0 }
}

/// One admission: read, decide, and write if nothing changed meanwhile.
fn add_one(table: &Table, fingerprint: u64) {
    loop {
        let spot = table.find(fingerprint);
        let done = match spot.word.bits {
            0 => table.insert(&spot, fingerprint, word(1)) == Insert::Done,
            count => spot.replace(word(count + 1)),
        };
        if done {
            return;
        }
        thread::yield_now();
    }
}

/// The same on the path of known keys.
fn add_one_known(table: &Table, fingerprint: u64) {
    let add = |spot: FoundEntry<'_>| spot.replace_bits(spot.bits() + 1);
    while !table.home(fingerprint).find(fingerprint, 0).is_some_and(add) {
        thread::yield_now();
    }
}

fn count(table: &Table, fingerprint: u64) -> u64 {
    table.find(fingerprint).word.bits
}

#[test]
fn no_admission_is_lost_on_a_known_key() {
    loom::model(|| {
        let table = table();
        add_one(&table, KEY);
        let other = thread::spawn({
            let table = table.clone();
            move || add_one_known(&table, KEY)
        });
        add_one_known(&table, KEY);
        other.join().unwrap();
        assert_eq!(count(&table, KEY), 3);
    });
}

#[test]
fn a_new_key_is_added_once() {
    loom::model(|| {
        let table = table();
        let other = thread::spawn({
            let table = table.clone();
            move || add_one(&table, KEY)
        });
        add_one(&table, KEY);
        other.join().unwrap();
        assert_eq!((count(&table, KEY), table.keys()), (2, 1));
    });
}

/// Runs a reader beside a writer of the first line. The reader is the thread that is started later: loom looks for races
/// of an access with the last access before it only, and would try one order if reads came first.
fn read_beside(
    table: &Arc<Table>,
    reader: impl FnOnce(&Table) + Send + 'static,
    writer: impl FnOnce(&Table, Line<'_>),
) {
    let reading = thread::spawn({
        let table = table.clone();
        move || reader(&table)
    });
    let line = table.line(0);
    let locked = line.lock();
    writer(table, line);
    drop(locked);
    reading.join().unwrap();
}

#[test]
fn a_refusal_reads_what_belongs_together() {
    bounded(3).check(|| {
        let table = table();
        for fingerprint in [KEY, OTHER] {
            add_one(&table, fingerprint);
        }
        let reader = |table: &Table| {
            let spot = table.find(KEY);
            let bits = spot.word.bits;
            assert!(!spot.is_unchanged() || bits <= 1, "read {bits} for a key that only had 1");
            if let Some((bits, true)) =
                table.find_entry(OTHER).map(|spot| (spot.bits(), spot.is_unchanged()))
            {
                assert!([1, 20].contains(&bits));
            }
        };
        // The key leaves, and the other one moves into its place with another word.
        read_beside(&table, reader, |table, line| {
            table.find_locked(line.bucket, OTHER).unwrap().set_word(word(20));
            table.retain(line, |fingerprint, _| fingerprint != KEY);
        });
        assert_eq!((count(&table, KEY), count(&table, OTHER)), (0, 20));
    });
}

#[test]
fn an_arrival_is_never_read_in_the_unit_of_another() {
    loom::model(|| {
        let table = table();
        add_one(&table, KEY);
        let reader = |table: &Table| {
            for (unit, expected) in [(0, 1), (1, 20)] {
                if let Some(spot) = table.home(KEY).find(KEY, unit) {
                    let bits = spot.bits();
                    assert!(!spot.is_unchanged() || bits == expected, "read {bits} in {unit}");
                }
            }
        };
        let after = Word { bits: 20, unit: 1 };
        read_beside(&table, reader, |table, line| {
            table.find_locked(line.bucket, KEY).unwrap().set_word(after);
        });
        assert_eq!(table.find(KEY).word, after);
    });
}

/// The control: without the version check the model does find a word in a wrong unit.
#[test]
#[should_panic(expected = "in a wrong unit")]
fn finds_the_word_that_an_unchecked_read_takes_for_another() {
    loom::model(|| {
        let table = table();
        add_one(&table, KEY);
        let reader = |table: &Table| {
            let found = table.home(KEY).find(KEY, 0);
            assert!(found.is_none_or(|spot| spot.bits() == 1), "in a wrong unit");
        };
        read_beside(&table, reader, |table, line| {
            let after = Word { bits: 20, unit: 1 };
            table.find_locked(line.bucket, KEY).unwrap().set_word(after);
        });
    });
}

#[test]
fn an_admission_never_lands_on_the_key_that_took_the_place() {
    loom::model(|| {
        let table = table();
        add_one(&table, KEY);
        let other = thread::spawn({
            let table = table.clone();
            move || {
                let line = table.line(0);
                let locked = line.lock();
                table.retain(line, |fingerprint, _| fingerprint != KEY);
                drop(locked);
                add_one(&table, OTHER);
            }
        });
        // Whatever this sees, it may only ever write to the key.
        if let Some(spot) = table.home(KEY).find(KEY, 0) {
            spot.replace_bits(100);
        }
        other.join().unwrap();
        assert_eq!(count(&table, OTHER), 1);
        assert_eq!(count(&table, KEY), 0, "it left after the write, or the write was refused");
    });
}

/// All interleavings with at most this many forced switches: without a bound, growing has too many.
fn bounded(switches: usize) -> loom::model::Builder {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(switches);
    model
}

#[test]
fn growing_neither_hides_a_key_nor_loses_an_admission() {
    // The key moves to the new line, the other one stays.
    for fingerprint in [KEY, OTHER] {
        bounded(3).check(move || {
            let table = table();
            add_one(&table, KEY);
            add_one(&table, OTHER);
            let other = thread::spawn({
                let table = table.clone();
                move || assert!(table.grow())
            });
            assert_eq!(count(&table, fingerprint), 1, "a key was hidden while the table grew");
            add_one(&table, fingerprint);
            other.join().unwrap();
            assert_eq!(count(&table, fingerprint), 2);
            assert_eq!((table.keys(), table.lines()), (2, 3));
        });
    }
}

#[test]
fn a_new_key_is_added_where_it_belongs_while_the_table_grows() {
    for fingerprint in [KEY, OTHER] {
        bounded(3).check(move || {
            let table = table();
            let other = thread::spawn({
                let table = table.clone();
                move || assert!(table.grow())
            });
            add_one(&table, fingerprint);
            other.join().unwrap();
            assert_eq!((count(&table, fingerprint), table.keys()), (1, 1));
        });
    }
}

/// The control: without the version check the model does find a lost admission.
#[test]
#[should_panic(expected = "lost")]
fn finds_the_admission_that_an_unchecked_write_loses() {
    loom::model(|| {
        let table = table();
        add_one(&table, KEY);
        let blind = |table: &Table| {
            let count = table.find(KEY).word.bits;
            let line = table.line(0);
            let _locked = line.lock();
            table.find_locked(line.bucket, KEY).unwrap().set_word(word(count + 1));
        };
        let other = thread::spawn({
            let table = table.clone();
            move || blind(&table)
        });
        blind(&table);
        other.join().unwrap();
        assert_eq!(count(&table, KEY), 3, "lost");
    });
}
