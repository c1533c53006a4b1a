//! What is protected: sixteen workers, one queue, and clients who do not wait for ever.
//!
//! Whoever has given up is served all the same, as most servers do: this is how a queue that is too long makes
//! all work useless, and why it does not end by itself.

use std::collections::VecDeque;

use crate::chance::Chance;

pub(super) const WORKERS: u64 = 16;
/// The mean of an exponential time: 400 a second for all workers.
const SERVICE_US: u64 = 40_000;
pub(super) const PATIENCE_US: u64 = 1_000_000;
/// Of a hundred who gave up, so many try again, once.
const TRY_AGAIN_PERCENT: u64 = 60;
/// What waits beyond one per worker makes all slower, up to ten times.
const SLOWEST_PPM: u64 = 10_000_000;
/// What a listener holds; who comes then is turned away by the machine itself.
const QUEUE_MAX: usize = 100_000;

/// A request that was admitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) came_us: u64,
    number: u64,
    pub(super) is_bot: bool,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A worker is done with it.
    Served { request: Request, in_time: bool },
    /// Its client has given up. Some try again.
    GivenUp { came_us: u64, tries_again: bool, is_bot: bool },
}

/// Who comes to the plant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visitor {
    pub(super) is_again: bool,
    pub(super) is_bot: bool,
}

/// How fast it works at the moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// How many times slower than usual.
    pub(super) slower: u64,
    /// What each that waits adds, in millionths.
    pub(super) growth_ppm: u64,
}

pub(super) struct Plant {
    chance: Chance,
    pub(super) pace: Pace,
    /// The end of each service, the earliest last.
    serving: Vec<(u64, Request)>,
    waiting: VecDeque<Request>,
    /// Who is waited for, in the order of coming: whether they were served, and whether they came again.
    patience: VecDeque<Patience>,
    first: u64,
    /// Up to when the work was counted, and how much there was since it was asked for.
    counted_us: u64,
    busy_us: u64,
}

#[derive(Clone, Copy, Debug)]
struct Patience {
    came_us: u64,
    visitor: Visitor,
    is_served: bool,
}

impl Plant {
    pub(super) fn new(seed: u64, pace: Pace) -> Self {
        Self {
            chance: Chance::new(seed, 1),
            pace,
            serving: Vec::new(),
            waiting: VecDeque::new(),
            patience: VecDeque::new(),
            first: 0,
            counted_us: 0,
            busy_us: 0,
        }
    }

    /// How many are served or wait.
    pub(super) fn in_flight(&self) -> u64 {
        (self.serving.len() + self.waiting.len()) as u64
    }

    /// Takes a request in, unless the machine itself is full.
    pub(super) fn take(&mut self, now_us: u64, visitor: Visitor) -> bool {
        if self.waiting.len() >= QUEUE_MAX {
            return false;
        }
        let number = self.first + self.patience.len() as u64;
        self.patience.push_back(Patience { came_us: now_us, visitor, is_served: false });
        self.waiting.push_back(Request { came_us: now_us, number, is_bot: visitor.is_bot });
        self.serve(now_us);
        true
    }

    /// When something happens next.
    pub(super) fn next_us(&mut self) -> u64 {
        while self.patience.front().is_some_and(|patience| patience.is_served) {
            self.forget();
        }
        let done_us = self.serving.last().map_or(u64::MAX, |served| served.0);
        done_us.min(self.patience.front().map_or(u64::MAX, |it| it.came_us + PATIENCE_US))
    }

    /// What happens then.
    pub(super) fn happen(&mut self, now_us: u64) -> Option<Event> {
        match self.serving.pop_if(|(done_us, _)| *done_us <= now_us) {
            Some((_, request)) => {
                // One worker more was busy until now.
                self.count(now_us, self.serving.len() + 1);
                self.serve(now_us);
                Some(self.served(request, now_us))
            }
            None => self.given_up(),
        }
    }

    fn served(&mut self, request: Request, now_us: u64) -> Event {
        let place = usize::try_from(request.number.wrapping_sub(self.first)).unwrap_or(usize::MAX);
        if let Some(patience) = self.patience.get_mut(place) {
            patience.is_served = true;
        }
        let in_time = now_us - request.came_us <= PATIENCE_US;
        Event::Served { request, in_time }
    }

    fn given_up(&mut self) -> Option<Event> {
        let Patience { came_us, visitor, .. } = self.forget()?;
        let tries_again = !visitor.is_again && self.chance.below(100) < TRY_AGAIN_PERCENT;
        Some(Event::GivenUp { came_us, tries_again, is_bot: visitor.is_bot })
    }

    fn forget(&mut self) -> Option<Patience> {
        self.first += 1;
        self.patience.pop_front()
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
        let factor_ppm = (1_000_000 + crowd * self.pace.growth_ppm).min(SLOWEST_PPM);
        let mean_us = SERVICE_US * self.pace.slower * factor_ppm / 1_000_000;
        (self.chance.exponential() * mean_us) >> 32
    }

    fn count(&mut self, now_us: u64, busy: usize) {
        self.busy_us += (now_us - self.counted_us) * busy as u64;
        self.counted_us = now_us;
    }

    /// The time that workers were busy since it was last asked for.
    pub(super) fn take_busy_us(&mut self, now_us: u64) -> u64 {
        self.count(now_us, self.serving.len());
        std::mem::take(&mut self.busy_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Pace = Pace { slower: 1, growth_ppm: 0 };
    const NEW: Visitor = Visitor { is_again: false, is_bot: false };

    /// All that happens until then, and when.
    fn events(plant: &mut Plant, until_us: u64) -> Vec<(u64, Event)> {
        let mut events = Vec::new();
        while plant.next_us() <= until_us {
            let now_us = plant.next_us();
            events.extend(plant.happen(now_us).map(|event| (now_us, event)));
        }
        events
    }

    fn served(events: &[(u64, Event)]) -> usize {
        events.iter().filter(|(_, event)| matches!(event, Event::Served { .. })).count()
    }

    #[test]
    fn sixteen_workers_serve_four_hundred_a_second() {
        let mut plant = Plant::new(1, CALM);
        (0..40_000).for_each(|_| assert!(plant.take(0, NEW)));
        let served = served(&events(&mut plant, 50_000_000));
        assert!((19_500..20_500).contains(&served), "{served}");
        assert!(plant.take_busy_us(50_000_000) == 16 * 50_000_000, "all of them, all the time");
    }

    #[test]
    fn who_waits_for_a_second_gives_up_and_six_of_ten_try_again() {
        let mut plant = Plant::new(1, CALM);
        (0..10_400).for_each(|_| assert!(plant.take(0, NEW)));
        let (mut gone, mut again, mut late) = (0, 0, 0);
        for (now_us, event) in events(&mut plant, 2_000_000) {
            match event {
                Event::GivenUp { tries_again, .. } => {
                    (gone, again) = (gone + 1, again + i32::from(tries_again));
                }
                Event::Served { in_time, .. } => {
                    assert_eq!(in_time, now_us <= 1_000_000, "all came at 0");
                    late += i32::from(!in_time);
                }
            }
        }
        assert!((350..450).contains(&late), "who has left is served all the same: {late}");
        assert!((9_900..10_100).contains(&gone), "{gone}");
        assert!((again * 10 - gone * 6).abs() < gone / 5, "{again} of {gone}");
    }

    #[test]
    fn a_crowd_slows_all_down() {
        let served = |growth_ppm| {
            let mut plant = Plant::new(1, Pace { slower: 1, growth_ppm });
            (0..2_000).for_each(|_| assert!(plant.take(0, NEW)));
            self::served(&events(&mut plant, 1_000_000))
        };
        assert!(served(0) > 2 * served(5_000));
    }
}
