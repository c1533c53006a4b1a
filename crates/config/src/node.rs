//! The values of a file with their positions, before they are interpreted.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use super::problem::{Position, Problem, Report};
use tidegate_core::text::printable;

/// A value and its position. It has no `Debug`: it may hold secrets.
pub struct Node {
    pub position: Position,
    pub value: Value,
    /// Where its text begins in the file, and how long that is, in bytes.
    pub span: (u32, u32),
    /// Its number in its list, also where others are left out.
    pub index: usize,
    /// Where the entries of a large map are, once somebody has asked.
    pub names: OnceCell<HashMap<String, usize>>,
}

/// Maps of so many entries are searched by name: a file may have thousands of policies, and each is asked for by its name.
const LARGE: usize = 64;

pub enum Value {
    Null,
    /// It names an environment variable that is not set, which has been reported.
    Unset,
    Bool(bool),
    Whole(i128),
    Float(f64),
    Text(Text),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

pub struct Text {
    pub text: String,
    /// Whether part of it comes from the environment. It may then stand for a number: variables are always text.
    pub is_substituted: bool,
}

/// The name of an entry, and its position.
pub struct Key {
    pub name: String,
    pub position: Position,
}

impl Node {
    pub fn new(position: Position, value: Value, span: (u32, u32)) -> Self {
        Self { position, value, span, index: 0, names: OnceCell::new() }
    }

    /// The entry of this name, if it is a map with one.
    pub fn get(&self, name: &str) -> Option<&Self> {
        let Value::Map(entries) = &self.value else { return None };
        let is_it = |(key, _): &&(Key, Self)| key.name == name;
        if entries.len() < LARGE {
            return entries.iter().find(is_it).map(|(_, node)| node);
        }
        let names = self.names.get_or_init(|| {
            let numbered = entries.iter().enumerate();
            numbered.map(|(number, (key, _))| (key.name.clone(), number)).collect()
        });
        let found = names.get(name).and_then(|number| entries.get(*number)).filter(is_it);
        // Entries may have been left out since.
        found.or_else(|| entries.iter().find(is_it)).map(|(_, node)| node)
    }

    /// A message about this node without any text from the environment, where secrets are kept. Messages repeat text in
    /// backticks.
    pub fn without_secrets(&self, message: String) -> String {
        match &self.value {
            Value::Text(text) if text.is_substituted => {
                let (raw, shown) = (&text.text, printable(&text.text));
                let hide = |(index, part): (usize, &'_ str)| {
                    let is_odd = index % 2 == 1;
                    // Cut text and URL schemes end in a mark for the rest.
                    let cut = part.trim_end_matches('…');
                    // With backticks of its own its end is unknown.
                    let is_secret = (raw.contains('`') && index > 0)
                        || (is_odd && (raw.contains(cut) || shown.contains(cut)));
                    // A number may also stand in an example of what to write.
                    let is_number = raw.bytes().all(|byte| byte.is_ascii_digit());
                    match part {
                        _ if is_secret => "…".to_owned(),
                        _ if is_number && !raw.is_empty() => part.replace(raw.as_str(), "…"),
                        _ => part.to_owned(),
                    }
                };
                message.split('`').enumerate().map(hide).collect::<Vec<_>>().join("`")
            }
            Value::List(items) => {
                items.iter().fold(message, |message, item| item.without_secrets(message))
            }
            Value::Map(entries) => {
                entries.iter().fold(message, |message, (_, node)| node.without_secrets(message))
            }
            _ => message,
        }
    }

    /// Its values without positions.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null | Value::Unset => serde_json::Value::Null,
            Value::Bool(is_true) => (*is_true).into(),
            Value::Whole(number) => u64::try_from(*number).map_or_else(
                |_| i64::try_from(*number).unwrap_or(i64::MIN).into(),
                serde_json::Value::from,
            ),
            Value::Float(number) => (*number).into(),
            Value::Text(text) => text.text.as_str().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => {
                entries.iter().map(|(key, node)| (key.name.clone(), node.to_json())).collect()
            }
        }
    }
}

/// A node and the path to it. Problems are reported at a cursor.
#[derive(Clone)]
pub struct Cursor<'a> {
    node: Option<&'a Node>,
    position: Position,
    path: String,
    report: &'a Report,
}

impl<'a> Cursor<'a> {
    pub fn top(node: &'a Node, report: &'a Report) -> Self {
        Self { node: Some(node), position: node.position, path: String::new(), report }
    }

    /// The entry of this name. An absent entry has the position of its map.
    pub fn field(&self, name: &str) -> Self {
        // The fields of a line have the position of the line.
        let is_line = |node: &&Node| matches!(node.value, Value::Text(_));
        let node = self.node.and_then(|node| node.get(name).or(Some(node).filter(is_line)));
        let dot = if self.path.is_empty() { "" } else { "." };
        self.below(node, format!("{}{dot}{}", self.path, printable(name)))
    }

    pub fn item(&self, index: usize) -> Self {
        let node = match self.node.map(|node| &node.value) {
            Some(Value::List(items)) => items.get(index),
            _ => None,
        };
        let index = node.map_or(index, |node| node.index);
        self.below(node, format!("{}[{index}]", self.path))
    }

    fn below(&self, node: Option<&'a Node>, path: String) -> Self {
        let position = node.map_or(self.position, |node| node.position);
        Self { node, position, path, report: self.report }
    }

    fn problem(&self, message: impl fmt::Display) -> Problem {
        let colon = if self.path.is_empty() { "" } else { ": " };
        let message = match self.node {
            Some(node) => node.without_secrets(message.to_string()),
            None => message.to_string(),
        };
        Problem::new(self.position, format!("{}{colon}{message}", self.path))
    }

    /// Adds a problem.
    pub fn report(&self, message: impl fmt::Display) {
        self.report.problems.borrow_mut().push(self.problem(message));
    }

    pub fn warn(&self, message: impl fmt::Display) {
        self.report.warnings.borrow_mut().push(self.problem(message));
    }

    /// Those of these fields that are given.
    pub fn given<'f>(&self, fields: &[&'f str]) -> Vec<&'f str> {
        let is_given = |name: &&str| self.node.is_some_and(|node| node.get(name).is_some());
        fields.iter().copied().filter(is_given).collect()
    }

    /// Adds a problem for each of these fields that is given.
    pub fn report_given(&self, fields: &[&str], message: &str) {
        self.given(fields).into_iter().for_each(|field| self.field(field).report(message));
    }

    /// How many problems there are so far, anywhere in the file.
    pub fn problem_count(&self) -> usize {
        self.report.problems.borrow().len()
    }

    /// Adds a problem, and returns `None`.
    pub fn reject<T>(&self, message: impl fmt::Display) -> Option<T> {
        self.report(message);
        None
    }

    /// The value of a result, or `None` after its error is added to the problems.
    pub fn accept<T, E: fmt::Display>(&self, outcome: Result<T, E>) -> Option<T> {
        outcome.map_err(|error| self.report(error)).ok()
    }
}

impl From<Location> for Position {
    fn from(location: Location) -> Self {
        Self { line: location.line().max(1), column: location.column().max(1) }
    }
}

impl From<Spanned<Value>> for Node {
    fn from(spanned: Spanned<Value>) -> Self {
        // The position of the alias and not of its anchor: the problem is about its use.
        let span = spanned.defined.span();
        let bytes = |count: Option<u64>| u32::try_from(count.unwrap_or(0)).unwrap_or(0);
        let span = (bytes(span.byte_offset()), bytes(span.byte_len()));
        Self::new(spanned.referenced.into(), spanned.value, span)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, is_true: bool) -> Result<Value, E> {
        Ok(Value::Bool(is_true))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Whole(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Whole(number.into()))
    }

    fn visit_i128<E>(self, number: i128) -> Result<Value, E> {
        Ok(Value::Whole(number))
    }

    fn visit_u128<E>(self, number: u128) -> Result<Value, E> {
        Ok(Value::Whole(i128::try_from(number).unwrap_or(i128::MAX)))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(Text { text: text.to_owned(), is_substituted: false }))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Value>>()? {
            list.push(Node { index: list.len(), ..item.into() });
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Spanned<String>, Spanned<Value>>()? {
            let key = Key { name: key.value, position: key.referenced.into() };
            map.push((key, value.into()));
        }
        Ok(Value::Map(map))
    }
}
