//! Every interleaving of the table's lock-free parts, as loom explores them: `./dev loom`.

use std::sync::Arc;

use loom::thread;

use crate::budget::Budget;
use crate::table::{Insert, Table};

fn table() -> Arc<Table> {
    Arc::new(Table::new(Arc::new(Budget::new(1 << 20))))
}

/// One admission: read, decide, and write if nothing changed meanwhile.
fn add_one(table: &Table, fingerprint: u64) {
    loop {
        let spot = table.find(fingerprint);
        let done = match spot.word {
            0 => table.insert(&spot, fingerprint, 1) == Insert::Done,
            count => spot.replace(count + 1),
        };
        if done {
            return;
        }
        thread::yield_now();
    }
}

/// The same on the path of known keys.
fn add_one_known(table: &Table, fingerprint: u64) {
    while !table.home(fingerprint).find(fingerprint).is_some_and(|spot| spot.replace(spot.word() + 1)) {
        thread::yield_now();
    }
}

fn count(table: &Table, fingerprint: u64) -> u64 {
    table.find(fingerprint).word
}

#[test]
fn no_admission_is_lost_on_a_known_key() {
    loom::model(|| {
        let table = table();
        add_one(&table, 7);
        let other = thread::spawn({
            let table = table.clone();
            move || add_one_known(&table, 7)
        });
        add_one_known(&table, 7);
        other.join().unwrap();
        assert_eq!(count(&table, 7), 3);
    });
}

#[test]
fn a_new_key_is_added_once() {
    loom::model(|| {
        let table = table();
        let other = thread::spawn({
            let table = table.clone();
            move || add_one(&table, 7)
        });
        add_one(&table, 7);
        other.join().unwrap();
        assert_eq!((count(&table, 7), table.keys()), (2, 1));
    });
}

#[test]
fn a_refusal_reads_what_belongs_together() {
    loom::model(|| {
        let table = table();
        for fingerprint in [1, 2] {
            add_one(&table, fingerprint);
        }
        let other = thread::spawn({
            let table = table.clone();
            move || {
                // 1 leaves, and 2 moves into its place with another word.
                let line = table.line(0);
                let _locked = line.lock();
                table.find_locked(line, 2).unwrap().set_word(20);
                table.retain(line, |fingerprint, _| fingerprint != 1);
            }
        });
        let spot = table.find(1);
        if spot.is_unchanged() {
            assert!(
                [0, 1].contains(&spot.word),
                "read {} for a key that only ever had 1",
                spot.word
            );
        }
        if let Some((word, true)) = table.find_entry(2).map(|spot| (spot.word(), spot.is_unchanged())) {
            assert!([1, 20].contains(&word));
        }
        other.join().unwrap();
        assert_eq!((count(&table, 1), count(&table, 2)), (0, 20));
    });
}

#[test]
fn an_admission_never_lands_on_the_key_that_took_the_place() {
    loom::model(|| {
        let table = table();
        add_one(&table, 1);
        let other = thread::spawn({
            let table = table.clone();
            move || {
                let line = table.line(0);
                let locked = line.lock();
                table.retain(line, |fingerprint, _| fingerprint != 1);
                drop(locked);
                add_one(&table, 2);
            }
        });
        // Whatever this sees, it may only ever write to key 1.
        if let Some(spot) = table.home(1).find(1) {
            spot.replace(100);
        }
        other.join().unwrap();
        assert_eq!(count(&table, 2), 1);
        assert_eq!(count(&table, 1), 0, "it left after the write, or the write was refused");
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
    // 1 moves to the new line, 2 stays.
    for fingerprint in [1, 2] {
        bounded(3).check(move || {
            let table = table();
            add_one(&table, 1);
            add_one(&table, 2);
            let other = thread::spawn({
                let table = table.clone();
                move || assert!(table.grow())
            });
            assert_eq!(count(&table, fingerprint), 1, "a key was hidden while the table grew");
            add_one(&table, fingerprint);
            other.join().unwrap();
            assert_eq!(count(&table, fingerprint), 2);
            assert_eq!((table.keys(), table.lines()), (2, 2));
        });
    }
}

#[test]
fn a_new_key_is_added_where_it_belongs_while_the_table_grows() {
    for fingerprint in [1, 2] {
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
        add_one(&table, 7);
        let blind = |table: &Table| {
            let count = table.find(7).word;
            let line = table.line(0);
            let _locked = line.lock();
            table.find_locked(line, 7).unwrap().set_word(count + 1);
        };
        let other = thread::spawn({
            let table = table.clone();
            move || blind(&table)
        });
        blind(&table);
        other.join().unwrap();
        assert_eq!(count(&table, 7), 3, "lost");
    });
}
