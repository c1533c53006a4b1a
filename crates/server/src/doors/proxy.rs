//! The reverse proxy: limits requests by the routes, like forward-auth, and forwards them to an upstream.
//!
//! - [`service`] handles one request: admission, choice of the upstream, forwarding, response.
//! - [`head`] builds the request head that the upstream gets.
//! - [`response_body`] streams a response body, [`tunnel`] an upgraded connection; [`tracker`] measures a request.
//!
//! Only parsed requests are forwarded, no request is sent twice, and bodies are never buffered whole.

mod door;
mod head;
mod problem;
mod response_body;
mod service;
mod tracker;
mod tunnel;

pub(crate) use self::door::ProxyDoor;
