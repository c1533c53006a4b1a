//! What the HTTP doors share: bodies within bounds, errors as `application/problem+json`, refusals.

pub(crate) mod body;
mod problem;
pub(crate) mod question;
pub(crate) mod refusal;
pub(crate) mod request;

pub(crate) use self::problem::Problem;
