//! What a person runs beside the server: each command with its arguments in one module.
#![forbid(unsafe_code)]

pub mod bench;
pub mod check;
mod client;
pub mod cost;
pub mod doctor;
mod failure;
mod progress;
pub mod ready;
pub mod replay;
pub mod simulate;
mod terminal;
pub mod vectors;

pub use self::failure::{DENIED, ERROR, Failure, OK, USAGE, print, unless_closed};
pub use self::terminal::wants_color;
