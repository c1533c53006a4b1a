//! Several nodes, and several servers.

use std::sync::Arc;

use tidegate::Store;
use tidegate_testkit::behaviours::nodes_that_compete_admit_exactly_the_limit;
use tidegate_testkit::processes::MemcachedServer;

use crate::support::{open, options, take};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_compete_for_an_item_admit_exactly_the_limit() {
    let server = MemcachedServer::start();
    let nodes = [(); 4].map(|()| -> Arc<dyn Store> { open(&server.url(), &options()) });
    nodes_that_compete_admit_exactly_the_limit(&nodes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_name_the_servers_in_another_order_share_counts() {
    let servers = [(); 3].map(|()| MemcachedServer::start());
    let mut addresses = servers.each_ref().map(MemcachedServer::address);
    let forward = open(&format!("memcached://{}", addresses.join(",")), &options());
    addresses.reverse();
    let backward = open(&format!("memcached://{}", addresses.join(",")), &options());
    for n in 0..30 {
        let key = format!("key-{n}");
        assert_eq!(take(&*forward, "10/day", &key).await.unwrap().remaining(), 9);
        assert_eq!(take(&*backward, "10/day", &key).await.unwrap().remaining(), 8, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_affects_only_its_own_keys() {
    let servers = [(); 3].map(|()| MemcachedServer::start());
    let addresses = servers.each_ref().map(MemcachedServer::address).join(",");
    let store = open(&format!("memcached://{addresses}"), &options());
    servers[0].kill();
    let mut failed = 0;
    for n in 0..60 {
        failed += u32::from(take(&*store, "10/day", &format!("key-{n}")).await.is_err());
    }
    assert!((5..40).contains(&failed), "{failed} of 60 keys");
}
