//! A store's URL as text, and what it means.

use tidegate::{StoreError, StoreErrorKind};

/// A URL of DynamoDB, taken apart.
///
/// ```
/// use tidegate_dynamodb::DynamoDbUrl;
///
/// let url = DynamoDbUrl::parse("dynamodb://tidegate?region=eu-central-1")?;
/// assert_eq!((url.table.as_str(), url.region.as_deref()), ("tidegate", Some("eu-central-1")));
/// assert_eq!(url.endpoint, None);
///
/// let error = DynamoDbUrl::parse("dynamodb://tidegate?endpoint=10.0.0.1").unwrap_err();
/// assert!(error.to_string().contains("endpoint: expected http://HOST"), "{error}");
/// # Ok::<(), tidegate::StoreError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DynamoDbUrl {
    /// The name of the table.
    pub table: String,
    /// The region; without it, the one of the environment or of the profile.
    pub region: Option<String>,
    /// Where to ask instead of the region's own endpoint: an imitation, or an endpoint of a VPC.
    pub endpoint: Option<String>,
}

impl DynamoDbUrl {
    /// How URLs begin.
    ///
    /// ```
    /// # use tidegate_dynamodb::DynamoDbUrl;
    /// assert_eq!(DynamoDbUrl::SCHEMES, ["dynamodb://"]);
    /// ```
    pub const SCHEMES: &'static [&'static str] = &["dynamodb://"];

    /// Takes a URL apart.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let rest =
            url.strip_prefix("dynamodb://").ok_or_else(|| bad("expected dynamodb://TABLE"))?;
        let (table, query) = rest.split_once('?').unwrap_or((rest, ""));
        if table.contains('@') {
            return Err(bad(
                "user: keys do not belong into the URL; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use a role",
            ));
        }
        let mut parsed = Self { table: table_name(table)?, region: None, endpoint: None };
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (place, value) = match parameter.split_once('=') {
                Some(("region", value)) => (&mut parsed.region, region(value)?),
                Some(("endpoint", value)) => (&mut parsed.endpoint, endpoint(value)?),
                _ => return Err(bad("parameters: expected region=… and endpoint=…, or none")),
            };
            if place.replace(value).is_some() {
                return Err(bad("parameters: one is given twice"));
            }
        }
        Ok(parsed)
    }
}

/// As DynamoDB wants it: 3 to 255 letters, digits, `_`, `-` and `.`.
fn table_name(text: &str) -> Result<String, StoreError> {
    let can_be = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if (3..=255).contains(&text.len()) && text.bytes().all(can_be) {
        return Ok(text.to_owned());
    }
    Err(bad("table: expected 3 to 255 letters, digits, _, - or ., as in dynamodb://tidegate"))
}

fn region(text: &str) -> Result<String, StoreError> {
    let can_be = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=64).contains(&text.len()) && text.bytes().all(can_be) {
        return Ok(text.to_owned());
    }
    Err(bad("region: expected a name like eu-central-1"))
}

/// `http://host:port` or `https://host`, without a path.
fn endpoint(text: &str) -> Result<String, StoreError> {
    let expected = || bad("endpoint: expected http://HOST:PORT or https://HOST");
    let (scheme, host) = text.split_once("://").ok_or_else(expected)?;
    let host = host.strip_suffix('/').unwrap_or(host);
    let can_be = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    let is_host = (1..=255).contains(&host.len()) && host.bytes().all(can_be);
    let port = host.rsplit_once(':').map_or("", |(_, after)| after);
    let is_port = port.is_empty() || port.contains(']') || port.parse().is_ok_and(|it: u16| it > 0);
    if ["http", "https"].contains(&scheme) && is_host && is_port && !host.ends_with(':') {
        return Ok(format!("{scheme}://{host}"));
    }
    Err(expected())
}

fn bad(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::BadRequest, format!("store URL, {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_urls_say_which_part_and_repeat_nothing() {
        for (url, part) in [
            ("dynamodb://", "table"),
            ("dynamodb://ab", "table"),
            ("dynamodb://a b c", "table"),
            ("dynamodb://table/secret", "table"),
            ("dynamodb://AKIA:secret@table", "AWS_ACCESS_KEY_ID"),
            ("dynamodb://table?region=", "region"),
            ("dynamodb://table?region=secret_1", "region"),
            ("dynamodb://table?endpoint=secret", "endpoint"),
            ("dynamodb://table?endpoint=ftp://secret", "endpoint"),
            ("dynamodb://table?endpoint=http://u:secret@h", "endpoint"),
            ("dynamodb://table?endpoint=http://h:0", "endpoint"),
            ("dynamodb://table?endpoint=http://h:99999", "endpoint"),
            ("dynamodb://table?endpoint=http://", "endpoint"),
            ("dynamodb://table?endpoint=http://h/secret", "endpoint"),
            ("dynamodb://table?password=secret", "parameters"),
            ("dynamodb://table?region=a&region=b", "twice"),
            ("dynamo://table", "expected dynamodb://TABLE"),
        ] {
            let error = DynamoDbUrl::parse(url).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn endpoints_are_kept_as_they_are_used() {
        for (text, expected) in [
            ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("http://127.0.0.1:8000/", "http://127.0.0.1:8000"),
            ("http://[::1]:8000", "http://[::1]:8000"),
            ("https://[::1]", "https://[::1]"),
            (
                "https://vpce-1.dynamodb.eu-west-1.vpce.example",
                "https://vpce-1.dynamodb.eu-west-1.vpce.example",
            ),
        ] {
            let url = DynamoDbUrl::parse(&format!("dynamodb://table?endpoint={text}")).unwrap();
            assert_eq!(url.endpoint.as_deref(), Some(expected));
        }
    }
}
