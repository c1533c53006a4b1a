//! The examples of the README and of the guides that need a store in Redis, compiled and run as tests.

#[doc = include_str!("../../../README.md")]
struct Readme;

#[doc = include_str!("../../../docs/library.md")]
struct Library;

#[doc = include_str!("../../../docs/redis.md")]
struct Redis;
