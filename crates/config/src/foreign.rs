//! Files of other limiters: values by name, with a message and a position for each that cannot be used.

use tidegate_core::text::{closest, printable};

use crate::node::{Node, Value};
use crate::problem::{Position, Problem};

/// Reads one file. Goes on after a problem, so that all of them are reported at once.
pub(crate) struct Reader<'s> {
    /// The text of the file.
    source: &'s str,
    /// Keys that have a meaning somewhere in a file: where they have none, they are no more than a warning.
    elsewhere: &'static [&'static str],
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
}

impl<'s> Reader<'s> {
    pub(crate) const fn new(source: &'s str, elsewhere: &'static [&'static str]) -> Self {
        Self { source, elsewhere, problems: Vec::new(), warnings: Vec::new() }
    }

    pub(crate) fn problem(&mut self, position: Position, message: impl Into<String>) {
        self.problems.push(Problem::new(position, message));
    }

    /// The values of these keys. A null value counts as absent.
    pub(crate) fn fields<'n, const N: usize>(
        &mut self,
        node: &'n Node,
        known: [&str; N],
    ) -> [Option<&'n Node>; N] {
        let mut fields = [None; N];
        let Value::Map(entries) = &node.value else {
            self.problem(node.position, "expected keys with values");
            return fields;
        };
        for (key, value) in entries {
            let is_null = matches!(value.value, Value::Null);
            if let Some(index) = known.iter().position(|name| *name == key.name) {
                fields[index] = (!is_null).then_some(value);
            } else if self.elsewhere.contains(&&*key.name) {
                let message = format!("`{}` does nothing here: it belongs elsewhere", key.name);
                self.warnings.extend((!is_null).then(|| Problem::new(value.position, message)));
            } else {
                let name = printable(&key.name);
                let hint = closest(&name, known.into_iter());
                let hint = hint.map(|meant| format!(", did you mean `{meant}`?"));
                let message = format!("unknown field `{name}`{}", hint.unwrap_or_default());
                self.problem(key.position, message);
            }
        }
        fields
    }

    /// The items of a list; none if it is absent.
    pub(crate) fn items<'n>(&mut self, node: Option<&'n Node>) -> &'n [Node] {
        match node.map(|node| (&node.value, node.position)) {
            Some((Value::List(items), _)) => items,
            Some((_, position)) => {
                self.problem(position, "expected a list");
                &[]
            }
            None => &[],
        }
    }

    /// The text of a value, and its position; `None` if it is absent or empty.
    pub(crate) fn filled<'n>(&mut self, node: Option<&'n Node>) -> Option<(&'n str, Position)>
    where
        's: 'n,
    {
        let node = node?;
        Some((self.text(node), node.position)).filter(|(text, _)| !text.is_empty())
    }

    /// A text. A number or a boolean is one too, spelt as in the file.
    pub(crate) fn text<'n>(&mut self, node: &'n Node) -> &'n str
    where
        's: 'n,
    {
        match &node.value {
            Value::Text(text) => &text.text,
            Value::Bool(_) | Value::Whole(_) | Value::Float(_) => self.spelling(node),
            _ => {
                self.problem(node.position, "expected one value");
                ""
            }
        }
    }

    /// A scalar as the file spells it, without its tag and anchor.
    fn spelling(&self, node: &Node) -> &'s str {
        let (start, length) = (node.span.0 as usize, node.span.1 as usize);
        let text = self.source.get(start..start + length).unwrap_or_default();
        text.split_whitespace().find(|word| !word.starts_with(['!', '&'])).unwrap_or_default()
    }

    /// A whole number up to a bound.
    pub(crate) fn whole(&mut self, name: &str, node: &Node, min: u64, max: u64) -> Option<u64> {
        let number = match &node.value {
            Value::Whole(number) => u64::try_from(*number).ok(),
            Value::Text(text) => text.text.trim().parse().ok(),
            _ => None,
        };
        let number = number.filter(|number| (min..=max).contains(number));
        if number.is_none() {
            let message = format!("{name}: expected a whole number from {min} to {max}");
            self.problem(node.position, message);
        }
        number
    }

    /// `true` or `false`, also as YAML 1.1 spells them; `false` if it is absent.
    pub(crate) fn is_true(&mut self, node: Option<&Node>) -> bool {
        let Some(node) = node else { return false };
        let is_one_of =
            |text: &str, words: [&str; 4]| words.iter().any(|it| text.eq_ignore_ascii_case(it));
        match &node.value {
            Value::Bool(is_true) => return *is_true,
            Value::Text(text) if is_one_of(&text.text, ["true", "yes", "y", "on"]) => return true,
            Value::Text(text) if is_one_of(&text.text, ["false", "no", "n", "off"]) => {}
            _ => self.problem(node.position, "expected true or false"),
        }
        false
    }
}
