//! JSON lines, with the field names of nginx, Apache, Caddy, Traefik and Envoy, and plain ones.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{LineError, Record, client, request, time};
use tidegate_core::text::printable;

/// The fields of a line, still as JSON. Of several names for one thing the first wins.
#[derive(Default)]
struct Fields<'a> {
    time: Option<&'a RawValue>,
    /// The client behind a proxy, for servers that log it beside the peer.
    behind: Option<&'a RawValue>,
    client: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    target: Option<&'a RawValue>,
    host: Option<&'a RawValue>,
    agent: Option<&'a RawValue>,
    referer: Option<&'a RawValue>,
    headers: Option<&'a RawValue>,
    /// A line like `GET / HTTP/1.1`, or an object with the rest (Caddy).
    request: Option<&'a RawValue>,
}

impl<'a> Fields<'a> {
    fn field(&mut self, name: &str) -> Option<&mut Option<&'a RawValue>> {
        Some(match name {
            "time" | "timestamp" | "@timestamp" | "ts" | "time_iso8601" | "time_local" | "msec"
            | "start_time" | "StartUTC" => &mut self.time,
            "client_ip" => &mut self.behind,
            "remote_addr"
            | "remote_ip"
            | "clientip"
            | "client"
            | "ip"
            | "ClientHost"
            | "downstream_remote_address"
            | "remote_host" => &mut self.client,
            "method" | "request_method" | "RequestMethod" => &mut self.method,
            "target" | "uri" | "request_uri" | "url" | "path" | "RequestPath" => &mut self.target,
            "host" | "http_host" | "RequestHost" | "authority" | "server_name" => &mut self.host,
            "user_agent" | "http_user_agent" | "agent" | "request_User-Agent" => &mut self.agent,
            "referer" | "http_referer" | "request_Referer" => &mut self.referer,
            "headers" => &mut self.headers,
            "request" => &mut self.request,
            _ => return None,
        })
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Fields::default();
        while let Some(Name(name)) = map.next_key()? {
            match fields.field(&name) {
                Some(field @ None) => *field = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(fields)
    }
}

/// A string, borrowed unless something in it is escaped.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

pub(super) fn read(line: &str, with_headers: bool) -> Result<Record<'_>, LineError> {
    let mut fields = parse::<Fields<'_>>(line)?;
    let mut asked = None;
    match fields.request {
        Some(inner) if inner.get().starts_with('{') => {
            let inner: Fields<'_> = parse(inner.get())?;
            let Fields { behind, client, method, target, host, headers, .. } = inner;
            fields = Fields {
                behind: behind.or(fields.behind),
                client: client.or(fields.client),
                method: method.or(fields.method),
                target: target.or(fields.target),
                host: host.or(fields.host),
                headers: headers.or(fields.headers),
                ..fields
            };
        }
        Some(line) => asked = text(Some(line)),
        None => {}
    }
    let (method, target) = match (text(fields.method), text(fields.target), asked) {
        (Some(method), Some(target), _) => (method, target),
        (_, _, Some(line)) => {
            let (method, target) = request(&line)?;
            (Cow::Owned(method.to_owned()), Cow::Owned(target.to_owned()))
        }
        (None, ..) => return Err(LineError::Missing("method")),
        (_, None, _) => return Err(LineError::Missing("path")),
    };
    let address = text(fields.behind).or_else(|| text(fields.client));
    let address = address.ok_or(LineError::Missing("client"))?;
    let stamp = fields.time.ok_or(LineError::Missing("time"))?;
    let stamp = text(Some(stamp)).unwrap_or(Cow::Borrowed(stamp.get()));
    Ok(Record {
        at: time::any(&stamp)?,
        client: client(&address)?,
        method,
        target,
        host: text(fields.host).unwrap_or_default(),
        headers: if with_headers { headers(&fields) } else { Vec::new() },
    })
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, LineError> {
    serde_json::from_str(text).map_err(|error| LineError::Json(printable(&error.to_string())))
}

/// A field that is a string, and neither empty nor `-`.
fn text(field: Option<&RawValue>) -> Option<Cow<'_, str>> {
    let written = field?.get();
    // Faster than serde for what is no string, or has no escapes.
    let inside = written.strip_prefix('"')?.strip_suffix('"')?;
    let text = if inside.contains('\\') {
        serde_json::from_str::<Name<'_>>(written).ok()?.0
    } else {
        Cow::Borrowed(inside)
    };
    (!text.is_empty() && text != "-").then_some(text)
}

/// Headers by name, each a string or a list of strings (Caddy); and those with a field of their own.
fn headers<'a>(fields: &Fields<'a>) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
    let mut found = Vec::new();
    let own = [("user-agent", fields.agent), ("referer", fields.referer)];
    for (name, field) in own {
        found.extend(text(field).map(|value| (Cow::Borrowed(name), value)));
    }
    let Some(written) = fields.headers else { return found };
    let all: Result<serde_json::Map<String, serde_json::Value>, _> =
        serde_json::from_str(written.get());
    for (name, values) in all.into_iter().flatten() {
        let values = match values {
            serde_json::Value::Array(values) => values,
            value => vec![value],
        };
        let name = name.to_ascii_lowercase();
        let texts = values.iter().filter_map(|value| value.as_str());
        found.extend(texts.map(|text| (Cow::Owned(name.clone()), Cow::Owned(text.to_owned()))));
    }
    found
}
