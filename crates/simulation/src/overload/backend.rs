//! The protected server: sixteen workers, one queue, and clients with a timeout.
//!
//! As most servers do, it also serves requests whose client has timed out. This is why a queue that is too long makes
//! all work useless, and does not recover by itself.

use std::collections::VecDeque;

use crate::rng::Rng;

pub(super) const WORKERS: u64 = 16;
/// The mean of an exponential time: 400 a second for all workers.
const SERVICE_US: u64 = 40_000;
pub(super) const CLIENT_TIMEOUT_US: u64 = 1_000_000;
/// Clients that try again after a timeout, once.
const RETRY_PERCENT: u64 = 60;
/// Requests that wait beyond one per worker slow all down, up to ten times.
const SLOWEST_PPM: u64 = 10_000_000;
/// What a listener holds; further connections are refused.
const QUEUE_MAX: usize = 100_000;

/// A request that was admitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) arrived_us: u64,
    number: u64,
    pub(super) client: Client,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A worker has finished it.
    Served { request: Request, in_time: bool },
    /// Its client has timed out. Some try again.
    TimedOut { request: Request, retries: bool },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    pub(super) is_retry: bool,
    pub(super) is_bot: bool,
}

/// How fast it works at the moment, compared with normal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    /// The factor by which it is slower.
    pub(super) slowdown: u64,
    /// What each waiting request adds, in millionths.
    pub(super) growth_ppm: u64,
}

pub(super) struct Backend {
    rng: Rng,
    pub(super) speed: Speed,
    /// The end of each service, the earliest last.
    serving: Vec<(u64, Request)>,
    waiting: VecDeque<Request>,
    /// Requests whose clients still wait, in the order of arrival; `None` for one that was served.
    pending: VecDeque<Option<Request>>,
    /// The number of the first of them.
    first: u64,
    /// Until when busy time was counted, and how much there is since it was last read.
    counted_us: u64,
    busy_us: u64,
}

impl Backend {
    pub(super) fn new(seed: u64, speed: Speed) -> Self {
        Self {
            rng: Rng::new(seed, 1),
            speed,
            serving: Vec::new(),
            waiting: VecDeque::new(),
            pending: VecDeque::new(),
            first: 0,
            counted_us: 0,
            busy_us: 0,
        }
    }

    /// How many requests are served or wait.
    pub(super) fn in_flight(&self) -> u64 {
        (self.serving.len() + self.waiting.len()) as u64
    }

    /// Queues a request, unless the listener is full.
    pub(super) fn take(&mut self, now_us: u64, client: Client) -> bool {
        if self.waiting.len() >= QUEUE_MAX {
            return false;
        }
        let number = self.first + self.pending.len() as u64;
        let request = Request { arrived_us: now_us, number, client };
        self.pending.push_back(Some(request));
        self.waiting.push_back(request);
        self.serve(now_us);
        true
    }

    /// The instant of the next event.
    pub(super) fn next_us(&mut self) -> u64 {
        while let Some(None) = self.pending.front() {
            self.forget();
        }
        let done_us = self.serving.last().map_or(u64::MAX, |served| served.0);
        let first = self.pending.front().copied().flatten();
        done_us.min(first.map_or(u64::MAX, |it| it.arrived_us + CLIENT_TIMEOUT_US))
    }

    /// Processes that event.
    pub(super) fn step(&mut self, now_us: u64) -> Option<Event> {
        match self.serving.pop_if(|(done_us, _)| *done_us <= now_us) {
            Some((_, request)) => {
                // This worker was busy until now.
                self.count(now_us, self.serving.len() + 1);
                self.serve(now_us);
                Some(self.served(request, now_us))
            }
            None => self.timed_out(),
        }
    }

    fn served(&mut self, request: Request, now_us: u64) -> Event {
        let place = usize::try_from(request.number.wrapping_sub(self.first)).unwrap_or(usize::MAX);
        if let Some(pending) = self.pending.get_mut(place) {
            *pending = None;
        }
        let in_time = now_us - request.arrived_us <= CLIENT_TIMEOUT_US;
        Event::Served { request, in_time }
    }

    fn timed_out(&mut self) -> Option<Event> {
        let request = self.forget()?;
        let retries = !request.client.is_retry && self.rng.below(100) < RETRY_PERCENT;
        Some(Event::TimedOut { request, retries })
    }

    fn forget(&mut self) -> Option<Request> {
        self.first += 1;
        self.pending.pop_front()?
    }

    /// Gives work to idle workers.
    fn serve(&mut self, now_us: u64) {
        while (self.serving.len() as u64) < WORKERS {
            let Some(request) = self.waiting.pop_front() else { return };
            self.count(now_us, self.serving.len());
            let done_us = now_us + self.service_us();
            let place = self.serving.partition_point(|(other_us, _)| *other_us > done_us);
            self.serving.insert(place, (done_us, request));
        }
    }

    fn service_us(&mut self) -> u64 {
        let crowd = (self.waiting.len() as u64).saturating_sub(WORKERS);
        let factor_ppm = (1_000_000 + crowd * self.speed.growth_ppm).min(SLOWEST_PPM);
        let mean_us = SERVICE_US * self.speed.slowdown * factor_ppm / 1_000_000;
        (self.rng.exponential() * mean_us) >> 32
    }

    fn count(&mut self, now_us: u64, busy: usize) {
        self.busy_us += (now_us - self.counted_us) * busy as u64;
        self.counted_us = now_us;
    }

    /// Busy time of all workers since the last call.
    pub(super) fn take_busy_us(&mut self, now_us: u64) -> u64 {
        self.count(now_us, self.serving.len());
        std::mem::take(&mut self.busy_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Speed = Speed { slowdown: 1, growth_ppm: 0 };
    const NEW: Client = Client { is_retry: false, is_bot: false };

    /// All events until then, with their instants.
    fn events(backend: &mut Backend, until_us: u64) -> Vec<(u64, Event)> {
        let mut events = Vec::new();
        while backend.next_us() <= until_us {
            let now_us = backend.next_us();
            events.extend(backend.step(now_us).map(|event| (now_us, event)));
        }
        events
    }

    fn served(events: &[(u64, Event)]) -> usize {
        events.iter().filter(|(_, event)| matches!(event, Event::Served { .. })).count()
    }

    #[test]
    fn sixteen_workers_serve_four_hundred_a_second() {
        let mut backend = Backend::new(1, CALM);
        (0..40_000).for_each(|_| assert!(backend.take(0, NEW)));
        let served = served(&events(&mut backend, 50_000_000));
        assert!((19_500..20_500).contains(&served), "{served}");
        assert!(backend.take_busy_us(50_000_000) == 16 * 50_000_000, "all of them, all the time");
    }

    #[test]
    fn clients_time_out_after_a_second_and_six_of_ten_retry() {
        let mut backend = Backend::new(1, CALM);
        (0..10_400).for_each(|_| assert!(backend.take(0, NEW)));
        let (mut gone, mut again, mut late) = (0, 0, 0);
        for (now_us, event) in events(&mut backend, 2_000_000) {
            match event {
                Event::TimedOut { retries, .. } => {
                    (gone, again) = (gone + 1, again + i32::from(retries));
                }
                Event::Served { in_time, .. } => {
                    assert_eq!(in_time, now_us <= 1_000_000, "all came at 0");
                    late += i32::from(!in_time);
                }
            }
        }
        assert!(
            (350..450).contains(&late),
            "requests are served after their client has left: {late}"
        );
        assert!((9_900..10_100).contains(&gone), "{gone}");
        assert!((again * 10 - gone * 6).abs() < gone / 5, "{again} of {gone}");
    }

    #[test]
    fn waiting_requests_slow_all_down() {
        let served = |growth_ppm| {
            let mut backend = Backend::new(1, Speed { slowdown: 1, growth_ppm });
            (0..2_000).for_each(|_| assert!(backend.take(0, NEW)));
            self::served(&events(&mut backend, 1_000_000))
        };
        assert!(served(0) > 2 * served(5_000));
    }
}
