//! What doors share: how they are opened, bodies within bounds, errors as `application/problem+json`, refusals.

pub(crate) mod body;
mod open;
mod problem;
pub(crate) mod question;
pub(crate) mod refusal;
pub(crate) mod request;

pub(crate) use self::open::{DoorContext, ExampleCheck, OpenDoor};
pub(crate) use self::problem::Problem;
