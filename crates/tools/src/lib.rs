//! The commands beside the server, each with its arguments in one module.
#![forbid(unsafe_code)]

pub mod bench;
pub mod check;
mod client;
pub mod cost;
pub mod doctor;
mod failure;
mod output;
mod progress;
pub mod ready;
pub mod replay;
pub mod simulate;
pub mod vectors;

pub use self::failure::{DENIED, ERROR, Failure, OK, USAGE};
pub use self::output::{print, unless_closed, wants_color, whole_number};
