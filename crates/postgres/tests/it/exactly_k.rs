//! Several nodes at one limit.

use std::sync::Arc;

use tidegate::Store;
use tidegate_testkit::behaviours::nodes_that_compete_admit_exactly_the_limit;

use crate::support::{open, options, shared_server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_compete_for_a_row_admit_exactly_the_limit() {
    let nodes = [(); 4].map(|()| open(&shared_server().url(), &options("exactly")));
    let stores = nodes.each_ref().map(|node| -> Arc<dyn Store> { node.clone() });
    nodes_that_compete_admit_exactly_the_limit(&stores).await;
    assert!(nodes.iter().map(|node| node.stats().conflicts).sum::<u64>() > 0, "they did compete");
}
