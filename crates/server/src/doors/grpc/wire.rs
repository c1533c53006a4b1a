//! Envoy's messages as protobuf. What comes in is read by hand, borrowed and bounded as it is read: a generated type
//! would allocate for whatever is sent before anybody could count it. What goes out is derived.

mod fields;
mod request;
mod response;

pub(super) use self::request::decode;
pub(super) use self::response::{
    DescriptorStatus, HeaderValue, RateLimit, RateLimitResponse, seconds,
};
