//! Reads one number over HTTP, or times it: connect, request and response within one timeout.

use std::error::Error;
use std::time::Duration;
use std::{io, iter};

use http::HeaderValue;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tidegate::{Clock, SystemClock};
use tokio::net::TcpStream;

use super::plan::{AnswerKind, Ask};
use crate::net::Stream;
use crate::net::client_tls::{Tls, remedy};
use tidegate_config::{Secret, SecretSource};
use tidegate_core::text::printable;

const ANSWER_BYTES_MAX: usize = 64 << 10;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ProbeError {
    /// The probed service is probably overloaded: a timeout, a broken connection, a 5xx.
    Failed(String),
    /// The response says nothing about the load; probably the probe is misconfigured.
    Unclear(String),
}

/// What is asked, with the authorities and the token that were read from files.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) ask: Ask,
    tls: Option<Tls>,
    /// Marked as sensitive: never printed.
    authorization: Option<HeaderValue>,
}

impl Endpoint {
    /// Reads the files. Takes the authorities from `known`, if one has the same.
    pub(super) fn open<'a>(
        ask: &Ask,
        mut known: impl Iterator<Item = &'a Self>,
    ) -> Result<Self, String> {
        let tls = if ask.uri.scheme_str() == Some("https") {
            let same = known.find(|it| it.tls.is_some() && it.ask.ca_file == ask.ca_file);
            let tls = same.and_then(|it| it.tls.clone());
            Some(tls.map_or_else(|| Tls::new(ask.ca_file.as_deref(), "ca_file"), Ok)?)
        } else {
            None
        };
        let authorization = ask.token.as_ref().map(authorization).transpose()?;
        Ok(Self { ask: ask.clone(), tls, authorization })
    }
}

fn authorization(token: &SecretSource) -> Result<HeaderValue, String> {
    let Secret(text) = token.read().map_err(|why| format!("token_file: {why}"))?;
    let expected = || format!("token_file: {token}: expected one line of visible ASCII characters");
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    let value = is_plain.then(|| HeaderValue::try_from(format!("Bearer {text}")).ok()).flatten();
    let mut value = value.ok_or_else(expected)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Probes once.
pub(super) async fn number(endpoint: &Endpoint) -> Result<f64, ProbeError> {
    let ask = &endpoint.ask;
    let begun_us = SystemClock.steady_us();
    let answer = tokio::time::timeout(ask.timeout, exchange(endpoint)).await;
    let late = || ProbeError::Failed(format!("no answer within {:?}", ask.timeout));
    let body = answer.map_err(|_| late())??;
    let took_us = SystemClock.steady_us().saturating_sub(begun_us);
    read(&ask.answer, &body, Duration::from_micros(took_us))
}

async fn connect(Endpoint { ask, tls, .. }: &Endpoint) -> io::Result<Stream> {
    let host = ask.uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let default_port = if tls.is_some() { 443 } else { 80 };
    let address = (host, ask.uri.port_u16().unwrap_or(default_port));
    let stream = Stream::Tcp(TcpStream::connect(address).await?);
    match tls {
        Some(tls) => tls.connect(host, stream).await,
        None => Ok(stream),
    }
}

async fn exchange(endpoint: &Endpoint) -> Result<Bytes, ProbeError> {
    let ask = &endpoint.ask;
    let broken = |error: &(dyn Error + 'static)| ProbeError::Failed(with_cause(error));
    let stream = connect(endpoint).await.map_err(|error| match error.kind() {
        // A certificate that is not trusted says nothing about the load.
        io::ErrorKind::InvalidData => ProbeError::Unclear(with_remedy(&error)),
        _ => broken(&error),
    })?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| broken(&error))?;
    // Ends when the sender is dropped.
    tokio::spawn(connection);
    let path = ask.uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = ask.uri.authority().map_or("", |authority| authority.as_str());
    let mut request = Request::get(path)
        .header(HOST, authority)
        .header(ACCEPT, "application/json")
        .body(Empty::<Bytes>::new())
        .map_err(|error| ProbeError::Unclear(error.to_string()))?;
    if let Some(token) = &endpoint.authorization {
        request.headers_mut().insert(AUTHORIZATION, token.clone());
    }
    let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
    let status = response.status();
    if status.is_server_error() {
        return Err(ProbeError::Failed(format!("status {}", status.as_u16())));
    }
    if !status.is_success() {
        return Err(ProbeError::Unclear(format!("status {}", status.as_u16())));
    }
    whole_body(ask, response).await
}

async fn whole_body(ask: &Ask, response: Response<Incoming>) -> Result<Bytes, ProbeError> {
    let has = |header| response.headers().contains_key(header);
    let ends_with_stream = !has(CONTENT_LENGTH) && !has(TRANSFER_ENCODING);
    let is_timed = matches!(ask.answer, AnswerKind::Timed(_));
    match Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        // Such a body may be cut, but its time is known.
        Err(error) if is_timed && ends_with_stream && is_end_of_stream(&*error) => Ok(Bytes::new()),
        Err(error) => Err(ProbeError::Failed(with_cause(&*error))),
    }
}

/// Whether the connection ended without the `close_notify` of TLS.
fn is_end_of_stream(error: &(dyn Error + 'static)) -> bool {
    let error = first_cause(error).downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
}

fn first_cause<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    iter::successors(Some(error), |&error| error.source()).last().unwrap_or(error)
}

/// hyper says what it was about to do, and only its cause why that failed.
fn with_cause(error: &(dyn Error + 'static)) -> String {
    let (text, cause) = (error.to_string(), first_cause(error).to_string());
    if text.contains(&cause) { text } else { format!("{text}: {cause}") }
}

fn with_remedy(error: &io::Error) -> String {
    remedy(error).map_or_else(|| error.to_string(), |remedy| format!("{error}: {remedy}"))
}

fn read(kind: &AnswerKind, body: &[u8], took: Duration) -> Result<f64, ProbeError> {
    let unclear = |what: &str| {
        let begin = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        ProbeError::Unclear(format!("{what} in `{}`", printable(&begin)))
    };
    let json = || serde_json::from_slice::<Value>(body).map_err(|_| unclear("no JSON"));
    match kind {
        AnswerKind::Timed(scale) => Ok(scale.pressure(took)),
        AnswerKind::Pointer(pointer) => {
            let json = json()?;
            let found = json.as_f64().or_else(|| json.pointer(pointer)?.as_f64());
            found.ok_or_else(|| unclear(&format!("no number at `{}`", printable(pointer))))
        }
        AnswerKind::Prometheus => prometheus(&json()?).ok_or_else(|| unclear("no sample")),
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
    use tidegate_config::plan::LatencyScale;

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
            assert_eq!(read(&kind, body.as_bytes(), Duration::ZERO).ok(), number, "{body}");
        }
    }

    #[test]
    fn a_timed_probe_is_a_pressure_by_how_long_it_took() {
        let ms = Duration::from_millis;
        let scale = LatencyScale { healthy: ms(50), overloaded: ms(450) };
        for (took_ms, pressure) in
            [(0, 0.0), (50, 0.0), (150, 0.25), (250, 0.5), (450, 1.0), (60_000, 1.0)]
        {
            let answer = read(&AnswerKind::Timed(scale), b"any", ms(took_ms));
            assert_eq!(answer, Ok(pressure), "{took_ms} ms");
        }
    }
}
