//! Commands that were read together: found, and answered where they lie.
//!
//! All checks are under way before the first is waited for, so that a store over a network takes them in one round trip.

use tidegate::{Answer, Later};

use super::check;
use super::command::{self, CommandContext, Next};
use super::frame::{self, Command, Kept, Places};
use super::out::Out;
use super::session::Session;
use super::{DoorState, buffer_pool};
use crate::service::{self, Unanswered};

/// Answers are written once they take this many bytes, also in the middle of a pipeline: a few bytes can ask for many.
const OUT_BYTES_MAX: usize = 64 << 10;
/// Checks under way before the first is awaited: a millisecond of Redis, of the 20 that each may take.
const WAITING_MAX: usize = 256;
/// Commands that are found before the first of them is answered, so that what they need comes from memory at once:
/// with 100,000 keys, 315 ns of the server per check instead of the 380 with a hint after each command that is found.
const TOGETHER: usize = 16;

/// Why commands are not looked at any further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pause {
    /// There is no other whole one.
    NoMore,
    /// What there is has to be written first.
    Full,
    /// What was kept is due, before what comes next.
    Exec,
    /// The conversation is over.
    Close,
}

/// What it takes to answer commands that were read together.
pub(super) struct Pipeline<'b, 'e> {
    pub(super) door: &'b DoorState,
    pub(super) asking: &'b mut service::Pipeline<'e>,
    pub(super) session: &'b mut Session,
    pub(super) out: &'b mut Out,
    pub(super) late: &'b mut LateAnswers<'e>,
}

/// Answers under way, each with the place in the output where it belongs.
pub(super) type LateAnswers<'e> = Vec<(usize, Later<'e, Answer<'e>, Unanswered>)>;

/// A command that was found: where its bytes are, and its arguments in them.
#[derive(Clone, Copy, Default)]
struct Found {
    from: usize,
    to: usize,
    kept: Kept,
}

impl Pipeline<'_, '_> {
    /// Answers commands, from `used` on, until there is a reason to pause. Whatever was answered is used.
    pub(super) fn answer(mut self, input: &[u8], used: &mut usize) -> Pause {
        let (mut places, mut found) = (Places::new(), [Found::default(); TOGETHER]);
        loop {
            let (count, end) = Self::find(input, *used, &mut places, &mut found);
            // In a row, with little between them: loads only overlap while the processor has room for what is between.
            for Found { from, to, kept } in &found[..count] {
                self.hint(Command::new(&input[*from..*to], &places, *kept));
            }
            for Found { from, to, kept } in found.into_iter().take(count) {
                if self.out.len() >= OUT_BYTES_MAX || self.late.len() >= WAITING_MAX {
                    return Pause::Full;
                }
                *used = to;
                let command = Command::new(&input[from..to], &places, kept);
                if command.len() == 0 {
                    continue;
                }
                match self.run(command) {
                    Next::GoOn => {}
                    Next::Exec => return Pause::Exec,
                    Next::Close => return Pause::Close,
                }
            }
            match end {
                Some(Ok(())) => return Pause::NoMore,
                Some(Err(broken)) => {
                    self.out.error(&format!("ERR Protocol error: {}", broken.0));
                    return Pause::Close;
                }
                None => {}
            }
        }
    }

    /// Finds the next few commands: how many, and why there are no more of them, if there are not.
    fn find(
        input: &[u8],
        mut from: usize,
        places: &mut Places,
        found: &mut [Found; TOGETHER],
    ) -> (usize, Option<Result<(), frame::Broken>>) {
        places.clear();
        for (count, slot) in found.iter_mut().enumerate() {
            if !places.has_room() {
                return (count, None);
            }
            match frame::next(&input[from..], places) {
                Ok(None) => return (count, Some(Ok(()))),
                Err(broken) => return (count, Some(Err(broken))),
                Ok(Some(len)) => {
                    *slot = Found { from, to: from + len, kept: places.keep() };
                    from += len;
                }
            }
        }
        (TOGETHER, None)
    }

    /// Has the key of a command that looks like `CL.THROTTLE` brought closer. To be wrong costs nothing.
    #[inline]
    fn hint(&self, command: Command<'_>) {
        if matches!(command.len(), 5 | 6) {
            let engine = &self.asking.in_force().engine;
            engine.hint_given(&self.door.scope, command.argument(1));
        }
    }

    #[inline]
    fn run(&mut self, command: Command<'_>) -> Next {
        let Self { door, asking, session, out, late } = self;
        command::answer(&mut CommandContext { command, door, asking, session, out, late })
    }
}

/// Puts late answers where they belong: what was written meanwhile moves behind them.
pub(super) async fn fill(out: &mut Out, late: LateAnswers<'_>) {
    let mut whole = Out(buffer_pool::take(out.len()));
    let mut from = 0;
    for (at, later) in late {
        whole.0.extend_from_slice(out.0.get(from..at).unwrap_or_default());
        from = at;
        check::write(&mut whole, later.await);
    }
    whole.0.extend_from_slice(out.0.get(from..).unwrap_or_default());
    buffer_pool::give(std::mem::replace(&mut out.0, whole.0));
}
