//! A model check of the protocol: every order of messages, every loss, every crash and a restart, with the rules of `rounds`.
//!
//! Two writers check once each, against three servers. A message may arrive at any later time or never, also after its
//! writer was told that it failed. A writer that crashes is one that takes no further step, so that every prefix of a run is a run with a crash.
//! Each writer has a bounded number of ballots; within that, every state up to a depth is visited, which is
//! printed. Each rule that the protocol needs is
//! also left out once: the search then has to find a history that breaks a promise.

mod controls;
mod explore;
mod protocol;

use self::controls::{LockThatExpires, VoteOverCounters};
use self::explore::{Explored, Model, explore};
use self::protocol::{Protocol, Rules};

/// No depth is begun after so many states: a few seconds.
const STATES_MAX: usize = 200_000;

/// Prints what was visited, and the history that breaks a promise if there is one.
fn run<M: Model>(name: &str, model: &M) -> Explored {
    run_up_to(name, model, STATES_MAX)
}

fn run_up_to<M: Model>(name: &str, model: &M, states_max: usize) -> Explored {
    let explored = explore(model, states_max);
    let Explored { states, depth, is_all, .. } = explored;
    println!(
        "{name}: {states} states, depth {depth}{}",
        if is_all { ", all there are" } else { "" }
    );
    for (number, line) in explored.history.iter().enumerate() {
        println!("{:3}. {line}", number + 1);
    }
    explored
}

/// Limit, ballots of each writer, calls that fail, restarts.
type Case = (u8, [u8; 2], u8, u8);

fn holds((limit, ballots, failures, restarts): Case) {
    let model = Protocol { limit, ballots, restarts, failures, rules: Rules::ALL, named: false };
    let name =
        format!("limit {limit}, {ballots:?} ballots, {failures} failures, {restarts} restarts");
    let explored = run(&name, &model);
    assert!(explored.history.is_empty(), "{name}");
    assert!(explored.states > 10_000, "the search is not vacuous");
}

#[test]
fn no_order_loss_or_crash_admits_more() {
    holds((1, [2, 1], 1, 0));
}

#[test]
fn no_order_loss_or_crash_charges_twice() {
    holds((3, [3, 1], 0, 0));
    holds((3, [2, 2], 1, 0));
}

#[test]
fn a_server_that_restarts_empty_and_stays_out_admits_nothing_more() {
    holds((1, [1, 1], 1, 1));
}

/// A control: it has to find a history that ends like this.
fn breaks(name: &str, model: &impl Model, ending: &str) {
    let explored = run_up_to(name, model, 10 * STATES_MAX);
    let last = explored.history.last().unwrap_or_else(|| panic!("{name}: nothing was found"));
    assert!(last.contains(ending), "{name}: {last}");
}

#[test]
fn without_staying_out_a_restart_admits_more() {
    let rules = Rules { stays_out: false, ..Rules::ALL };
    let model =
        Protocol { limit: 1, ballots: [1, 1], restarts: 1, failures: 0, rules, named: true };
    breaks("no staying out", &model, "2 checks are admitted, the limit is 1");
}

#[test]
fn without_ancestors_a_check_is_charged_twice() {
    let rules = Rules { knows_ancestors: false, ..Rules::ALL };
    let model =
        Protocol { limit: 3, ballots: [2, 1], restarts: 0, failures: 0, rules, named: true };
    breaks("no ancestors", &model, "is charged twice");
}

#[test]
fn without_a_fence_a_check_is_charged_twice() {
    let rules = Rules { fences: false, ..Rules::ALL };
    let model =
        Protocol { limit: 3, ballots: [3, 1], restarts: 0, failures: 0, rules, named: false };
    breaks("no fence (servers keep no names)", &model, "is charged twice");
}

#[test]
fn without_promises_that_are_kept_more_is_admitted() {
    let rules = Rules { keeps_promises: false, ..Rules::ALL };
    let model =
        Protocol { limit: 1, ballots: [1, 1], restarts: 0, failures: 0, rules, named: true };
    breaks("no promises", &model, "2 checks are admitted, the limit is 1");
}

#[test]
fn a_majority_vote_over_counters_admits_more() {
    breaks("a vote over counters", &VoteOverCounters, "3 checks are admitted, the limit is 2");
}

#[test]
fn a_lock_that_expires_admits_more() {
    breaks("a lock without a fence", &LockThatExpires, "2 checks are admitted, the limit is 1");
}
