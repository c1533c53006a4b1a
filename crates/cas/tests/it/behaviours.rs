//! The promises of every store, kept over any backend.

use std::time::Duration;

use tidegate_cas::CasOptions;
use tidegate_testkit::store_behaviours;

use crate::map::Map;

pub(crate) fn replaying() -> CasOptions {
    let deadline = Duration::from_secs(20);
    CasOptions { deadline, replays: true, announces: false, ..CasOptions::default() }
}

store_behaviours!({
    let store = Map::default().store(replaying());
    ((), move |_| store.clone())
});
