//! A file as it is written, before anything is made of it. The keys are those of envoyproxy/ratelimit and three of
//! ours within `rate_limit`: `algorithm`, `burst` and `on_store_error`.
//!
//! The original takes each of its keys anywhere, and silently does nothing with one in the wrong place. Such a file
//! still loads, and the log says what does nothing.

use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Location, Spanned};

use super::error::Error;

/// How deep descriptors may be nested. Each level takes its part of the stack, and a reload has what a thread has.
pub(super) const LEVELS_MAX: usize = 12;
/// The file, a list and a map for each level, and what `replaces` has in it.
const DEPTH_MAX: usize = 1 + 2 * LEVELS_MAX + 3;

/// One file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub(super) domain: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) descriptors: Option<Vec<Spanned<Descriptor>>>,

    key: Misplaced,
    value: Misplaced,
    rate_limit: Misplaced,
    unit: Misplaced,
    requests_per_unit: Misplaced,
    unlimited: Misplaced,
    name: Misplaced,
    replaces: Misplaced,
    shadow_mode: Misplaced,
    quota_mode: Misplaced,
    detailed_metric: Misplaced,
    value_to_metric: Misplaced,
    share_threshold: Misplaced,
    metadata: Misplaced,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Descriptor {
    pub(super) key: Option<Spanned<String>>,
    pub(super) value: Option<Spanned<String>>,
    pub(super) rate_limit: Option<Spanned<WrittenLimit>>,
    pub(super) descriptors: Option<Vec<Spanned<Descriptor>>>,
    pub(super) shadow_mode: Option<bool>,
    pub(super) quota_mode: Option<bool>,
    pub(super) share_threshold: Option<Spanned<bool>>,
    // What is counted and shown has bounded labels here, so that these change nothing.
    #[serde(rename = "detailed_metric")]
    _detailed_metric: Option<bool>,
    #[serde(rename = "value_to_metric")]
    _value_to_metric: Option<bool>,
    #[serde(rename = "metadata")]
    _metadata: Option<IgnoredAny>,

    domain: Misplaced,
    unit: Misplaced,
    requests_per_unit: Misplaced,
    unlimited: Misplaced,
    name: Misplaced,
    replaces: Misplaced,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenLimit {
    pub(super) requests_per_unit: Option<Spanned<u32>>,
    pub(super) unit: Option<Spanned<String>>,
    pub(super) unlimited: Option<Spanned<bool>>,
    pub(super) name: Option<String>,
    pub(super) replaces: Option<Vec<Spanned<Replaced>>>,
    pub(super) algorithm: Option<Spanned<String>>,
    pub(super) burst: Option<Spanned<u64>>,
    pub(super) on_store_error: Option<OnStoreError>,

    domain: Misplaced,
    key: Misplaced,
    value: Misplaced,
    descriptors: Misplaced,
    rate_limit: Misplaced,
    shadow_mode: Misplaced,
    quota_mode: Misplaced,
    detailed_metric: Misplaced,
    value_to_metric: Misplaced,
    share_threshold: Misplaced,
    metadata: Misplaced,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Replaced {
    #[serde(default)]
    pub(super) name: Option<String>,

    domain: Misplaced,
    key: Misplaced,
    value: Misplaced,
    descriptors: Misplaced,
    rate_limit: Misplaced,
    unit: Misplaced,
    requests_per_unit: Misplaced,
    unlimited: Misplaced,
    replaces: Misplaced,
    shadow_mode: Misplaced,
    quota_mode: Misplaced,
    detailed_metric: Misplaced,
    value_to_metric: Misplaced,
    share_threshold: Misplaced,
    metadata: Misplaced,
}

/// What to answer while the store fails.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum OnStoreError {
    Allow,
    Deny,
    Local,
}

/// A key that belongs elsewhere.
type Misplaced = Option<Spanned<IgnoredAny>>;

/// Reads one file.
pub(super) fn parse(file: &Path, text: &str) -> Result<Document, Error> {
    let mut options = serde_saphyr::options! { with_snippet: false };
    if let Some(budget) = &mut options.budget {
        budget.max_depth = DEPTH_MAX;
    }
    let parsed: Result<Option<Document>, _> = serde_saphyr::from_str_with_options(text, options);
    let document = parsed.map_err(|error| {
        let place = error.location().unwrap_or(Location::UNKNOWN);
        Error::at(file, place, in_our_words(&error))
    })?;
    document.ok_or_else(|| Error::of_file(file, "is empty: expected `domain` and `descriptors`"))
}

/// What is wrong, for those who wrote the file and not for those who read it by a library.
fn in_our_words(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error as Said;
    match error {
        Said::AliasError { error, .. } => in_our_words(error),
        Said::Budget { breach: BudgetBreach::Depth { .. }, .. } => too_deep(),
        Said::MultipleDocuments { .. } => {
            "a second document begins here: expected one domain per file".to_owned()
        }
        Said::DuplicateMappingKey { key: Some(key), .. } => {
            format!("`{key}` is given twice: give it once")
        }
        Said::InvalidScalar { ty, .. } => match *ty {
            // Each of these numbers has one key.
            "u32" => format!("requests_per_unit: expected a whole number from 0 to {}", u32::MAX),
            "u64" => "burst: expected a whole number from 1".to_owned(),
            "boolean" => "expected true or false".to_owned(),
            other => format!("expected {other}"),
        },
        Said::Unexpected { expected, .. } => match *expected {
            "mapping start" => "expected keys with values".to_owned(),
            "sequence start" => "expected a list".to_owned(),
            "string scalar" => "expected one value".to_owned(),
            other => format!("expected {other}"),
        },
        other => without_place(&other.to_string()).to_owned(),
    }
}

pub(super) fn too_deep() -> String {
    format!("nested too deep: there can be {LEVELS_MAX} descriptors within each other")
}

/// The reader's own words, without the place that they end or begin with: it is told once, and as everywhere.
fn without_place(text: &str) -> &str {
    let text = text.lines().next().unwrap_or_default();
    let end = text.find(" at line ").or_else(|| text.find(" (line ")).unwrap_or(text.len());
    &text[..end]
}

/// Which keys do nothing where they stand.
macro_rules! misplaced_in {
    ($($within:ty: $($key:ident)*;)*) => {$(
        impl $within {
            /// What does nothing where it stands.
            pub(super) fn misplaced(&self) -> impl Iterator<Item = (&'static str, Location)> {
                let all = [$((stringify!($key), &self.$key)),*];
                all.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?.referenced)))
            }
        }
    )*};
}

misplaced_in! {
    Document: key value rate_limit unit requests_per_unit unlimited name replaces shadow_mode quota_mode
        detailed_metric value_to_metric share_threshold metadata;
    Descriptor: domain unit requests_per_unit unlimited name replaces;
    WrittenLimit: domain key value descriptors rate_limit shadow_mode quota_mode detailed_metric value_to_metric
        share_threshold metadata;
    Replaced: domain key value descriptors rate_limit unit requests_per_unit unlimited replaces shadow_mode quota_mode
        detailed_metric value_to_metric share_threshold metadata;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::envoy::build::Building;
    use tidegate_testkit::fuzz::{self, Grammar};

    /// What is wrong with a file of so many levels.
    fn told(levels: usize) -> Vec<String> {
        let open = "{ key: k, descriptors: [".repeat(levels - 1);
        let last =
            "{ key: k, rate_limit: { unit: day, requests_per_unit: 1, replaces: [{ name: n }] } }";
        let close = "] }".repeat(levels - 1);
        let text = format!("{{ domain: d, descriptors: [{open}{last}{close}] }}");
        let mut building = Building::default();
        match parse("f".as_ref(), &text) {
            Ok(document) => building.add("f".as_ref(), document),
            Err(error) => building.errors.push(error),
        }
        let errors = building.finish().err().unwrap_or_default();
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_deepest_file_fits_on_the_stack_of_a_thread() {
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        let deepest = || {
            assert_eq!(told(LEVELS_MAX), [""; 0]);
            for levels in [LEVELS_MAX + 1, 100, 1_000] {
                let told = told(levels);
                assert!(matches!(&told[..], [one] if one.ends_with(&too_deep())), "{told:?}");
            }
        };
        thread.spawn(deepest).unwrap().join().unwrap();
    }

    /// Without `replaces` one level more is within what is read.
    #[test]
    fn a_level_too_many_is_told_however_little_is_in_it() {
        let levels = LEVELS_MAX + 1;
        let (open, close) = ("[{ key: k, descriptors: ".repeat(levels), "}]".repeat(levels));
        let text = format!("{{ domain: d, descriptors: {open}null{close} }}");
        let mut building = Building::default();
        building.add("f".as_ref(), parse("f".as_ref(), &text).unwrap());
        let errors = building.finish().unwrap_err();
        assert!(matches!(&errors[..], [one] if one.to_string().ends_with(&too_deep())));
    }

    /// What files of rules are made of.
    const GRAMMAR: Grammar = Grammar {
        whole: &[
            "domain: d\ndescriptors:\n  - key: k\n    rate_limit: { unit: day, requests_per_unit: 1, name: n }\n  - { key: a, value: '*', share_threshold: true, descriptors: [{ key: b, rate_limit: { unlimited: true } }] }\n",
        ],
        words: &[
            "domain: d\n",
            "descriptors:\n",
            "  - ",
            "- ",
            "key: k\n",
            "value: v\n",
            "    ",
            "\n",
            "rate_limit:",
            "{ unit: day, requests_per_unit: 1 }",
            "{ key: k, value: '*', share_threshold: true }",
            "descriptors: [",
            "{ key: a",
            "}",
            "]",
            ", ",
            "unlimited: true",
            "replaces: [{ name: n }]",
            "name: n",
            "algorithm: gcra",
            "burst: 5",
            "requests_per_unit: ",
            "4294967296",
            "-1",
            "unit: ",
            "shadow_mode: true",
            "&a ",
            "*a",
            "\"",
            "'",
            ": ",
            "~",
            "|\n",
            "\t",
        ],
    };

    proptest! {
        #![proptest_config(fuzz::config(4_000))]

        #[test]
        fn whatever_is_in_a_file_becomes_rules_or_errors(text in fuzz::text_like(GRAMMAR), is_wrapped in any::<bool>()) {
            let text = if is_wrapped { format!("domain: d\ndescriptors: [{text}]") } else { text };
            let built = fuzz::held_to(500, text.as_bytes(), || {
                let mut building = Building::default();
                match parse("f".as_ref(), &text) {
                    Ok(document) => building.add("f".as_ref(), document),
                    Err(error) => building.errors.push(error),
                }
                building.finish()
            });
            // Every rule that was taken can be asked.
            for (name, policy) in built.iter().flat_map(|rules| rules.policies()) {
                prop_assert!(tidegate::Engine::builder().policy(name, policy).build().is_ok(), "{name}");
            }
        }
    }
}
