//! The promises of every store, kept by three Redis servers together.

use std::sync::Arc;

use tidegate::Store;
use tidegate::driver::StoreOptions;
use tidegate_testkit::behaviours::nodes_that_compete_admit_exactly_the_limit;
use tidegate_testkit::store_behaviours;

use crate::support::{Trio, options};

mod three_servers {
    use super::*;

    store_behaviours!(
        {
            let servers = Trio::start();
            let store = servers.store(&StoreOptions { replays: true, ..options() });
            (servers, move |_| store.clone())
        },
        one_identifier_per_step
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_compete_for_an_item_admit_exactly_the_limit() {
    let servers = Trio::start();
    let nodes = [(); 3].map(|()| -> Arc<dyn Store> { servers.store(&options()) });
    nodes_that_compete_admit_exactly_the_limit(&nodes).await;
}
