//! Reflection, old and new: so that tools can list the service and call it without its `.proto` files.

mod describe;
mod schema;

use std::fmt;
use std::pin::Pin;

use hyper::body::Incoming;
use hyper::{Request, Response};
use tonic::body::Body;
use tonic_reflection::server::Builder;
use tower_service::Service as _;

use super::service::NAME_BYTES_MAX;

/// What all of this is about.
pub(super) const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

const V1: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const V1_ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

/// Answers a stream of questions.
type Method = Box<dyn Fn(Request<Incoming>) -> Answering + Send + Sync>;
type Answering = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// The descriptors that cannot be served, which a test keeps from happening.
#[derive(Debug)]
pub(crate) struct SchemaError(String);

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the schema of the rate limit service: {}", self.0)
    }
}

/// Both versions: clients of each are around.
pub(super) struct Reflection {
    v1: Method,
    v1_alpha: Method,
}

/// A method of a generated service, whose type has no name.
macro_rules! method {
    ($server:expr) => {{
        let server = $server.map_err(|error| SchemaError(error.to_string()))?;
        let server = server.max_decoding_message_size(NAME_BYTES_MAX);
        Box::new(move |request| -> Answering {
            let mut server = server.clone();
            Box::pin(async move {
                match server.call(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                }
            })
        })
    }};
}

impl Reflection {
    pub(super) fn new() -> Result<Self, SchemaError> {
        let schema = || Builder::configure().register_file_descriptor_set(describe::files());
        Ok(Self { v1: method!(schema().build_v1()), v1_alpha: method!(schema().build_v1alpha()) })
    }

    pub(super) fn method(&self, path: &str) -> Option<&Method> {
        match path {
            V1 => Some(&self.v1),
            V1_ALPHA => Some(&self.v1_alpha),
            _ => None,
        }
    }
}

impl fmt::Debug for Reflection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflection").finish_non_exhaustive()
    }
}
