//! Servers that speak TLS only.

use std::fs;

use tidegate::Op;
use tidegate_quorum::QuorumDriver;
use tidegate_testkit::processes::RedisServer;

use crate::support::{ask, options, spent, take, until_ok};

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_over_tls_trusts_the_authorities_of_its_file_and_no_other() {
    let servers = [(); 3].map(|()| RedisServer::builder().tls().start());
    let authorities = servers.each_ref().map(|server| &server.tls_files().ca);
    let all = authorities[0].with_file_name("all.pem");
    fs::write(&all, authorities.map(|file| fs::read_to_string(file).unwrap()).concat()).unwrap();
    let addresses = servers.each_ref().map(RedisServer::address).join(",");
    let store = |ca: &std::path::Path| {
        let url = format!("rediss+quorum://{addresses}?ca={}", ca.display());
        QuorumDriver::store(&url, &options()).unwrap()
    };
    let trusting = store(&all);
    until_ok(async || ask(&trusting, "5/h", "k", Op::Peek).await).await;
    assert!(take(&trusting, "5/h", "k").await.unwrap().allowed());
    assert_eq!(spent(&trusting, "5/h", "k").await, 1);
    // It trusts one of the three: no majority.
    let error = take(&store(authorities[0]), "5/h", "k").await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}
