//! The doors: what the outside speaks to. Each decodes, asks the service and encodes; its wire types stay inside.

pub(crate) mod forward_auth;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod proxy;
pub(crate) mod resp;
mod shared;
#[cfg(test)]
mod stalled_client;
