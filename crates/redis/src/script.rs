//! The script: one constant text, and how it is called for a batch of requests.

use std::sync::LazyLock;

use redis::{Cmd, Script, Value};
use tidegate::{StoreError, StoreErrorKind};
use tidegate_core::Timestamp;

use crate::script_reply::ScriptReply;
use crate::script_request::{ScriptKind, ScriptRequest};

/// All files, in the order they need each other; see `lua/prelude.lua` for the function around most of them.
pub(crate) const SOURCE: &str = concat!(
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

/// How the script is named in a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallBy {
    /// `EVALSHA`: Redis has it.
    Hash,
    /// `EVAL`: Redis may not have it.
    Source,
}

/// One call for all requests, which are for one script, in one slot and of one time.
pub(crate) fn call<'a>(
    requests: impl Iterator<Item = &'a ScriptRequest> + Clone,
    by: CallBy,
) -> Cmd {
    let keys = requests.clone().map(|request| request.keys.len()).sum::<usize>();
    let mut cmd = Cmd::new();
    let text = requests.clone().next().map_or(ScriptKind::Check, |request| request.script);
    match (text, by) {
        (ScriptKind::Check, CallBy::Hash) => cmd.arg("EVALSHA").arg(HASH.as_str()),
        (ScriptKind::Check, CallBy::Source) => cmd.arg("EVAL").arg(SOURCE),
        (ScriptKind::Nodes, _) => cmd.arg("EVAL").arg(NODES),
        (ScriptKind::Overrides, _) => cmd.arg("EVAL").arg(OVERRIDES),
        (ScriptKind::Adaptive, _) => cmd.arg("EVAL").arg(ADAPTIVE),
    };
    cmd.arg(keys);
    for key in requests.clone().flat_map(|request| &request.keys) {
        cmd.arg(key.as_slice());
    }
    match requests.clone().next().and_then(|request| request.now) {
        Some(now) => cmd.arg(now.as_micros()),
        None => cmd.arg(""),
    };
    let (texts, order) = distinct(requests.map(|request| request.text.as_str()));
    for text in texts {
        cmd.arg(text);
    }
    if order.len() > 1 {
        cmd.arg(order);
    }
    cmd
}

/// The texts, each once, and which of them each request has: a byte each, from `1` for the first. Most requests of a call
/// have one and the same, and Redis takes 0.2 µs to read it.
fn distinct<'a>(all: impl Iterator<Item = &'a str>) -> (Vec<&'a str>, Vec<u8>) {
    let (mut texts, mut order) = (Vec::new(), Vec::new());
    for text in all {
        let known = texts.iter().position(|known| *known == text);
        let place = known.unwrap_or_else(|| {
            texts.push(text);
            texts.len() - 1
        });
        // A batch has 64 requests at most.
        order.push(b'1'.saturating_add(u8::try_from(place).unwrap_or(u8::MAX)));
    }
    (texts, order)
}

/// The answers, in the order of the requests. An outer error is of the call as a whole.
pub(crate) fn read<'a>(
    requests: impl Iterator<Item = &'a ScriptRequest>,
    reply: Value,
) -> Result<Vec<Result<ScriptReply, StoreError>>, StoreError> {
    let Value::Array(values) = reply else {
        return Err(StoreError::new(StoreErrorKind::Protocol, "the script's reply is no list"));
    };
    let mut numbers = values.into_iter().map(number);
    let Some(Ok(us)) = numbers.next() else {
        return Err(StoreError::new(StoreErrorKind::Protocol, "the script's reply has no time"));
    };
    let now = Timestamp::from_micros(us.max(0).cast_unsigned());
    requests.map(|request| request.expects.read(&mut numbers, now)).collect()
}

/// The number, or the text that stands in its place.
fn number(value: Value) -> Result<i64, String> {
    match value {
        Value::Int(number) => Ok(number),
        // Digits are a number that is too large for the script's.
        Value::BulkString(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            text.parse().map_err(|_| text.into_owned())
        }
        other => Err(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests;
