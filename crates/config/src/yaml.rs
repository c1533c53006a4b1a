//! Parses YAML within bounds on length, depth, number of values and alias expansion.

use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{AliasLimits, DuplicateKeyPolicy};
use serde_saphyr::{Budget, Error, Options, Spanned, UserMessageFormatter};

use super::node::{Node, Value};
use super::problem::{Position, Problem};

/// The longest file that is read.
pub(crate) const BYTES_MAX: usize = 1024 * 1024;

/// Far more than any policy needs, and safe for the stack of a thread.
const DEPTH_MAX: usize = 32;

/// More than a file of the longest size holds without aliases.
const NODES_MAX: usize = 250_000;

/// The most aliases in a file.
const ALIASES_MAX: usize = 10_000;

/// The most events that all aliases together may repeat.
const REPEATED_MAX: usize = 50_000;

/// Parses a file. An empty one is null.
pub(crate) fn parse(text: &str) -> Result<Node, Problem> {
    match parse_beside(text)? {
        (node, None) => Ok(node),
        (_, Some(twice)) => Err(twice),
    }
}

/// The same, where a key that is given twice is a problem beside the others, and hides none: the first of the two counts.
pub(crate) fn parse_beside(text: &str) -> Result<(Node, Option<Problem>), Problem> {
    if text.len() > BYTES_MAX {
        return Err(too_long());
    }
    let parsed = |duplicates| {
        serde_saphyr::from_str_with_options::<Spanned<Value>>(text, options(duplicates))
    };
    match parsed(DuplicateKeyPolicy::Error) {
        Ok(node) => Ok((node.into(), None)),
        Err(error @ Error::DuplicateMappingKey { .. }) => {
            let twice = problem(&error);
            match parsed(DuplicateKeyPolicy::FirstWins) {
                Ok(node) => Ok((node.into(), Some(twice))),
                Err(_) => Err(twice),
            }
        }
        Err(error) => Err(problem(&error)),
    }
}

/// The problem of a file above [`BYTES_MAX`].
pub(crate) fn too_long() -> Problem {
    Problem::new(Position::START, "the file is longer than 1 MiB")
}

fn options(duplicates: DuplicateKeyPolicy) -> Options {
    let budget: Option<Budget> = serde_saphyr::budget! {
        max_reader_input_bytes: Some(BYTES_MAX),
        max_depth: DEPTH_MAX,
        flow_nesting_limit: DEPTH_MAX,
        max_nodes: NODES_MAX,
        max_events: 2 * NODES_MAX,
        max_aliases: ALIASES_MAX,
        max_anchors: ALIASES_MAX,
        max_recorded_anchor_events: NODES_MAX,
        max_recorded_anchor_bytes: 4 * BYTES_MAX,
        max_total_scalar_bytes: 8 * BYTES_MAX,
        max_documents: 1,
        max_merge_keys: ALIASES_MAX,
    };
    let alias_limits: AliasLimits = serde_saphyr::alias_limits! {
        max_total_replayed_events: REPEATED_MAX,
        max_replay_stack_depth: DEPTH_MAX,
    };
    serde_saphyr::options! {
        budget: budget,
        alias_limits: alias_limits,
        duplicate_keys: duplicates,
        // `yes` and `on` are text.
        strict_booleans: true,
        with_snippet: false,
    }
}

fn problem(error: &Error) -> Problem {
    let position = error.location().map_or(Position::START, Position::from);
    let said = error.render_with_formatter(&UserMessageFormatter);
    // Our own message begins with the position.
    let said = said.split(" at line ").next().unwrap_or_default();
    let message = match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("`{}` is given twice: give it once", tidegate_core::text::printable(key))
        }
        Error::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
            "a second document begins here: a file is one document, remove the `---`".to_owned()
        }
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => too_deep(),
        // The scanner's own bound, on brackets and braces.
        _ if said.contains("recursion limit exceeded") => too_deep(),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. } => too_much(),
        Error::AliasError { error, .. } if matches!(**error, Error::Budget { .. }) => too_much(),
        _ => format!("{}{}", tidegate_core::text::printable(said), hint(said)),
    };
    Problem::new(position, message)
}

fn too_deep() -> String {
    format!("nested too deep: a file may be {DEPTH_MAX} levels deep")
}

fn too_much() -> String {
    format!(
        "too deep or too much: a file may be {DEPTH_MAX} levels deep, hold {NODES_MAX} values, and repeat \
         {REPEATED_MAX} of them by aliases"
    )
}

/// The usual cause of an error of the parser.
fn hint(said: &str) -> &'static str {
    if said.contains("mapping values are not allowed") {
        " (a value with a colon at its end or before a space needs quotes)"
    } else if said.contains("flow mapping") || said.contains("flow sequence") {
        " (inside of brackets and braces `${…}` needs quotes)"
    } else if said.contains("did not find expected key") {
        " (is this line indented like the others of its section? Keys of one section begin in the same column)"
    } else if said.contains("tab") {
        " (indent with spaces)"
    } else {
        ""
    }
}
