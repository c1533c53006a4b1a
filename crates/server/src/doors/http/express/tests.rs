use super::*;
use crate::demo;
use crate::tls::clogged;

#[tokio::test]
async fn an_answer_that_tls_could_not_send_at_once_is_not_kept_back() {
    let gate = Gate::new(demo::snapshot());
    let (mut stream, client) = clogged::connection().await;
    let serving = gate.clone();
    tokio::spawn(async move {
        serve(&mut stream, &serving, &mut Ending::never(), HttpBounds::default()).await
    });
    let body = r#"{"policy":"login","key":"ann","cost":5}"#;
    let length = body.len();
    let question =
        format!("POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{body}");
    let said = client.hears(&gate, &question).await;
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
}
