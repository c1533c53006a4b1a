//! From a file to rules.
//!
//! The keys are those of envoyproxy/ratelimit, and three of ours within `rate_limit`: `algorithm`, `burst` and
//! `on_store_error`. The original accepts each of its keys anywhere, and silently ignores one in the wrong place.
//! Such a file loads here too, with a warning.

use std::collections::hash_map::Entry;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use tidegate::{Every, OnStoreError};
use tidegate_core::{Algorithm, Amount, FieldError, LimitOrShaper, LimitSpec, Period, Wildcard};

use super::Error;
use super::rules::{Counts, Domain, Level, Node as RuleNode, Quantity, Rule, Rules};
use super::unit::Unit;
use crate::foreign::Reader;
use crate::node::{Node, Value};
use crate::policy::time_zone;
use crate::problem::{Position, Problem};
use crate::yaml;

/// The deepest nesting of descriptors: each level takes stack, and a reload runs on the stack of a thread.
const LEVELS_MAX: usize = 12;

/// Every key of the original.
const KEYS: [&str; 16] = [
    "domain",
    "descriptors",
    "key",
    "value",
    "rate_limit",
    "unit",
    "requests_per_unit",
    "unlimited",
    "name",
    "replaces",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];

/// Rules under construction, and every error in their files.
#[derive(Debug, Default)]
pub(super) struct Builder {
    rules: Rules,
    pub(super) errors: Vec<Error>,
}

/// The parent of a descriptor.
#[derive(Clone, Copy)]
struct Parent<'a> {
    policy: &'a str,
    /// How many descriptors it is within.
    level: usize,
}

impl Builder {
    pub(super) fn add(&mut self, file: &Path, text: &str) {
        let top = match yaml::parse(text) {
            Ok(Node { value: Value::Null, .. }) => {
                let message = "is empty: expected `domain` and `descriptors`";
                return self.errors.push(Error::in_file(file, message));
            }
            Ok(top) => top,
            Err(problem) => return self.errors.push(Error::at(file, problem)),
        };
        let mut reader = Reader::new(text, &KEYS);
        let domain = reader.domain(&top);
        self.rules.warnings.extend(reader.warnings.into_iter().map(|it| Error::at(file, it)));
        self.errors.extend(reader.problems.into_iter().map(|it| Error::at(file, it)));
        let Some((name, position, domain)) = domain else {
            if matches!(top.value, Value::Map(_)) {
                self.errors.push(Error::in_file(file, "config file cannot have empty domain"));
            }
            return;
        };
        match self.rules.domains.entry(name.into()) {
            Entry::Vacant(slot) => _ = slot.insert(domain),
            Entry::Occupied(_) => {
                let message = format!("duplicate domain '{name}' in config file");
                self.errors.push(Error::at(file, Problem::new(position, message)));
            }
        }
    }

    pub(super) fn finish(self) -> Result<Rules, Vec<Error>> {
        if self.errors.is_empty() { Ok(self.rules) } else { Err(self.errors) }
    }
}

/// One file on its way into the rules.
impl<'s> Reader<'s> {
    fn domain<'n>(&mut self, top: &'n Node) -> Option<(&'n str, Position, Domain)>
    where
        's: 'n,
    {
        let [domain, descriptors] = self.fields(top, ["domain", "descriptors"]);
        let (name, position) = self.filled(domain)?;
        let policy = component(name);
        let root = self.level(Parent { policy: &policy, level: 0 }, descriptors);
        Some((name, position, Domain { root, own_limits: format!("{policy}//override") }))
    }

    fn level(&mut self, parent: Parent<'_>, descriptors: Option<&Node>) -> Level {
        let mut level = Level::default();
        for descriptor in self.items(descriptors) {
            self.descriptor(parent, descriptor, &mut level);
        }
        level
    }

    fn descriptor(&mut self, parent: Parent<'_>, node: &Node, level: &mut Level) {
        if parent.level == LEVELS_MAX {
            self.problem(node.position, too_deep());
            return;
        }
        // Metrics have bounded labels here, so that the last three change nothing.
        let known = [
            "key",
            "value",
            "rate_limit",
            "descriptors",
            "shadow_mode",
            "quota_mode",
            "share_threshold",
            "detailed_metric",
            "value_to_metric",
            "metadata",
        ];
        let [key, value, rate_limit, descriptors, shadow, quota, shares, ..] =
            self.fields(node, known);
        let Some((key, key_position)) = self.filled(key) else {
            self.problem(node.position, "descriptor has empty key");
            return;
        };
        let value = self.filled(value).map_or("", |(value, _)| value);
        let composite = composite(key, value);
        let policy = format!("{}/{}", parent.policy, component(&composite));
        let index = level.nodes.len();
        match level.exact.entry(composite.as_bytes().into()) {
            Entry::Vacant(slot) => _ = slot.insert(index),
            Entry::Occupied(_) => {
                let message = format!("duplicate descriptor composite key '{policy}'");
                self.problem(key_position, message);
                return;
            }
        }
        let pattern = Wildcard::new(&composite);
        level.patterns.extend(pattern.has_star().then_some((pattern, index)));
        let is_shared = self.is_true(shares);
        if let Some(shares) = shares.filter(|_| is_shared && !value.contains('*')) {
            let message = format!("share_threshold needs a '*' in the value of '{policy}'");
            self.problem(shares.position, message);
        }
        let counts = match (key.contains('*'), value) {
            _ if is_shared => Counts::Together,
            (true, _) => Counts::ByKeyAndValue,
            (false, value) if value.is_empty() || value.contains('*') => Counts::ByValue,
            _ => Counts::Together,
        };
        let (is_shadow, is_quota) = (self.is_true(shadow), self.is_true(quota));
        let rule = rate_limit.and_then(|node| self.rule(node, &policy));
        let rule = rule.map(|rule| Rule { is_shadow, is_quota, ..rule });
        let here = Parent { policy: &policy, level: parent.level + 1 };
        let below = self.level(here, descriptors);
        level.nodes.push(RuleNode { rule, below, counts });
    }

    fn rule(&mut self, node: &Node, policy: &str) -> Option<Rule> {
        let known = [
            "requests_per_unit",
            "unit",
            "unlimited",
            "name",
            "replaces",
            "algorithm",
            "burst",
            "on_store_error",
        ];
        let [requests, unit, unlimited, name, replaces, algorithm, burst, on_store_error] =
            self.fields(node, known);
        let count_before = self.problems.len();
        let requests = requests
            .map_or(Some(0), |node| self.whole("requests_per_unit", node, 0, u32::MAX.into()));
        let burst = burst.and_then(|node| self.whole("burst", node, 1, u64::MAX));
        let is_unlimited = self.is_true(unlimited);
        let (unit, unit_position) = self.filled(unit).unwrap_or(("", node.position));
        let algorithm = algorithm.map(|node| (self.text(node), node.position));
        let algorithm = algorithm.unwrap_or(("fixed-window", node.position));
        let name = self.filled(name).map_or("", |(name, _)| name);
        let replaces = self.replaces(name, replaces);
        let on_store_error = match self.filled(on_store_error) {
            Some(("allow", _)) => OnStoreError::Allow,
            Some(("deny", _)) => OnStoreError::DENY,
            None | Some(("local", _)) => OnStoreError::Local,
            Some((other, position)) => {
                let message = format!("on_store_error `{other}`: expected allow, deny or local");
                self.problem(position, message);
                OnStoreError::Local
            }
        };
        if self.problems.len() > count_before {
            return None;
        }
        let requests = u32::try_from(requests?).unwrap_or(u32::MAX);
        let written = Written { requests, unit, unit_position, is_unlimited, algorithm, burst };
        let quantity = quantity(&written);
        let quantity = quantity.map_err(|(at, message)| self.problem(at, message)).ok()?;
        Some(Rule {
            policy: policy.to_owned(),
            quantity,
            name: name.to_owned(),
            replaces,
            is_shadow: false,
            is_quota: false,
            on_store_error,
        })
    }

    fn replaces(&mut self, name: &str, list: Option<&Node>) -> Vec<String> {
        let mut replaces = Vec::new();
        for item in self.items(list) {
            let [replaced] = self.fields(item, ["name"]);
            match self.filled(replaced).map_or("", |(text, _)| text) {
                "" => self.problem(item.position, "should not have an empty replaces entry"),
                other if other == name => {
                    let message = "replaces should not contain name of same descriptor";
                    self.problem(item.position, message);
                }
                other => replaces.push(other.to_owned()),
            }
        }
        replaces
    }
}

/// The keys of a `rate_limit` that make its quantity.
struct Written<'a> {
    requests: u32,
    unit: &'a str,
    unit_position: Position,
    is_unlimited: bool,
    algorithm: (&'a str, Position),
    burst: Option<u64>,
}

fn quantity(written: &Written<'_>) -> Result<Quantity, (Position, String)> {
    let Written { requests, unit: unit_name, unit_position, algorithm, .. } = *written;
    let unit = Unit::named(unit_name);
    if written.is_unlimited {
        let message = || "should not specify rate limit unit when unlimited".to_owned();
        return if unit.is_none() {
            Ok(Quantity::Unlimited)
        } else {
            Err((unit_position, message()))
        };
    }
    let unit =
        unit.ok_or_else(|| (unit_position, format!("invalid rate limit unit '{unit_name}'")))?;
    let (algorithm, position) = algorithm;
    if algorithm.trim().is_empty() {
        let message = "algorithm is empty: name one, or leave it out for fixed-window".to_owned();
        return Err((position, message));
    }
    let error = |error: FieldError| (position, error.to_string());
    let algorithm: Algorithm = algorithm.parse().map_err(error)?;
    // Built also for no requests at all, so that a wrong algorithm is an error there too.
    let spec = limit_spec(algorithm, requests.max(1), unit, written.burst);
    if algorithm == Algorithm::CONCURRENCY {
        return Err((position, "concurrency cannot be limited per unit".to_owned()));
    }
    match spec.build(&time_zone).map_err(error)? {
        LimitOrShaper::Limit(limit) => {
            Ok(Quantity::PerUnit { requests, unit, limit: (requests > 0).then_some(limit) })
        }
        LimitOrShaper::Shaper(_) => {
            Err((position, "leaky-bucket delays instead of refusing".to_owned()))
        }
    }
}

/// A quota of days, weeks or months goes by the calendar, of UTC.
fn limit_spec(algorithm: Algorithm, requests: u32, unit: Unit, burst: Option<u64>) -> LimitSpec {
    let every = match unit {
        Unit::Day => Some(Every::Day),
        Unit::Week => Some(Every::Week),
        Unit::Month => Some(Every::Month),
        _ => None,
    };
    let every = every.filter(|_| algorithm == Algorithm::QUOTA).map(Period::Calendar);
    let period = every.unwrap_or(Period::Length(Duration::from_secs(unit.seconds())));
    let amount = Some(Amount::Rate(requests.into(), period));
    let spec = LimitSpec { algorithm: Some(algorithm), ..LimitSpec::default() };
    if algorithm == Algorithm::TOKEN_BUCKET {
        LimitSpec { refill: amount, capacity: burst, ..spec }
    } else {
        LimitSpec { limit: amount, burst, ..spec }
    }
}

fn too_deep() -> String {
    format!("nested too deep: there can be {LEVELS_MAX} descriptors within each other")
}

/// The key that an entry is looked up by.
fn composite(key: &str, value: &str) -> String {
    if value.is_empty() { key.to_owned() } else { format!("{key}_{value}") }
}

/// A part of a policy's name: a `/` within it is written as `%2F`, so that no two paths spell the same name.
fn component(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if matches!(char, '/' | '%') || char.is_control() {
            let _ = write!(out, "%{:02X}", u32::from(char));
        } else {
            out.push(char);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use tidegate_testkit::fuzz::{self, Grammar};

    fn build(text: &str) -> Result<Rules, Vec<Error>> {
        let mut builder = Builder::default();
        builder.add("f".as_ref(), text);
        builder.finish()
    }

    /// The errors of a file with this many levels.
    fn errors(levels: usize) -> Vec<String> {
        let open = "{ key: k, descriptors: [".repeat(levels - 1);
        let last =
            "{ key: k, rate_limit: { unit: day, requests_per_unit: 1, replaces: [{ name: n }] } }";
        let close = "] }".repeat(levels - 1);
        let text = format!("{{ domain: d, descriptors: [{open}{last}{close}] }}");
        let errors = build(&text).err().unwrap_or_default();
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_deepest_file_fits_on_the_stack_of_a_thread() {
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        let deepest = || {
            assert_eq!(errors(LEVELS_MAX), [""; 0]);
            for levels in [LEVELS_MAX + 1, 100, 1_000] {
                let errors = errors(levels);
                let is_told = |it: &String| it.contains(": nested too deep: ");
                assert!(matches!(&errors[..], [one] if is_told(one)), "{errors:?}");
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
        let errors = build(&text).unwrap_err();
        assert!(matches!(&errors[..], [one] if one.to_string().ends_with(&too_deep())));
    }

    #[test]
    fn scalars_are_spelt_as_in_the_file() {
        for (value, expected) in [
            ("1.10", "d/k_1.10"),
            ("007", "d/k_007"),
            ("0x1F", "d/k_0x1F"),
            ("1_000", "d/k_1_000"),
            ("True", "d/k_True"),
            ("1e3", "d/k_1e3"),
            ("-0.0", "d/k_-0.0"),
            ("'5'", "d/k_5"),
            ("yes", "d/k_yes"),
            ("ä", "d/k_ä"),
            ("!!int 7", "d/k_7"),
            ("~", "d/k"),
        ] {
            for (open, close) in [("[{ ", " }]"), ("\n  - ", "\n")] {
                let limit = "rate_limit: { unit: day, requests_per_unit: 1 }";
                let between = if close == "\n" { "\n    " } else { ", " };
                let text = format!(
                    "domain: d # ö\ndescriptors: {open}key: k{between}value: {value}{between}{limit}{close}"
                );
                let rules = build(&text).unwrap();
                let names: Vec<_> = rules.all().iter().map(|(rule, _)| &*rule.policy).collect();
                assert_eq!(names, [expected], "{text}");
            }
        }
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
            let built = fuzz::held_to(500, text.as_bytes(), || build(&text));
            // Every rule that was taken can be asked.
            for (name, policy) in built.iter().flat_map(|rules| rules.policies()) {
                prop_assert!(tidegate::Engine::builder().policy(name, policy).build().is_ok(), "{name}");
            }
        }
    }
}
