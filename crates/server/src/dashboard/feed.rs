//! Who watches, and what they are sent: written once, whoever they are.
//!
//! A watcher first gets all that is remembered, then each tick as it comes. One that does not take what it is sent is
//! dropped, and so are those who left; there is room for so many.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

/// How many may watch at once.
pub(crate) const WATCHERS_MAX: usize = 64;
/// How many seconds are remembered.
pub(crate) const HISTORY_SECONDS: usize = 300;
/// How many ticks may wait for a watcher, besides what its connection holds.
const WAITING_MAX: usize = 8;

/// The watchers, and what is remembered for the next.
#[derive(Debug, Default)]
pub(crate) struct Feed(Mutex<FeedState>);

#[derive(Debug, Default)]
struct FeedState {
    history: VecDeque<String>,
    state: String,
    watchers: Vec<mpsc::Sender<Bytes>>,
    is_over: bool,
}

/// There is no room, or nothing to see any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WatchRefused;

/// The answer to a watcher: events until one of both goes.
#[derive(Debug)]
pub(crate) struct EventStream {
    first: Option<Bytes>,
    next: mpsc::Receiver<Bytes>,
}

impl Feed {
    /// Another second, as JSON: what is to be remembered of it, and what is only so now.
    pub(crate) fn publish(&self, tick: String, state: String) {
        let mut kept = self.lock();
        if !kept.watchers.is_empty() {
            let event = event("tick", &format!(r#"{{"tick":{tick},"state":{state}}}"#));
            kept.watchers.retain(|watcher| watcher.try_send(event.clone()).is_ok());
        }
        if kept.history.len() == HISTORY_SECONDS {
            kept.history.pop_front();
        }
        kept.history.push_back(tick);
        kept.state = state;
    }

    /// A place for another watcher, who is told these policies, as JSON, at the beginning.
    pub(crate) fn watch(&self, policies: &str) -> Result<EventStream, WatchRefused> {
        let mut kept = self.lock();
        kept.watchers.retain(|watcher| !watcher.is_closed());
        // Before the first second is over there is nothing to begin with.
        if kept.watchers.len() == WATCHERS_MAX || kept.is_over || kept.state.is_empty() {
            return Err(WatchRefused);
        }
        let (sender, next) = mpsc::channel(WAITING_MAX);
        kept.watchers.push(sender);
        let history: Vec<_> = kept.history.iter().map(String::as_str).collect();
        let history = history.join(",");
        let state = &kept.state;
        let snapshot =
            format!(r#"{{"history":[{history}],"policies":{policies},"state":{state}}}"#);
        Ok(EventStream { first: Some(event("snapshot", &snapshot)), next })
    }

    /// How many watch.
    pub(crate) fn watchers(&self) -> usize {
        self.lock().watchers.iter().filter(|watcher| !watcher.is_closed()).count()
    }

    /// Lets everybody go, and nobody in: a server that ends waits for its answers.
    pub(crate) fn close(&self) {
        let mut kept = self.lock();
        kept.is_over = true;
        kept.watchers.clear();
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An event, as a browser reads it. JSON has no line breaks of its own.
fn event(name: &str, data: &str) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        self.next.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use serde_json::Value;

    use super::*;

    fn fed(seconds: usize) -> Feed {
        let feed = Feed::default();
        (0..seconds).for_each(|t| feed.publish(format!(r#"{{"t":{t}}}"#), r#"{"a":1}"#.to_owned()));
        feed
    }

    /// The next event, if there is one, and whether more may come.
    fn next(watching: &mut EventStream) -> (Option<(String, Value)>, bool) {
        match Pin::new(watching).poll_frame(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => (None, true),
            Poll::Ready(None) => (None, false),
            Poll::Ready(Some(frame)) => {
                let text = frame.unwrap().into_data().unwrap();
                let text = std::str::from_utf8(&text).unwrap();
                let (name, data) = text.strip_prefix("event: ").unwrap().split_once('\n').unwrap();
                let data = data.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap();
                (Some((name.to_owned(), serde_json::from_str(data).unwrap())), true)
            }
        }
    }

    #[test]
    fn whoever_comes_sees_what_was_and_then_each_second_once() {
        let feed = fed(3);
        let mut watching = feed.watch("{}").unwrap();
        let (name, snapshot) = next(&mut watching).0.unwrap();
        assert_eq!(name, "snapshot");
        assert_eq!(snapshot["policies"], serde_json::json!({}));
        assert_eq!(snapshot["history"], serde_json::json!([{"t": 0}, {"t": 1}, {"t": 2}]));
        assert_eq!(next(&mut watching), (None, true));
        feed.publish(r#"{"t":3}"#.to_owned(), "{}".to_owned());
        let (name, tick) = next(&mut watching).0.unwrap();
        assert_eq!((name.as_str(), &tick["tick"]["t"]), ("tick", &Value::from(3)));
        assert_eq!(next(&mut watching), (None, true));
    }

    #[test]
    fn five_minutes_are_remembered_and_no_more() {
        let feed = fed(HISTORY_SECONDS + 50);
        let (_, snapshot) = next(&mut feed.watch("{}").unwrap()).0.unwrap();
        let history = snapshot["history"].as_array().unwrap();
        assert_eq!((history.len(), &history[0]["t"]), (HISTORY_SECONDS, &Value::from(50)));
    }

    #[test]
    fn who_takes_nothing_is_dropped_and_the_others_are_not() {
        let feed = fed(1);
        let (mut slow, mut quick) = (feed.watch("{}").unwrap(), feed.watch("{}").unwrap());
        next(&mut quick);
        for t in 0..=WAITING_MAX {
            feed.publish(format!(r#"{{"t":{t}}}"#), "{}".to_owned());
            assert!(next(&mut quick).0.is_some());
        }
        assert_eq!(feed.watchers(), 1);
        // It gets what waited for it, and then the end.
        for _ in 0..=WAITING_MAX {
            assert!(next(&mut slow).0.is_some());
        }
        assert_eq!(next(&mut slow), (None, false));
    }

    #[test]
    fn places_are_bounded_and_come_back() {
        let feed = fed(1);
        let mut all: Vec<_> = (0..WATCHERS_MAX).map(|_| feed.watch("{}").unwrap()).collect();
        assert_eq!(feed.watch("{}").unwrap_err(), WatchRefused);
        all.pop();
        assert!(feed.watch("{}").is_ok());
    }

    #[test]
    fn nothing_is_written_for_nobody() {
        let feed = fed(HISTORY_SECONDS);
        assert_eq!(feed.watchers(), 0);
        drop(feed.watch("{}").unwrap());
        feed.publish("{}".to_owned(), "{}".to_owned());
        assert!(feed.lock().watchers.is_empty(), "who left is forgotten");
    }

    #[test]
    fn the_end_is_the_end() {
        let feed = fed(1);
        let mut watching = feed.watch("{}").unwrap();
        next(&mut watching);
        feed.close();
        assert_eq!(next(&mut watching), (None, false));
        assert_eq!(feed.watch("{}").unwrap_err(), WatchRefused);
    }
}
