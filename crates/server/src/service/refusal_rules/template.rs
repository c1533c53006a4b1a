//! A page with placeholders: `{{retry_after}}`, `{{policy}}`, `{{request_id}}`.

use std::io::Read;
use std::path::Path;

use tidegate::store_kit::open_file;
use tidegate_core::text::printable;

/// Each refused person gets a copy.
const BYTES_MAX: usize = 64 * 1024;

/// Text and placeholders in turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Template(Vec<Piece>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Text(String),
    Value(Placeholder),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Placeholder {
    RetryAfter,
    Policy,
    RequestId,
}

/// What a page is filled in with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'a> {
    /// In seconds, as the header has it; 0 if waiting does not help.
    pub(crate) retry_after: &'a str,
    /// Empty if no policy has refused the request.
    pub(crate) policy: &'a str,
    pub(crate) request_id: &'a str,
}

impl Placeholder {
    const ALL: [(&'static str, Self); 3] = [
        ("retry_after", Self::RetryAfter),
        ("policy", Self::Policy),
        ("request_id", Self::RequestId),
    ];
}

impl Piece {
    /// Whether text has `{name}`.
    fn has_in_braces(&self, name: &str) -> bool {
        let Self::Text(text) = self else { return false };
        let mut inside = text.split('{').skip(1).filter_map(|after| after.split_once('}'));
        inside.any(|(inside, _)| inside.trim() == name)
    }
}

impl Template {
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let mut bytes = Vec::new();
        let file = open_file(path).map_err(|error| error.to_string())?;
        // One byte more than allowed, to notice a file that is too long.
        let limited = file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
        limited.map_err(|error| error.to_string())?;
        if bytes.len() > BYTES_MAX {
            return Err(format!(
                "is longer than {BYTES_MAX} bytes: a page is sent to every refused person"
            ));
        }
        let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, after) =
                after.split_once("}}").ok_or_else(|| format!("`{{{{` has no end: {}", known()))?;
            let found = Placeholder::ALL.into_iter().find(|(known, _)| *known == name.trim());
            let (_, placeholder) = found
                .ok_or_else(|| format!("`{{{{{}}}}}` is unknown: {}", printable(name), known()))?;
            pieces.extend([Piece::Text(before.to_owned()), Piece::Value(placeholder)]);
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self(pieces))
    }

    /// The names of placeholders in single braces, which are no placeholders.
    pub(super) fn in_single_braces(&self) -> impl Iterator<Item = &'static str> {
        let names = Placeholder::ALL.into_iter().map(|(name, _)| name);
        names.filter(|name| self.0.iter().any(|piece| piece.has_in_braces(name)))
    }

    /// The page with its values, which are escaped: part of them comes from the client.
    pub(super) fn render(&self, values: &Values<'_>) -> String {
        let mut page = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => page.push_str(text),
                Piece::Value(Placeholder::RetryAfter) => escape(values.retry_after, &mut page),
                Piece::Value(Placeholder::Policy) => escape(values.policy, &mut page),
                Piece::Value(Placeholder::RequestId) => escape(values.request_id, &mut page),
            }
        }
        page
    }
}

fn known() -> String {
    let names = Placeholder::ALL.map(|(name, _)| format!("{{{{{name}}}}}"));
    format!("expected {}", names.join(", "))
}

/// Nothing stays that ends text, or an attribute in quotes. An attribute without quotes also ends with a space, and a
/// script or a URL reads its text by rules of its own: values are not for these.
fn escape(text: &str, page: &mut String) {
    for char in text.chars() {
        match char {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\'' => page.push_str("&#39;"),
            '`' => page.push_str("&#96;"),
            '\\' => page.push_str("&#92;"),
            char if char.is_control() => {}
            char => page.push(char),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: Values<'static> =
        Values { retry_after: "17", policy: "a<b>\"'`\\&\n", request_id: "r-1" };

    #[test]
    fn placeholders_are_replaced_and_values_escaped() {
        let page = "<p>{{retry_after}} {{ policy }}</p><i>{{request_id}}</i>{ x } {{request_id}}";
        let page = Template::parse(page).unwrap().render(&VALUES);
        assert_eq!(page, "<p>17 a&lt;b&gt;&quot;&#39;&#96;&#92;&amp;</p><i>r-1</i>{ x } r-1");
        assert_eq!(Template::parse("").unwrap().render(&VALUES), "");
    }

    #[test]
    fn names_in_single_braces_are_noticed() {
        for (page, expected) in [
            ("in {retry_after} s", &["retry_after"][..]),
            ("{a {{policy}} { request_id }{policy}", &["policy", "request_id"]),
            ("body { color: red } {{retry_after}} {policy", &[]),
            ("a{b}{retry_afters}{{policy}}{}", &[]),
        ] {
            let template = Template::parse(page).unwrap();
            assert_eq!(template.in_single_braces().collect::<Vec<_>>(), expected, "{page}");
        }
    }

    #[test]
    fn an_unknown_placeholder_is_named_with_the_known_ones() {
        for (text, expected) in [
            (
                "a {{wait}}",
                "`{{wait}}` is unknown: expected {{retry_after}}, {{policy}}, {{request_id}}",
            ),
            ("{{}}", "`{{}}` is unknown"),
            ("{{policy", "`{{` has no end: expected {{retry_after}}"),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
