use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

use super::*;
use crate::demo;
use crate::tls::clogged;

fn check() -> String {
    let body = r#"{"policy":"login","key":"ann","cost":5}"#;
    let length = body.len();
    format!("POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{body}")
}

#[tokio::test]
async fn an_answer_that_tls_could_not_send_at_once_is_not_kept_back() {
    let gate = Gate::new(demo::draft());
    let (mut stream, client) = clogged::connection().await;
    let serving = gate.clone();
    tokio::spawn(async move {
        serve(&mut stream, &serving, &Ending::never(), HttpBounds::default()).await
    });
    let said = client.hears(&gate, &check()).await;
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
}

#[tokio::test]
async fn while_the_server_ends_hyper_says_with_every_answer_that_it_is_the_last() {
    let gate = Gate::new(demo::draft());
    let (mut client, stream) = UnixStream::pair().unwrap();
    client.write_all(check().as_bytes()).await.unwrap();
    let mut stream = Stream::Unix(stream);
    stream.readable().await.unwrap();
    let left = serve(&mut stream, &gate, &Ending::begun(), HttpBounds::default()).await;
    assert_eq!(left, Some(check().into()));
}
