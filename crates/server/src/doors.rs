//! The doors: one module per protocol. A door decodes a request, calls the service and encodes the answer; wire types
//! stay inside their door.

pub(crate) mod forward_auth;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod proxy;
pub(crate) mod resp;
mod shared;
#[cfg(test)]
mod stalled_client;
#[cfg(test)]
mod test_server;

pub(crate) use self::shared::{DoorContext, OpenDoor};
