//! Several nodes at one limit.

use std::sync::Arc;

use tidegate::Store;
use tidegate_testkit::behaviours::nodes_that_compete_admit_exactly_the_limit;
use tidegate_testkit::processes::DynamoDbServer;

use crate::support::{TABLE, dynalite, moto, open_table, options, take_both};

async fn four_nodes_compete(server: &DynamoDbServer) {
    let (url, options) = (server.url(TABLE), options());
    let mut nodes = Vec::new();
    for _ in 0..4 {
        nodes.push(open_table(&url, &options).await);
    }
    let stores: Vec<Arc<dyn Store>> = nodes.iter().map(|node| node.clone() as _).collect();
    nodes_that_compete_admit_exactly_the_limit(&stores).await;
    assert!(nodes.iter().map(|node| node.stats().conflicts).sum::<u64>() > 0, "they did compete");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_compete_for_an_item_of_moto_admit_exactly_the_limit() {
    four_nodes_compete(moto()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_compete_for_an_item_of_dynalite_admit_exactly_the_limit() {
    four_nodes_compete(dynalite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_that_compete_admit_exactly_the_limit() {
    let (url, options) = (moto().url(TABLE), options());
    let mut tasks = Vec::new();
    for node in 0..4 {
        let store = open_table(&url, &options).await;
        tasks.push(tokio::spawn(async move {
            let mut admitted = 0;
            for n in 0..6 {
                // All on one identifier, and each on one of its own.
                let keys = ["all", &format!("user-{node}-{n}")];
                admitted += u32::from(take_both(&*store, keys).await.unwrap().allowed());
            }
            admitted
        }));
    }
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.unwrap();
    }
    assert_eq!(admitted, 10);
}
