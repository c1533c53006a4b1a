//! limitador: a list of limits, each with a namespace. The limits of one namespace are checked together.

use std::path::Path;

use super::{Draft, Limits, Problems, quoted};
use crate::foreign::Reader;
use crate::node::Node;
use crate::problem::Problem;
use crate::{contents, yaml};

struct Limit<'a> {
    namespace: &'a str,
    max_value: u64,
    seconds: u64,
    conditions: Vec<&'a str>,
    variables: Vec<&'a str>,
    /// Its `name`, else its `id`.
    name: Option<&'a str>,
    has_policy: bool,
}

pub(super) fn file(path: &Path) -> Result<Vec<Draft>, Problems> {
    let wrong = |problem: Problem| Problems::new(path, vec![problem]);
    let text = contents(path).map_err(wrong)?;
    let top = yaml::parse(&text).map_err(wrong)?;
    let mut reader = Reader::new(&text, &[]);
    let items = reader.items(Some(&top)).iter();
    let limits: Vec<_> = items.filter_map(|node| limit(&mut reader, node)).collect();
    if !reader.problems.is_empty() {
        return Err(Problems::new(path, reader.problems));
    }
    Ok(drafts(&limits))
}

fn limit<'a>(reader: &mut Reader<'a>, node: &'a Node) -> Option<Limit<'a>> {
    let known =
        ["namespace", "max_value", "seconds", "conditions", "variables", "name", "id", "policy"];
    let [namespace, max_value, seconds, conditions, variables, name, id, policy] =
        reader.fields(node, known);
    let required = [("namespace", namespace), ("max_value", max_value), ("seconds", seconds)];
    for (name, _) in required.iter().filter(|(_, value)| value.is_none()) {
        reader.problem(node.position, format!("`{name}` is missing"));
    }
    let mut texts = |list: Option<&'a Node>| -> Vec<&'a str> {
        reader.items(list).iter().map(|item| reader.text(item)).collect()
    };
    let (conditions, variables) = (texts(conditions), texts(variables));
    Some(Limit {
        namespace: reader.text(namespace?),
        max_value: reader.whole("max_value", max_value?, 0, u64::MAX)?,
        seconds: reader.whole("seconds", seconds?, 0, u64::MAX)?,
        conditions,
        variables,
        name: name.or(id).map(|node| reader.text(node)),
        has_policy: policy.is_some(),
    })
}

fn drafts(limits: &[Limit<'_>]) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = Vec::new();
    for (index, limit) in limits.iter().enumerate() {
        let called = limit.name.map_or_else(|| format!("limit-{}", index + 1), str::to_owned);
        let line = line(limit, &called);
        let zero = limit.max_value == 0 || limit.seconds == 0;
        let mut notes = Vec::new();
        if limit.has_policy {
            notes.push(format!("{called}: its `policy` has no counterpart here"));
        }
        if zero {
            notes.push(format!(
                "{called}: a limit of 0 refuses everything; block keys by overrides"
            ));
            drafts.push(Draft { notes, name: called, limits: Limits::None, more: vec![] });
        } else if limit.conditions.is_empty() {
            let same = drafts.iter_mut().find(|draft| draft.name == limit.namespace);
            if let Some(Draft { limits: Limits::All(lines), notes: before, .. }) = same {
                lines.push(line);
                before.extend(notes);
            } else {
                let (name, limits) = (limit.namespace.to_owned(), Limits::All(vec![line]));
                drafts.push(Draft { notes, name, limits, more: vec![] });
            }
        } else {
            notes.push(format!("when {}", limit.conditions.join(" and ")));
            let name = format!("{}/{called}", limit.namespace);
            drafts.push(Draft { notes, name, limits: Limits::All(vec![line]), more: vec![] });
        }
    }
    drafts
}

fn line(limit: &Limit<'_>, called: &str) -> String {
    let (count, seconds) = (limit.max_value, limit.seconds);
    let key = match &limit.variables[..] {
        // One counter for all: the caller gives a constant.
        [] => quoted("global"),
        // Several identifiers make one key: the caller joins them.
        variables => quoted(&variables.join(",")),
    };
    let name = quoted(called);
    format!("name: {name}, key: {key}, algorithm: fixed-window, limit: {count}/{seconds}s")
}
