//! What a path asks for: a document, an asset of one, or data. Told by the path alone, never by headers, since a client
//! could choose a larger budget with them.

use crate::ClientRequest;

/// File extensions of scripts, styles, images, fonts and media.
const ASSETS: [&str; 24] = [
    "js",
    "mjs",
    "css",
    "map",
    "wasm",
    "webmanifest",
    "png",
    "jpg",
    "jpeg",
    "gif",
    "webp",
    "avif",
    "svg",
    "ico",
    "bmp",
    "woff",
    "woff2",
    "ttf",
    "otf",
    "eot",
    "mp3",
    "mp4",
    "webm",
    "ogg",
];

/// What a path asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resource {
    /// A page, or anything else.
    Document,
    /// A script, a style, an image, a font or a medium: part of a document.
    Asset,
    /// A call of an API: below `/api`, or a file of JSON.
    Api,
}

impl Resource {
    /// How many assets a document has, for budgets: most pages have fewer at once, since browsers cache them.
    pub const PER_DOCUMENT: u64 = 10;

    /// What a path in its one spelling asks for.
    ///
    /// ```
    /// use tidegate_request::Resource;
    ///
    /// assert_eq!(Resource::of_path("/shop/app.CSS"), Resource::Asset);
    /// assert_eq!(Resource::of_path("/api/logo.png"), Resource::Api);
    /// assert_eq!(Resource::of_path("/v1.2/shoes"), Resource::Document);
    /// ```
    pub fn of_path(path: &str) -> Self {
        if path == "/api" || path.starts_with("/api/") {
            return Self::Api;
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        if extension.eq_ignore_ascii_case("json") {
            Self::Api
        } else if ASSETS.iter().any(|known| extension.eq_ignore_ascii_case(known)) {
            Self::Asset
        } else {
            Self::Document
        }
    }

    /// Whether a request reads an asset. Whatever changes something is no asset, wherever it goes.
    pub fn is_asset(request: &ClientRequest<'_>) -> bool {
        matches!(&*request.method, "GET" | "HEAD")
            && Self::of_path(request.path.counted()) == Self::Asset
    }
}
