//! The examples of the guides that need no other crate, compiled and run as tests.

#[doc = include_str!("../../../docs/algorithms.md")]
struct Algorithms;

#[doc = include_str!("../../../docs/migrating.md")]
struct Migrating;
