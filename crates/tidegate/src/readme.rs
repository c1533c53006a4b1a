//! The examples of the README and the guides, compiled and run as tests.

#[doc = include_str!("../../../README.md")]
struct Readme;

#[doc = include_str!("../../../docs/algorithms.md")]
struct Algorithms;

#[doc = include_str!("../../../docs/library.md")]
struct Library;

#[doc = include_str!("../../../docs/migrating.md")]
struct Migrating;

#[doc = include_str!("../../../docs/redis.md")]
struct Redis;
