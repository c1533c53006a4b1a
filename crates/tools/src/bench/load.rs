//! The load: lines that ask again as soon as they were answered, or when the next request is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::door::{Kind, Line, Trouble};
use super::keys::Keys;
use super::pace::Pace;
use super::progress::Progress;
use super::tally::{Board, Tally};

/// How long an exchange may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// For what was due and had to wait, after the end: its waiting belongs to the figures.
const GRACE: Duration = Duration::from_secs(1);
/// Before a server is knocked at again that could not be reached.
const PAUSE: Duration = Duration::from_millis(100);

/// How long, and how much.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) span: Duration,
    pub(super) requests: Option<u64>,
    /// Per second; as fast as answers come without one.
    pub(super) rate: Option<u32>,
}

/// What came of a stretch.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) tally: Tally,
    pub(super) took: Duration,
    /// Requests that were due and never sent, since all lines were busy.
    pub(super) unsent: u64,
}

/// What lines share during a stretch.
#[derive(Debug)]
struct Course {
    keys: Arc<Keys>,
    board: Board,
    /// Of the first request: another stretch asks for other keys.
    first: u64,
    next: AtomicU64,
    /// Earlier once it is over.
    end: AtomicU64,
    is_over: AtomicBool,
    pace: Option<Pace>,
}

impl Course {
    /// The next turns, at most so many: the first of them, and how many.
    fn take(&self, count: u64) -> Option<(u64, u64)> {
        if self.is_over.load(Ordering::Relaxed) {
            return None;
        }
        let turn = self.next.fetch_add(count, Ordering::Relaxed);
        let end = self.end.load(Ordering::Relaxed);
        (turn < end).then(|| (turn, count.min(end - turn)))
    }

    fn taken(&self) -> u64 {
        self.next.load(Ordering::Relaxed).min(self.end.load(Ordering::Relaxed))
    }

    /// Nothing more is due. Without a pace, nothing more is sent.
    fn ends(&self) {
        match &self.pace {
            Some(pace) => {
                let due = pace.due_by(Instant::now());
                self.end.fetch_min(due, Ordering::Relaxed);
            }
            None => self.is_over.store(true, Ordering::Relaxed),
        }
    }

    /// Nothing more is sent: how many were due that never were.
    fn is_over(&self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        let Some(pace) = &self.pace else { return 0 };
        pace.stop();
        self.end.load(Ordering::Relaxed).saturating_sub(self.taken())
    }

    async fn drive(&self, number: usize, line: &mut Line) {
        let batch = line.batch();
        loop {
            if let Some(pace) = &self.pace
                && !pace.wait().await
            {
                return;
            }
            let Some((turn, count)) = self.take(batch) else { return };
            let since = match &self.pace {
                Some(pace) => pace.due_at(turn),
                None => Instant::now(),
            };
            let done = in_time(line.exchange(&self.keys, self.first + turn, count)).await;
            let took = since.elapsed();
            match done {
                Ok(answers) => {
                    // Decisions without a server are timed together, and each took its share.
                    let shares = if matches!(line, Line::Embedded(_)) { count } else { 1 };
                    let ns = took.as_nanos() / u128::from(shares.max(1));
                    let ns = u64::try_from(ns).unwrap_or(u64::MAX);
                    self.board.of(number).answered(answers, ns);
                }
                Err(trouble) => {
                    line.give_up();
                    let knocks = trouble.kind == Kind::Connect;
                    self.board.of(number).failed(trouble, count);
                    if knocks {
                        sleep(PAUSE).await;
                    }
                }
            }
            if matches!(line, Line::Embedded(_)) {
                // It never waits, and others need the thread too: timers, and who ends it.
                tokio::task::yield_now().await;
            }
        }
    }
}

/// What has no answer in time is late.
pub(super) async fn in_time<T>(
    exchange: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    let late = || Trouble::new(Kind::Late, format!("no answer within {TIMEOUT:?}"));
    tokio::time::timeout(TIMEOUT, exchange).await.unwrap_or_else(|_| Err(late()))
}

/// Lines, and at which request they are.
#[derive(Debug)]
pub(super) struct Load {
    lines: Vec<Line>,
    keys: Arc<Keys>,
    turn: u64,
}

impl Load {
    pub(super) const fn new(lines: Vec<Line>, keys: Arc<Keys>) -> Self {
        Self { lines, keys, turn: 0 }
    }

    /// Drives all lines until the stretch is over or `stop` says so, and waits for the last answers.
    pub(super) async fn drive(
        &mut self,
        stretch: Stretch,
        stop: &mut watch::Receiver<bool>,
        progress: &mut Progress,
    ) -> Outcome {
        let begun = Instant::now();
        let batch = self.lines.first().map_or(1, Line::batch);
        let course = Arc::new(Course {
            keys: self.keys.clone(),
            board: Board::default(),
            first: self.turn,
            next: AtomicU64::new(0),
            end: AtomicU64::new(stretch.requests.unwrap_or(u64::MAX / 2)),
            is_over: AtomicBool::new(false),
            pace: stretch.rate.map(|rate| Pace::new(rate, batch, begun)),
        });
        let count = self.lines.len();
        if course.pace.is_some() {
            let course = course.clone();
            // It ends with the pace, at the latest a nap later.
            tokio::task::spawn_blocking(move || {
                if let Some(pace) = &course.pace {
                    pace.keep(&course.end, count);
                }
            });
        }
        let mut running = JoinSet::new();
        for (number, mut line) in self.lines.drain(..).enumerate() {
            let course = course.clone();
            running.spawn(async move {
                course.drive(number, &mut line).await;
                line
            });
        }
        let watching = async {
            let mut second = tokio::time::interval(Duration::from_secs(1));
            loop {
                second.tick().await;
                progress.tell(course.board.so_far());
            }
        };
        let mut has_ended = false;
        tokio::select! {
            () = gather(&mut running, &mut self.lines) => has_ended = true,
            () = sleep(stretch.span) => {}
            _ = stop.wait_for(|stop| *stop) => {}
            () = watching => {}
        }
        if !has_ended {
            course.ends();
            // Those who are still behind after that will not be waited for.
            let _ = timeout(GRACE, gather(&mut running, &mut self.lines)).await;
        }
        let unsent = course.is_over();
        gather(&mut running, &mut self.lines).await;
        progress.done();
        self.turn += course.taken();
        Outcome { tally: course.board.total(), took: begun.elapsed(), unsent }
    }
}

/// Takes lines back as they end, until all have.
async fn gather(running: &mut JoinSet<Line>, lines: &mut Vec<Line>) {
    while let Some(line) = running.join_next().await {
        lines.extend(line.ok());
    }
}
