//! What a file changes of another one: each setting as it is written, and what a reload makes of it. No secret is shown.

mod effect;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use tidegate::driver::{StoreDrivers, redacted};
use tidegate_core::text::printable;
use tidegate_request::CountedBy;

use self::effect::{Effects, Setting};
use super::node::{Node, Value};
use super::problem::Problems;
use super::{Config, contents, yaml};

/// The last names of settings that hold a secret, besides URLs.
const SECRETS: [&str; 2] = ["password", "token"];

/// What a text is short for where a map may stand: `api: 5/h` for `api: { limit: 5/h }`.
const SHORT_FOR: [(&str, &str); 3] =
    [("policies", "limit"), ("store", "url"), ("listen", "address")];

/// The order of the routes, as a setting of them all.
const ORDER: &str = "order";

/// One setting that differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Change {
    /// Its path, as in `policies.api.limit`.
    pub setting: String,
    /// As the old file has it; `None` if that does not.
    pub before: Option<String>,
    /// As the new file has it; `None` if that does not.
    pub after: Option<String>,
    /// What a reload makes of it.
    pub effect: String,
}

/// A policy, a route or a section, by the paths of its values inside it.
type Entry = BTreeMap<String, Written>;

/// What is compared of a file.
#[derive(Default)]
struct File {
    entries: BTreeMap<String, Entry>,
    /// What its routes are known by, in their order.
    routes: Vec<String>,
}

/// A value as it is compared, and as it is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Written {
    text: String,
    shown: String,
}

/// What the new file changes, in the order of the settings' names. Both files are valid.
pub fn changes(
    (old_path, old): (&Path, &Config),
    (new_path, new): (&Path, &Config),
    stores: StoreDrivers,
) -> Result<Vec<Change>, Problems> {
    let (mut before, mut after) = (File::read(old_path)?, File::read(new_path)?);
    if let Some([old, new]) = reordered(&before.routes, &after.routes) {
        before.entries.insert("routes".to_owned(), old);
        after.entries.insert("routes".to_owned(), new);
    }
    let counted = |file: &File, config: &Config| counted(&file.routes, config);
    let same_keys = same(&counted(&before, old), &counted(&after, new));
    let (before, after) = (before.entries, after.entries);
    let effects = Effects::new(old, new, same_keys, stores);
    let mut found = Vec::new();
    for name in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
        let (before, after) = (before.get(name), after.get(name));
        compare(name, before, after, &effects, &mut found);
    }
    Ok(found)
}

fn compare(
    name: &str,
    before: Option<&Entry>,
    after: Option<&Entry>,
    effects: &Effects,
    found: &mut Vec<Change>,
) {
    let (Some(old), Some(new)) = (before, after) else {
        let (before, after) = (before.map(summary), after.map(summary));
        let is_there = (before.is_some(), after.is_some());
        let effect = effects.of(Setting { entry: name, path: "", is_whole: true, is_there });
        found.push(Change { setting: name.to_owned(), before, after, effect });
        return;
    };
    for path in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
        let (old, new) = (old.get(path), new.get(path));
        if old == new {
            continue;
        }
        let setting = join(name, path);
        let shown = |it: Option<&Written>| it.map(|it| it.shown.clone());
        let is_there = (old.is_some(), new.is_some());
        let effect = effects.of(Setting { entry: name, path, is_whole: false, is_there });
        found.push(Change { setting, before: shown(old), after: shown(new), effect });
    }
}

impl File {
    /// The policies, routes, overrides and sections.
    fn read(path: &Path) -> Result<Self, Problems> {
        let failed = |problem| Problems::new(path, vec![problem]);
        let node = yaml::parse(&contents(path).map_err(failed)?).map_err(failed)?;
        let mut file = Self::default();
        let Value::Map(sections) = &node.value else { return Ok(file) };
        for (section, node) in sections {
            let section = printable(&section.name);
            match &node.value {
                Value::Map(named) if ["policies", "listen"].contains(&&*section) => {
                    for (name, node) in named {
                        let name = format!("{section}.{}", printable(&name.name));
                        file.entries.insert(name, entry(node, &section));
                    }
                }
                Value::List(items) if section == "routes" => {
                    file.routes = file.add(&section, items);
                }
                Value::List(items) if section == "overrides" => {
                    file.add(&section, items);
                }
                _ => {
                    let entry = entry(node, &section);
                    file.entries.insert(section, entry);
                }
            }
        }
        Ok(file)
    }

    /// Adds the items of a list, and gives back what each is known by. Of several that match the same, the place says which.
    fn add(&mut self, section: &str, items: &[Node]) -> Vec<String> {
        let mut count: BTreeMap<String, u32> = BTreeMap::new();
        let add = |item: &Node| {
            let identity = identity(section, item);
            let count = count.entry(identity.clone()).or_default();
            *count += 1;
            let known_by = match count {
                1 => format!("[{identity}]"),
                place => format!("[{identity} ({place})]"),
            };
            self.entries.insert(format!("{section}{known_by}"), entry(item, section));
            known_by
        };
        items.iter().map(add).collect()
    }
}

/// What a route or an override is known by: what it matches, or whom it is for.
fn identity(section: &str, item: &Node) -> String {
    let Some(matched) = item.get("match") else {
        if section == "routes" {
            return "all requests".to_owned();
        }
        let named = ["policy", "limit_name", "key"];
        let parts = named.iter().filter_map(|name| item.get(name));
        return parts.map(|node| text(node, "").shown).collect::<Vec<_>>().join(", ");
    };
    let matched = text(matched, "").shown;
    match item.get("case").map(|case| text(case, "").shown).as_deref() {
        Some(case @ "insensitive") => format!("{matched}, case: {case}"),
        _ => matched,
    }
}

/// The order of the routes that are in both files, if it differs: from the first that has moved to the last.
fn reordered(before: &[String], after: &[String]) -> Option<[Entry; 2]> {
    let in_both = |these: &[String], others: &[String]| {
        let others: BTreeSet<_> = others.iter().collect();
        these.iter().filter(|it| others.contains(it)).cloned().collect::<Vec<_>>()
    };
    let (before, after) = (in_both(before, after), in_both(after, before));
    let differs = |(old, new): (&String, &String)| old != new;
    let first = before.iter().zip(&after).position(differs)?;
    let last = before.iter().zip(&after).rposition(differs)?;
    let order = |routes: &[String]| {
        let text = routes[first..=last].join(", ");
        Entry::from([(ORDER.to_owned(), Written { shown: text.clone(), text })])
    };
    Some([order(&before), order(&after)])
}

/// What each route and each policy counts by, by the name of its entry.
fn counted(routes: &[String], config: &Config) -> BTreeMap<String, Vec<(String, CountedBy)>> {
    let of_routes = config.doors.route_keys.iter().cloned();
    let routes = routes.iter().map(|known_by| format!("routes{known_by}")).zip(of_routes);
    let of_policies = config.doors.routes();
    let policies = config.policies.keys().map(|name| {
        let key = of_policies.key_of(name).clone();
        (format!("policies.{}", printable(name)), vec![(name.clone(), key)])
    });
    routes.chain(policies).collect()
}

/// The names of what is the same in both.
fn same<T: PartialEq>(
    before: &BTreeMap<String, T>,
    after: &BTreeMap<String, T>,
) -> BTreeSet<String> {
    let is_same = |(name, it): &(&String, &T)| after.get(*name) == Some(*it);
    before.iter().filter(is_same).map(|(name, _)| name.clone()).collect()
}

fn entry(node: &Node, section: &str) -> Entry {
    let mut entry = Entry::new();
    let long = SHORT_FOR.iter().find(|(it, _)| *it == section);
    let path = long.filter(|_| !matches!(node.value, Value::Map(_))).map_or("", |(_, path)| path);
    collect(node, path, &mut entry);
    entry
}

/// Every value below a node, by its path. Depth is bounded by the parser.
fn collect(node: &Node, path: &str, to: &mut Entry) {
    match &node.value {
        Value::Map(entries) => {
            for (key, node) in entries {
                collect(node, &join(path, &printable(&key.name)), to);
            }
        }
        // Limits of one policy have names.
        Value::List(items) if items.iter().any(|item| item.get("name").is_some()) => {
            for item in items {
                let name = item.get("name").map(|name| text(name, "").shown).unwrap_or_default();
                let path = format!("{path}[{name}]");
                collect(item, &path, to);
                // Its path has it.
                to.remove(&join(&path, "name"));
            }
        }
        _ => {
            to.insert(path.to_owned(), text(node, path));
        }
    }
}

fn join(path: &str, name: &str) -> String {
    match (path, name) {
        ("", name) => name.to_owned(),
        (path, "") => path.to_owned(),
        (path, name) if name.starts_with('[') => format!("{path}{name}"),
        (path, name) => format!("{path}.{name}"),
    }
}

/// A value on one line. Variables of the environment stay as they are written.
fn text(node: &Node, path: &str) -> Written {
    let plain = |text: String| Written { shown: printable(&text), text };
    let list = |open, parts: Vec<Written>, close| {
        let all = |part: fn(&Written) -> &str| {
            let parts: Vec<_> = parts.iter().map(part).collect();
            format!("{open}{}{close}", parts.join(", "))
        };
        Written { text: all(|part| &part.text), shown: printable(&all(|part| &part.shown)) }
    };
    match &node.value {
        Value::Null | Value::Unset => plain("null".to_owned()),
        Value::Bool(value) => plain(value.to_string()),
        Value::Whole(value) => plain(value.to_string()),
        Value::Float(value) => plain(value.to_string()),
        Value::Text(value) => {
            let text = value.text.clone();
            let last = path.rsplit('.').next().unwrap_or(path);
            let shown = match &text {
                _ if SECRETS.contains(&last) => "…".to_owned(),
                text if text.contains("://") => redacted(text),
                text => printable(text),
            };
            Written { text, shown }
        }
        // A list of one means what the one alone means.
        Value::List(items) if matches!(&items[..], [Node { value: Value::Text(_), .. }]) => {
            text(&items[0], path)
        }
        Value::List(items) => list("[", items.iter().map(|it| text(it, path)).collect(), "]"),
        Value::Map(entries) => {
            let part = |(key, node): &(super::node::Key, Node)| {
                let (name, value) = (printable(&key.name), text(node, &join(path, &key.name)));
                Written {
                    text: format!("{name}: {}", value.text),
                    shown: format!("{name}: {}", value.shown),
                }
            };
            list("", entries.iter().map(part).collect(), "")
        }
    }
}

/// A whole entry on one line.
fn summary(entry: &Entry) -> String {
    let part = |(path, value): (&String, &Written)| match path.as_str() {
        "" => value.shown.clone(),
        path if SHORT_FOR.iter().any(|(_, long)| *long == path) => value.shown.clone(),
        path => format!("{path}: {}", value.shown),
    };
    printable(&entry.iter().map(part).collect::<Vec<_>>().join(", "))
}
