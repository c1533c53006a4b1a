//! Reads one number over HTTP: connect, request and response within one timeout.

use http::header::{ACCEPT, HOST};
use http_body_util::{BodyExt, Collected, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::plan::{AnswerKind, Ask};
use tidegate_core::text::printable;

const ANSWER_BYTES_MAX: usize = 64 << 10;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ProbeError {
    /// The probed service is probably overloaded: a timeout, a broken connection, a 5xx.
    Failed(String),
    /// The response says nothing about the load; probably the probe is misconfigured.
    Unclear(String),
}

/// Probes once.
pub(super) async fn number(ask: &Ask) -> Result<f64, ProbeError> {
    let answer = tokio::time::timeout(ask.timeout, exchange(ask)).await;
    let late = || ProbeError::Failed(format!("no answer within {:?}", ask.timeout));
    read(&ask.answer, &answer.map_err(|_| late())??)
}

async fn exchange(ask: &Ask) -> Result<Bytes, ProbeError> {
    let broken = |error: &dyn std::fmt::Display| ProbeError::Failed(error.to_string());
    let host = ask.uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let address = (host, ask.uri.port_u16().unwrap_or(80));
    let stream = TcpStream::connect(address).await.map_err(|error| broken(&error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| broken(&error))?;
    // Ends when the sender is dropped.
    tokio::spawn(connection);
    let path = ask.uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = ask.uri.authority().map_or("", |authority| authority.as_str());
    let request = Request::get(path)
        .header(HOST, authority)
        .header(ACCEPT, "application/json")
        .body(Empty::<Bytes>::new())
        .map_err(|error| ProbeError::Unclear(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
    let status = response.status();
    if status.is_server_error() {
        return Err(ProbeError::Failed(format!("status {}", status.as_u16())));
    }
    if !status.is_success() {
        return Err(ProbeError::Unclear(format!("status {}", status.as_u16())));
    }
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    body.map(Collected::to_bytes).map_err(|error| broken(&error))
}

fn read(kind: &AnswerKind, body: &[u8]) -> Result<f64, ProbeError> {
    let unclear = |what: &str| {
        let begin = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        ProbeError::Unclear(format!("{what} in `{}`", printable(&begin)))
    };
    let json: Value = serde_json::from_slice(body).map_err(|_| unclear("no JSON"))?;
    match kind {
        AnswerKind::Pointer(pointer) => {
            let found = json.as_f64().or_else(|| json.pointer(pointer)?.as_f64());
            found.ok_or_else(|| unclear(&format!("no number at `{}`", printable(pointer))))
        }
        AnswerKind::Prometheus => prometheus(&json).ok_or_else(|| unclear("no sample")),
    }
}

/// The first sample of a vector, or a scalar: a time, and the value as text.
fn prometheus(json: &Value) -> Option<f64> {
    let result = json.pointer("/data/result")?;
    let sample = result.pointer("/0/value/1").or_else(|| result.get(1))?;
    sample.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_at_its_pointer() {
        let at = |pointer: &str| AnswerKind::Pointer(pointer.to_owned());
        for (kind, body, number) in [
            (at("/pressure"), r#"{"pressure":0.4}"#, Some(0.4)),
            (at("/pressure"), "0.7\n", Some(0.7)),
            (at("/pools/1/used"), r#"{"pools":[{"used":1},{"used":2}]}"#, Some(2.0)),
            (at("/pressure"), r#"{"pressure":"high"}"#, None),
            (at("/pressure"), r#"{"presure":0.4}"#, None),
            (at("/pressure"), "well", None),
            (
                AnswerKind::Prometheus,
                r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"0.25"]}]}}"#,
                Some(0.25),
            ),
            (
                AnswerKind::Prometheus,
                r#"{"status":"success","data":{"resultType":"scalar","result":[1,"3"]}}"#,
                Some(3.0),
            ),
            (AnswerKind::Prometheus, r#"{"status":"success","data":{"result":[]}}"#, None),
        ] {
            assert_eq!(read(&kind, body.as_bytes()).ok(), number, "{body}");
        }
    }
}
