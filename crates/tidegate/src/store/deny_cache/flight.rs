//! One request that several callers wait for. Each of them drives it when it is polled, so that none depends on another
//! that was cancelled or is not polled yet.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::reply::{Later, Reply};
use crate::store::{StoreError, StoreErrorKind, StoreReply};

type Outcome = Result<StoreReply, StoreError>;

pub(super) struct Flight {
    /// When the request left.
    pub(super) left_us: u64,
    course: Mutex<Course>,
    /// Apart, because the request under way holds it too.
    bell: Arc<Bell>,
    /// How many are aboard.
    count: AtomicUsize,
    /// A task of its own was aboard, too.
    #[cfg(feature = "breaker")]
    goes_on: std::sync::atomic::AtomicBool,
}

enum Course {
    Starting,
    UnderWay(Later<'static, StoreReply, StoreError>),
    /// `None` if it was never asked.
    Over(Option<Outcome>),
}

/// Wakes all who are aboard.
#[derive(Default)]
struct Bell(Mutex<Seats>);

#[derive(Default)]
struct Seats {
    /// How often it has rung: a seat of an earlier round is void.
    round: u64,
    wakers: Vec<Waker>,
}

/// One of those who wait. Answers `None` if nothing was asked.
pub(super) struct Aboard {
    flight: Arc<Flight>,
    /// A round, and a place in it.
    seat: Option<(u64, usize)>,
}

impl Flight {
    pub(super) fn new(left_us: u64) -> Self {
        Self {
            left_us,
            course: Mutex::new(Course::Starting),
            bell: Arc::default(),
            count: AtomicUsize::new(0),
            #[cfg(feature = "breaker")]
            goes_on: std::sync::atomic::AtomicBool::new(false),
        }
    }

    /// Asks, and lets those who are aboard know.
    pub(super) fn start(
        self: &Arc<Self>,
        request: impl FnOnce() -> Reply<'static, StoreReply, StoreError>,
    ) -> Reply<'static, StoreReply, StoreError> {
        let _started = Started(self);
        match request().split() {
            Ok(answer) => {
                *lock(&self.course) = Course::Over(Some(answer.clone()));
                Reply::ready(answer)
            }
            Err(later) => {
                *lock(&self.course) = Course::UnderWay(later);
                let aboard = self.board();
                let lost =
                    || Err(StoreError::new(StoreErrorKind::NotSent, "the request was given up"));
                Reply::later(async move { aboard.await.unwrap_or_else(lost) })
            }
        }
    }

    pub(super) fn board(self: &Arc<Self>) -> Aboard {
        self.count.fetch_add(1, Ordering::Relaxed);
        Aboard { flight: self.clone(), seat: None }
    }

    /// Brings the request to its end when all have left, where there is a runtime to do it. Or else those who disconnect at
    /// once would keep its answer from all others, and it would look to a breaker as if none had come.
    #[cfg(feature = "breaker")]
    fn go_on_alone(self: &Arc<Self>) {
        if !matches!(*lock(&self.course), Course::UnderWay(_)) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if !self.goes_on.swap(true, Ordering::Relaxed) {
            let patience = std::time::Duration::from_micros(super::refusals::HOLD_US);
            let aboard = self.board();
            runtime.spawn(async move { tokio::time::timeout(patience, aboard).await });
        }
    }
}

/// Rings for those who came before there was anything to poll, also if the store panicked.
struct Started<'a>(&'a Flight);

impl Drop for Started<'_> {
    fn drop(&mut self) {
        let mut course = lock(&self.0.course);
        if matches!(*course, Course::Starting) {
            *course = Course::Over(None);
        }
        drop(course);
        self.0.bell.ring();
    }
}

impl Bell {
    fn ring(&self) {
        let mut seats = lock(&self.0);
        seats.round += 1;
        let wakers = std::mem::take(&mut seats.wakers);
        drop(seats);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
}

impl Aboard {
    /// Takes a seat before looking, so that no ring is missed.
    fn take_seat(&mut self, waker: &Waker) {
        let mut seats = lock(&self.flight.bell.0);
        let seat = self.seat.filter(|(round, _)| *round == seats.round);
        if let Some(known) = seat.and_then(|(_, place)| seats.wakers.get_mut(place)) {
            known.clone_from(waker);
        } else {
            self.seat = Some((seats.round, seats.wakers.len()));
            seats.wakers.push(waker.clone());
        }
    }
}

impl Future for Aboard {
    type Output = Option<Outcome>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        self.take_seat(task.waker());
        let mut course = lock(&self.flight.course);
        if let Course::UnderWay(later) = &mut *course {
            let waker = Waker::from(self.flight.bell.clone());
            if let Poll::Ready(answer) = later.as_mut().poll(&mut Context::from_waker(&waker)) {
                *course = Course::Over(Some(answer));
            }
        }
        let Course::Over(answer) = &*course else { return Poll::Pending };
        let answer = answer.clone();
        drop(course);
        self.flight.bell.ring();
        Poll::Ready(answer)
    }
}

impl Drop for Aboard {
    fn drop(&mut self) {
        if self.flight.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            #[cfg(feature = "breaker")]
            self.flight.go_on_alone();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
