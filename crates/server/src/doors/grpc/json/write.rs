//! An answer as JSON, the way protobuf spells messages: what is zero or empty is left out.

use serde::Serialize;

use super::super::answer::{Ruling, Shown, Status};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JsonRuling<'a> {
    overall_code: &'static str,
    statuses: Vec<JsonStatus<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    response_headers_to_add: Vec<JsonHeader>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonStatus<'a> {
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_limit: Option<JsonLimit<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_remaining: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_until_reset: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonLimit<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_unit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
}

#[derive(Serialize)]
struct JsonHeader {
    key: &'static str,
    value: String,
}

impl<'a> From<&Ruling<'a>> for JsonRuling<'a> {
    fn from(ruling: &Ruling<'a>) -> Self {
        let header =
            |(key, value): &(&'static str, u64)| JsonHeader { key, value: value.to_string() };
        Self {
            overall_code: ruling.overall.name(),
            statuses: ruling.statuses.iter().map(Into::into).collect(),
            response_headers_to_add: ruling.headers.iter().map(header).collect(),
        }
    }
}

impl<'a> From<&Status<'a>> for JsonStatus<'a> {
    fn from(status: &Status<'a>) -> Self {
        let limit = |limit: Shown<'a>| JsonLimit {
            name: Some(limit.name).filter(|name| !name.is_empty()),
            requests_per_unit: Some(limit.requests_per_unit).filter(|requests| *requests > 0),
            unit: limit.unit.map(tidegate_config::envoy::Unit::name),
        };
        Self {
            code: status.code.name(),
            current_limit: status.limit.map(limit),
            limit_remaining: Some(status.remaining).filter(|remaining| *remaining > 0),
            duration_until_reset: status.limit.map(|_| format!("{}s", status.reset_after_s())),
        }
    }
}
