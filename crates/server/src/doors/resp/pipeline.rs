//! Answers the commands of one read, in place in the read buffer.
//!
//! All checks are started before the first is awaited, so that a store over a network takes them in one round trip.

use tidegate::{Decision, Later};

use super::command::{self, CommandContext};
use super::frame::{self, ArgumentRange, ArgumentSpans, Command};
use super::reply::ReplyBuffer;
use super::{buffer_pool, check};
use crate::service::Unanswered;

/// Replies are written once they take this many bytes, also in the middle of a pipeline: a short command can have a
/// long reply.
const OUT_BYTES_MAX: usize = 64 << 10;
/// Checks started before the first is awaited: about 1 ms of Redis, of the 20 ms that each may take.
const PENDING_MAX: usize = 256;
/// Commands parsed before the first of them is answered, so that the cache misses of their keys overlap: with 100,000
/// keys, 315 ns of the server per check instead of 380 ns with a prefetch after each parsed command.
const COMMANDS_PER_BATCH: usize = 16;

/// Why a pipeline stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StopReason {
    /// The input holds no further complete command.
    NeedMoreInput,
    /// The replies have to be written first.
    OutputFull,
    /// The queued transaction runs before the next command.
    RunTransaction,
    /// The next command has a password, which is compared later.
    AwaitTurn,
    /// A password was wrong: its reply waits.
    WrongPassword,
    /// The connection closes.
    Close,
}

/// Checks in flight, each with the position of its reply in the output.
pub(super) type PendingChecks<'e> = Vec<(usize, Later<'e, Decision, Unanswered>)>;

/// The position of one command in the input, and of its arguments.
#[derive(Clone, Copy, Default)]
struct CommandSpan {
    from: usize,
    to: usize,
    arguments: ArgumentRange,
}

impl CommandContext<'_, '_> {
    /// Answers commands from `used` on until there is a reason to stop, and advances `used` past them.
    pub(super) fn answer_all(&mut self, input: &[u8], used: &mut usize) -> StopReason {
        let (mut spans, mut found) =
            (ArgumentSpans::new(), [CommandSpan::default(); COMMANDS_PER_BATCH]);
        loop {
            let (count, end) = Self::find(input, *used, &mut spans, &mut found);
            // All prefetches in a row: loads overlap only if few instructions lie between them.
            for CommandSpan { from, to, arguments } in &found[..count] {
                self.hint(Command::new(&input[*from..*to], &spans, *arguments));
            }
            for CommandSpan { from, to, arguments } in found.into_iter().take(count) {
                if self.out.len() >= OUT_BYTES_MAX || self.pending.len() >= PENDING_MAX {
                    return StopReason::OutputFull;
                }
                *used = to;
                let command = Command::new(&input[from..to], &spans, arguments);
                if command.len() == 0 {
                    continue;
                }
                command::answer(self, command);
                if let Some(reason) = self.stop {
                    if reason == StopReason::AwaitTurn {
                        *used = from;
                    }
                    return reason;
                }
            }
            match end {
                Some(Ok(())) => return StopReason::NeedMoreInput,
                Some(Err(error)) => {
                    self.out.error(&format!("ERR Protocol error: {}", error.0));
                    return StopReason::Close;
                }
                None => {}
            }
        }
    }

    /// Parses the next few commands. Returns how many, and why there are no more: end of input or a protocol error.
    fn find(
        input: &[u8],
        mut from: usize,
        spans: &mut ArgumentSpans,
        found: &mut [CommandSpan; COMMANDS_PER_BATCH],
    ) -> (usize, Option<Result<(), frame::ProtocolError>>) {
        spans.clear();
        for (count, slot) in found.iter_mut().enumerate() {
            if !spans.has_room() {
                return (count, None);
            }
            match frame::next(&input[from..], spans) {
                Ok(None) => return (count, Some(Ok(()))),
                Err(error) => return (count, Some(Err(error))),
                Ok(Some(len)) => {
                    *slot = CommandSpan { from, to: from + len, arguments: spans.finish_command() };
                    from += len;
                }
            }
        }
        (COMMANDS_PER_BATCH, None)
    }

    /// Prefetches the key of a command that has as many arguments as `CL.THROTTLE`. A wrong guess costs nothing.
    #[inline]
    fn hint(&self, command: Command<'_>) {
        if matches!(command.len(), 5 | 6) {
            let engine = &self.service.in_force().engine;
            engine.hint_given(&self.door.scope, command.argument(1));
        }
    }
}

/// Inserts the replies of pending checks at their positions.
pub(super) async fn insert_pending(out: &mut ReplyBuffer, pending: PendingChecks<'_>) {
    let mut whole = ReplyBuffer(buffer_pool::take(out.len()));
    let mut from = 0;
    for (at, later) in pending {
        whole.0.extend_from_slice(out.0.get(from..at).unwrap_or_default());
        from = at;
        check::write(&mut whole, later.await);
    }
    whole.0.extend_from_slice(out.0.get(from..).unwrap_or_default());
    buffer_pool::give(std::mem::replace(&mut out.0, whole.0));
}
