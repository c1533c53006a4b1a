//! Envoy's rate limit service over gRPC, `envoy.service.ratelimit.v3.RateLimitService`, with health and reflection, and
//! the same API as JSON over HTTP.
//!
//! The way of a call: [`connection`] → [`service`] picks the method → [`wire`] decodes the request within bounds →
//! [`targets`] finds the counter of each descriptor → [`decide`] asks the engine → [`answer`] → [`wire`] encodes it.

mod answer;
mod connection;
mod decide;
mod health;
mod json;
mod reflection;
mod request;
mod service;
mod targets;
mod wire;

pub(crate) use self::connection::GrpcDoor;
pub(crate) use self::json::answer_json;

pub(crate) use tidegate_config::{AnswerStyle, Shadow};
