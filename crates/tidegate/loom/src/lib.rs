//! The table of the memory store, compiled from its own files against loom's atomics.
#![cfg(test)]
#![allow(dead_code, unreachable_pub, reason = "the tests use a part of what the store uses")]

#[path = "../../src/store/memory/arena.rs"]
mod arena;
#[path = "../../src/store/memory/bucket.rs"]
mod bucket;
#[path = "../../src/store/memory/budget.rs"]
mod budget;
mod sync;
#[path = "../../src/store/memory/table.rs"]
mod table;
mod tests;
