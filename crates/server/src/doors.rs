//! The doors: what the outside speaks to. Each decodes, asks the engine and encodes, in one file; its wire
//! types stay inside.

mod collect;
pub(crate) mod forward_auth;
pub(crate) mod http;
pub(crate) mod proxy;
mod refusal;
pub(crate) mod resp;
pub(crate) mod rls;
