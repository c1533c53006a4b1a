//! The demo in memory, for tests of what asks it.

use std::sync::Arc;

use tidegate::Engine;
use tidegate_config::demo;

use crate::service::Draft;

pub(crate) fn draft() -> Draft {
    Draft::build(&demo::config().unwrap(), Engine::builder(), Arc::default(), None).unwrap()
}
