//! The promises of every store, kept by memcached: one server and three.

use tidegate::driver::StoreOptions;
use tidegate_testkit::processes::MemcachedServer;
use tidegate_testkit::store_behaviours;

use crate::support::{open, options};

mod one_server {
    use super::*;

    store_behaviours!(
        {
            let server = MemcachedServer::start();
            let store = open(&server.url(), &StoreOptions { replays: true, ..options() });
            (server, move |_| store.clone())
        },
        one_identifier_per_step
    );
}

mod three_servers {
    use super::*;

    store_behaviours!(
        {
            let servers = [(); 3].map(|()| MemcachedServer::start());
            let addresses = servers.each_ref().map(MemcachedServer::address).join(",");
            let options = StoreOptions { replays: true, ..options() };
            let store = open(&format!("memcached://{addresses}"), &options);
            (servers, move |_| store.clone())
        },
        one_identifier_per_step
    );
}
