//! One timer for all deadlines of a node. It may ring early: then the next deadline is looked up.

use std::pin::Pin;

use tokio::time::{Instant, Sleep, sleep_until};

#[derive(Debug, Default)]
pub(super) struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    alarm: Option<Instant>,
}

impl Timer {
    /// When it will ring.
    pub(super) const fn alarm(&self) -> Option<Instant> {
        self.alarm
    }

    /// Sets it if it is not set. In a steady stream of questions that is once in a deadline, not once for each.
    pub(super) fn arm(&mut self, next: impl FnOnce() -> Option<Instant>) {
        if self.alarm.is_none()
            && let Some(due) = next()
        {
            self.set(due);
        }
    }

    /// Sets it so that it rings by then, if there is such a time.
    pub(super) fn arm_by(&mut self, due: Option<Instant>) {
        if let Some(due) = due
            && self.alarm.is_none_or(|alarm| due < alarm)
        {
            self.set(due);
        }
    }

    pub(super) fn disarm(&mut self) {
        self.alarm = None;
    }

    /// Waits for ever if it is not set.
    pub(super) async fn rings(&mut self) {
        match &mut self.sleep {
            Some(sleep) if self.alarm.is_some() => sleep.as_mut().await,
            _ => std::future::pending().await,
        }
        self.alarm = None;
    }

    fn set(&mut self, due: Instant) {
        self.alarm = Some(due);
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(due),
            None => self.sleep = Some(Box::pin(sleep_until(due))),
        }
    }
}
