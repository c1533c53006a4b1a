//! The demo configuration over the memory store, for tests of the doors.

use std::sync::Arc;

use tidegate::Engine;
use tidegate_config::demo;

use crate::service::Draft;

pub(crate) fn draft() -> Draft {
    Draft::build(&demo::config().unwrap(), Engine::builder(), Arc::default(), None).unwrap()
}
