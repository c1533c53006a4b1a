//! `envoy.service.ratelimit.v3.RateLimitResponse`: what we fill of it.

/// The answer to a request.
#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct RateLimitResponse {
    #[prost(int32, tag = "1")]
    pub(in super::super) overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub(in super::super) statuses: Vec<DescriptorStatus>,
    #[prost(message, repeated, tag = "3")]
    pub(in super::super) response_headers_to_add: Vec<HeaderValue>,
}

/// The answer to one descriptor.
#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct DescriptorStatus {
    #[prost(int32, tag = "1")]
    pub(in super::super) code: i32,
    #[prost(message, optional, tag = "2")]
    pub(in super::super) current_limit: Option<RateLimit>,
    #[prost(uint32, tag = "3")]
    pub(in super::super) limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub(in super::super) duration_until_reset: Option<prost_types::Duration>,
}

/// A limit, as clients are told it.
#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct RateLimit {
    #[prost(uint32, tag = "1")]
    pub(in super::super) requests_per_unit: u32,
    #[prost(int32, tag = "2")]
    pub(in super::super) unit: i32,
    #[prost(string, tag = "3")]
    pub(in super::super) name: String,
}

/// A header.
#[derive(Clone, PartialEq, prost::Message)]
pub(in super::super) struct HeaderValue {
    #[prost(string, tag = "1")]
    pub(in super::super) key: String,
    #[prost(string, tag = "2")]
    pub(in super::super) value: String,
}

/// So many seconds.
pub(in super::super) fn seconds(seconds: u64) -> prost_types::Duration {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    prost_types::Duration { seconds, nanos: 0 }
}
