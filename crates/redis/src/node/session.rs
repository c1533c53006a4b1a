//! A node with a connection: sends waiting requests in batches, and handles replies.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use crate::connection::Connection;
use crate::node::in_flight::InFlight;
use crate::node::replies::Next;
use crate::node::{Node, moved};
use crate::queue::WakeWhen;
use crate::script_request::ScriptKind;
use crate::waker::TaskWaker;

/// The most requests of one batch.
const BATCH_MAX: usize = 64;

/// The most work of one batch, in checks of a plain limit of about 10 µs: more would block Redis for milliseconds. A
/// request with more goes alone.
const BATCH_WORK_MAX: u64 = 256;

/// The most batches in flight: the second arrives while Redis works on the first. Four are no faster.
const BATCHES_IN_FLIGHT_MAX: usize = 2;

/// The fewest requests of a second batch before a reply is back: 64 callers never fill a whole batch while half of
/// their requests are in flight.
const SECOND_BATCH_MIN: usize = 32;

/// The fewest requests that are worth two calls: each costs Redis 20 µs beside its checks.
const SPLIT_MIN: usize = 32;

/// How often a node yields to those who were just answered, until as many wait again.
const YIELDS_MAX: usize = 3;

/// How long replies are awaited on a connection that was given up.
const LATE_REPLY_MAX: Duration = Duration::from_mins(1);

impl Node {
    /// Uses the connection until it ends. Returns whether any call was answered.
    pub(crate) async fn serve(&mut self, mut connection: Connection) -> bool {
        let (mut in_flight, mut worked) = (InFlight::new(self.shared.clone()), false);
        let (mut has_reply, mut leaving) = (false, false);
        let (since, waker) = (Instant::now(), TaskWaker::new());
        loop {
            if !leaving {
                self.send(&connection, &mut in_flight, has_reply);
            }
            if in_flight.is_empty() && (leaving || self.is_over()) {
                return worked;
            }
            has_reply = false;
            let mut askers = 0;
            self.timer.arm(|| in_flight.next_due().into_iter().chain(self.queue.next_due()).min());
            let enough = if leaving { usize::MAX } else { self.enough(&in_flight) };
            let wake_when = WakeWhen { enough, alarm: self.timer.alarm };
            // Ended, or a reply.
            let progress = poll_fn(|task| {
                waker.poll(task, |task| match connection.poll_drive(task) {
                    Poll::Ready(()) => Poll::Ready(None),
                    Poll::Pending => in_flight.poll_reply(task).map(Some),
                })
            });
            let next = tokio::select! {
                biased;
                progressed = progress => match progressed {
                    None => Next::Close,
                    Some((call, reply)) => {
                        connection.meter.reply_ends();
                        has_reply = true;
                        askers = call.requests.len();
                        worked |= reply.is_ok();
                        if reply.is_ok() && !call.confirms {
                            self.shared.counters.times.add(call.since.elapsed());
                        }
                        self.handle_reply(call, reply, &connection, &mut in_flight, since)
                    }
                },
                () = self.queue.ready(wake_when) => {
                    if in_flight.count > 0 {
                        self.timer.arm_by(self.queue.next_due());
                    }
                    Next::Continue
                }
                () = self.timer.fires() => self.expire(&mut in_flight),
                () = moved(&mut self.endpoint) => Next::Close,
            };
            waker.stay_awake();
            match next {
                Next::Continue if askers > 1 && self.queue.len() < SECOND_BATCH_MIN => {
                    // Who was just answered may ask again: together, instead of one at once and the others behind it.
                    // tokio may return from one yield before all have run. With 50 askers a call then holds 25 requests
                    // instead of 18, and they are decided in 0.7 of the time.
                    let wanted = (self.queue.len() + askers).min(SECOND_BATCH_MIN);
                    for _ in 0..YIELDS_MAX {
                        yield_now().await;
                        if self.queue.len() >= wanted {
                            break;
                        }
                    }
                }
                Next::Continue => {}
                Next::Drain => leaving = true,
                Next::Abandon if in_flight.may_grant() => {
                    in_flight.fail_open();
                    read_late_replies(connection, in_flight);
                    return worked;
                }
                Next::Close | Next::Abandon => {
                    connection.cut();
                    while !in_flight.is_empty() {
                        let (call, reply) = in_flight.reply().await;
                        self.handle_reply(call, reply, &connection, &mut in_flight, since);
                    }
                    return worked;
                }
            }
        }
    }

    /// Sends batches: at once if none is in flight, otherwise when there is room and a reply has come or enough wait.
    fn send(&mut self, connection: &Connection, in_flight: &mut InFlight, has_reply: bool) {
        while in_flight.count < self.batches_max() {
            let waiting = self.queue.len();
            if waiting == 0 || !(in_flight.count == 0 || has_reply || waiting >= SECOND_BATCH_MIN) {
                return;
            }
            let mut requests = self.queue.take(self.batch_max(waiting, in_flight), BATCH_WORK_MAX);
            let now = Instant::now();
            for pending in &mut requests {
                pending.leaves(now);
            }
            self.timer.arm_by(requests.iter().map(|pending| pending.due).min());
            let counters = &self.shared.counters;
            // Announcements are not counted as requests.
            let asked =
                requests.iter().filter(|pending| pending.request.script == ScriptKind::Check);
            counters.requests.add(asked.count());
            counters.calls.add(in_flight.send(connection, requests, now));
        }
    }

    /// Fails requests past their deadline.
    fn expire(&mut self, in_flight: &mut InFlight) -> Next {
        let now = Instant::now();
        self.fail_overdue(now);
        let overdue = in_flight.fail_overdue(now);
        if overdue > 0 {
            self.shared.report_failure();
        }
        self.shared.counters.timeouts.add(overdue);
        if in_flight.is_stale(now) { Next::Abandon } else { Next::Continue }
    }

    /// How many waiting requests make it worth sending a batch.
    fn enough(&self, in_flight: &InFlight) -> usize {
        match in_flight.count {
            0 => 1,
            count if count < self.batches_max() => SECOND_BATCH_MIN,
            _ => usize::MAX,
        }
    }

    /// The most requests of the next batch: half of what waits and is in flight, so that Redis works on one half while the other
    /// is answered. A larger batch would stay larger, because its callers ask again together, and one side would idle
    /// meanwhile: of 50 callers 45 went together, and 5 between them.
    fn batch_max(&self, waiting: usize, in_flight: &InFlight) -> usize {
        let all = waiting + in_flight.requests;
        if self.batches_max() == 1 || all < SPLIT_MIN {
            return BATCH_MAX;
        }
        all.div_ceil(2).min(BATCH_MAX)
    }

    /// One if replicas confirm: a batch behind a `WAIT` would be blocked, and is certainly not run if it is not sent.
    fn batches_max(&self) -> usize {
        if self.shared.replicas.is_some() { 1 } else { BATCHES_IN_FLIGHT_MAX }
    }
}

/// Reads the replies of a connection that was given up, in the background: a server that hung runs what it was sent, and
/// permits that it grants then have to be given back. Unless too many such connections are kept already.
fn read_late_replies(mut connection: Connection, mut in_flight: InFlight) {
    let Some(kept) = in_flight.keep_connection() else { return };
    tokio::spawn(async move {
        let read = async {
            while !in_flight.is_empty() {
                let progress = poll_fn(|task| match connection.poll_drive(task) {
                    Poll::Ready(()) => Poll::Ready(None),
                    Poll::Pending => in_flight.poll_reply(task).map(Some),
                });
                let Some((call, Ok(reply))) = progress.await else { return };
                connection.meter.reply_ends();
                call.give_back_late(reply);
            }
        };
        let _ = timeout(LATE_REPLY_MAX, read).await;
        drop(kept);
    });
}
