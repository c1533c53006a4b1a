//! The script: one constant text, and how a batch of questions is put to it.

use std::sync::LazyLock;

use redis::{Cmd, Script, Value};
use tidegate_core::Timestamp;

use super::question::{Numbers, Outcome, Question};
use tidegate::{StoreError, StoreErrorKind};

/// All files, in the order they need each other; see `lua/prelude.lua` for the function around most of them.
pub(super) const SOURCE: &str = concat!(
    include_str!("lua/fast.lua"),
    include_str!("lua/prelude.lua"),
    include_str!("lua/gcra.lua"),
    include_str!("lua/one.lua"),
    "local function define(name)\n",
    include_str!("lua/leaky_bucket.lua"),
    include_str!("lua/window.lua"),
    include_str!("lua/sliding_window.lua"),
    include_str!("lua/sliding_log.lua"),
    include_str!("lua/concurrency.lua"),
    include_str!("lua/many.lua"),
    include_str!("lua/each.lua"),
    include_str!("lua/operations.lua"),
    "return algorithms[name] or error('ERR tidegate: unknown algorithm', 0)\nend\n",
    include_str!("lua/check.lua"),
);

const NODES: &str = include_str!("lua/nodes.lua");

const OVERRIDES: &str = include_str!("lua/overrides.lua");

const ADAPTIVE: &str = include_str!("lua/adaptive.lua");

/// What `EVALSHA` calls it.
static HASH: LazyLock<String> = LazyLock::new(|| Script::new(SOURCE).get_hash().to_owned());

/// Which script is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Text {
    /// The one that decides, which Redis is given with every connection.
    Check,
    /// The one that counts nodes. So seldom called, and so short, that it goes by source each time.
    Nodes,
    /// The one that keeps overrides, of which the same is true.
    Overrides,
    /// The one through which nodes tell each other what they have read: once a second, by source too.
    Adaptive,
}

/// How the script is named in a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// `EVALSHA`: Redis has it.
    Hash,
    /// `EVAL`: Redis may not have it.
    Source,
}

/// One call for all questions, which are for one script, in one slot and of one time.
pub(super) fn call<'a>(questions: impl Iterator<Item = &'a Question> + Clone, by: By) -> Cmd {
    let keys = questions.clone().map(|question| question.keys.len()).sum::<usize>();
    let mut cmd = Cmd::new();
    let text = questions.clone().next().map_or(Text::Check, |question| question.script);
    match (text, by) {
        (Text::Check, By::Hash) => cmd.arg("EVALSHA").arg(HASH.as_str()),
        (Text::Check, By::Source) => cmd.arg("EVAL").arg(SOURCE),
        (Text::Nodes, _) => cmd.arg("EVAL").arg(NODES),
        (Text::Overrides, _) => cmd.arg("EVAL").arg(OVERRIDES),
        (Text::Adaptive, _) => cmd.arg("EVAL").arg(ADAPTIVE),
    };
    cmd.arg(keys);
    for key in questions.clone().flat_map(|question| &question.keys) {
        cmd.arg(key.as_slice());
    }
    match questions.clone().next().and_then(|question| question.now) {
        Some(now) => cmd.arg(now.as_micros()),
        None => cmd.arg(""),
    };
    for question in questions {
        cmd.arg(question.text.as_str());
    }
    cmd
}

/// The answers, in the order of the questions. An outer error is of the call as a whole.
pub(super) fn read<'a>(
    questions: impl Iterator<Item = &'a Question>,
    reply: Value,
) -> Result<Vec<Result<Outcome, StoreError>>, StoreError> {
    let Value::Array(values) = reply else {
        return Err(StoreError::new(StoreErrorKind::Protocol, "the script's reply is no list"));
    };
    let mut numbers = values.into_iter();
    let now = match Numbers::next(&mut numbers) {
        Some(Ok(us)) => Timestamp::from_micros(us.max(0).cast_unsigned()),
        _ => {
            return Err(StoreError::new(
                StoreErrorKind::Protocol,
                "the script's reply has no time",
            ));
        }
    };
    questions.map(|question| question.read(&mut numbers, now)).collect()
}

impl Numbers for std::vec::IntoIter<Value> {
    fn next(&mut self) -> Option<Result<i64, String>> {
        Some(match Iterator::next(self)? {
            Value::Int(number) => Ok(number),
            // Digits are a number that is too large for the script's.
            Value::BulkString(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                text.parse().map_err(|_| text.into_owned())
            }
            other => Err(format!("{other:?}")),
        })
    }
}
