//! Headers that end at this hop: those that `Connection` names are between us and our peer.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::{CONNECTION, HeaderName};

/// The headers without those that `Connection` names. A client that names a header there asks whoever forwards its
/// request to drop it, and so to hide who it is.
pub(super) fn without_named(headers: &HeaderMap) -> Cow<'_, HeaderMap> {
    let lines = headers.get_all(CONNECTION).iter().filter_map(|line| line.to_str().ok());
    let names = lines.flat_map(|line| line.split(','));
    let named = names.filter_map(|name| name.trim().parse::<HeaderName>().ok());
    named.fold(Cow::Borrowed(headers), |mut kept, name| {
        if kept.contains_key(&name) {
            kept.to_mut().remove(&name);
        }
        kept
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_connection_names_is_gone() {
        let header = |(name, value): (&'static str, &'static str)| {
            (HeaderName::from_static(name), value.parse().unwrap())
        };
        let sent = [("connection", "close, X-User ,te"), ("x-user", "ann"), ("x-other", "ben")];
        let headers: HeaderMap = sent.into_iter().map(header).collect();
        let kept = without_named(&headers);
        assert!(!kept.contains_key("x-user") && kept.contains_key("x-other"), "{kept:?}");
    }
}
