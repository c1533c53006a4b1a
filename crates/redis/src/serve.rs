//! A node with a connection: what waits leaves, what comes back is told.

use std::future::poll_fn;
use std::task::Poll;

use tokio::time::Instant;

use super::awake::Awake;
use super::flight::Flights;
use super::link::Link;
use super::node::{Node, moved};
use super::queue::Wish;
use super::script::Text;
use super::settle::Then;

/// So many questions leave in one flight.
const BATCH_MAX: usize = 64;

/// With so many keys among them: a script that reads more would keep everybody else waiting for milliseconds.
const BATCH_KEYS_MAX: usize = 1024;

/// So many flights are under way at once: the second arrives while Redis works on the first. Four are no faster.
const FLIGHTS_MAX: usize = 2;

/// So many questions make a second flight worth it before a reply is back: 64 askers never make a whole batch while half
/// of them are under way.
const SECOND_FLIGHT_MIN: usize = 32;

impl Node {
    /// Uses the connection until it ends. Says whether it has ever been of use.
    pub(super) async fn serve(&mut self, link: &mut Link) -> bool {
        let (mut flights, mut worked) = (Flights::new(self.shared.clone()), false);
        let (mut heard, mut leaving) = (false, false);
        let (since, awake) = (Instant::now(), Awake::new());
        loop {
            if !leaving {
                self.send(link, &mut flights, heard);
            }
            if flights.is_empty() && (leaving || self.is_over()) {
                return worked;
            }
            heard = false;
            self.timer.arm(|| flights.next_due().into_iter().chain(self.queue.next_due()).min());
            let enough = if leaving { usize::MAX } else { self.enough(&flights) };
            let wish = Wish { enough, alarm: self.timer.alarm() };
            // Ended, or a reply.
            let moves = poll_fn(|task| {
                awake.poll(task, |task| match link.poll_drive(task) {
                    Poll::Ready(()) => Poll::Ready(None),
                    Poll::Pending => flights.poll_reply(task).map(Some),
                })
            });
            let then = tokio::select! {
                biased;
                moved = moves => match moved {
                    None => Then::Cut,
                    Some((call, reply)) => {
                        link.meter().reply_ends();
                        heard = true;
                        worked |= reply.is_ok();
                        if reply.is_ok() && !call.confirms {
                            self.shared.counters.times.add(call.since.elapsed());
                        }
                        self.settle(call, reply, link, &mut flights, since)
                    }
                },
                () = self.queue.gathered(wish) => {
                    if flights.count() > 0 {
                        self.timer.arm_by(self.queue.next_due());
                    }
                    Then::Stay
                }
                () = self.timer.rings() => self.time_passes(&mut flights),
                () = moved(&mut self.place) => Then::Cut,
            };
            awake.stay();
            match then {
                Then::Stay => {}
                Then::Leave => leaving = true,
                Then::Cut => {
                    link.cut();
                    while !flights.is_empty() {
                        let (call, reply) = flights.reply().await;
                        self.settle(call, reply, link, &mut flights, since);
                    }
                    return worked;
                }
            }
        }
    }

    /// At once if nothing is under way; otherwise when there is room, and a reply has come or enough wait.
    fn send(&mut self, link: &Link, flights: &mut Flights, heard: bool) {
        while flights.count() < self.flights_max() {
            let waiting = self.queue.len();
            if waiting == 0 || !(flights.count() == 0 || heard || waiting >= SECOND_FLIGHT_MIN) {
                return;
            }
            let tickets = self.queue.take(BATCH_MAX, BATCH_KEYS_MAX);
            self.timer.arm_by(tickets.iter().map(|ticket| ticket.due).min());
            let counters = &self.shared.counters;
            // Announcements are nobody's question.
            let asked = tickets.iter().filter(|ticket| ticket.question.script == Text::Check);
            counters.questions.add(asked.count());
            counters.calls.add(flights.leave(link, tickets, Instant::now()));
        }
    }

    /// Tells those whose deadline has passed.
    fn time_passes(&mut self, flights: &mut Flights) -> Then {
        let now = Instant::now();
        self.tell_overdue(now);
        let overdue = flights.tell_overdue(now);
        if overdue > 0 {
            self.shared.trouble();
        }
        self.shared.counters.timeouts.add(overdue);
        if flights.is_stale(now) { Then::Cut } else { Then::Stay }
    }

    /// How many questions are reason to send them.
    fn enough(&self, flights: &Flights) -> usize {
        match flights.count() {
            0 => 1,
            count if count < self.flights_max() => SECOND_FLIGHT_MIN,
            _ => usize::MAX,
        }
    }

    /// What is sent behind a `WAIT` is held up by it: better not sent, and so certainly not run.
    fn flights_max(&self) -> usize {
        if self.shared.replicas.is_some() { 1 } else { FLIGHTS_MAX }
    }
}
