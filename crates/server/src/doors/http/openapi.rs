//! `GET /openapi.json`. Tests run every example in it, and compare its paths with the routes.

use http::header::CONTENT_TYPE;

use super::{ApiRequest, HandlerResult, with_static};

const DOCUMENT: &str = include_str!("openapi.json");

pub(super) async fn show(_: ApiRequest) -> HandlerResult {
    Ok(with_static(&[(CONTENT_TYPE, "application/json")], DOCUMENT))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn every_route_is_in_the_document_and_nothing_else() {
        let document: Value = serde_json::from_str(DOCUMENT).unwrap();
        let documented: BTreeSet<_> =
            document["paths"].as_object().unwrap().keys().cloned().collect();
        let routes: BTreeSet<_> = super::super::routes().map(|(path, _)| path.to_owned()).collect();
        assert_eq!(documented, routes);
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    }
}
