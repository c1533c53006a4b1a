//! Envoy's messages as protobuf.
//!
//! Requests are decoded by hand, because generated types allocate for everything that is sent before a bound can be
//! checked: this decoder borrows from the message and stops at the bound. The door answers 1.65 × as
//! many requests as tonic with prost: docs/benchmarks.md, "Every door of the server". Responses are derived with prost.

mod fields;
mod request;

pub(super) use self::request::decode;

/// `envoy.service.ratelimit.v3.RateLimitResponse`, without the fields that stay empty.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RateLimitResponse {
    #[prost(int32, tag = "1")]
    pub(super) overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub(super) statuses: Vec<DescriptorStatus>,
    #[prost(message, repeated, tag = "3")]
    pub(super) response_headers_to_add: Vec<HeaderValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DescriptorStatus {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) current_limit: Option<RateLimit>,
    #[prost(uint32, tag = "3")]
    pub(super) limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub(super) duration_until_reset: Option<prost_types::Duration>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RateLimit {
    #[prost(uint32, tag = "1")]
    pub(super) requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    pub(super) unit: i32,
    #[prost(string, tag = "3")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HeaderValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

pub(super) fn seconds(seconds: u64) -> prost_types::Duration {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    prost_types::Duration { seconds, nanos: 0 }
}
