//! Sends events to all watchers of the dashboard. Each event is encoded once.
//!
//! A watcher first gets the history, then each tick. A watcher that does not read is dropped. Their number is bounded.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hyper::body::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

pub(crate) const WATCHERS_MAX: usize = 64;
pub(crate) const HISTORY_SECONDS: usize = 300;
/// Ticks queued for a watcher, besides the buffers of its connection.
const WAITING_MAX: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Feed(Mutex<FeedState>);

#[derive(Debug, Default)]
struct FeedState {
    history: VecDeque<String>,
    state: String,
    watchers: Vec<mpsc::Sender<Bytes>>,
    is_over: bool,
}

/// There are too many watchers, or the server is not ready or shuts down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WatchRefused;

/// The response body of a watcher.
#[derive(Debug)]
pub(crate) struct EventStream {
    first: Option<Bytes>,
    next: mpsc::Receiver<Bytes>,
}

impl Feed {
    /// Publishes a second as JSON: `tick` is kept in the history, `state` is replaced.
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

    /// Adds a watcher. The snapshot at its start contains `policies`, as JSON.
    pub(crate) fn watch(&self, policies: &str) -> Result<EventStream, WatchRefused> {
        let mut kept = self.lock();
        kept.watchers.retain(|watcher| !watcher.is_closed());
        // Without a first state there is no snapshot.
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

    pub(crate) fn watchers(&self) -> usize {
        self.lock().watchers.iter().filter(|watcher| !watcher.is_closed()).count()
    }

    /// Ends all streams and refuses new ones, because a shutdown waits for open responses.
    pub(crate) fn close(&self) {
        let mut kept = self.lock();
        kept.is_over = true;
        kept.watchers.clear();
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server-sent event. `data` has no line breaks.
fn event(name: &str, data: &str) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

impl EventStream {
    /// What a watcher alone holds: later events are shared.
    pub(crate) fn snapshot_bytes(&self) -> u64 {
        self.first.as_ref().map_or(0, |first| first.len() as u64)
    }
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

    fn feed(seconds: usize) -> Feed {
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
    fn a_watcher_gets_the_history_and_then_each_second_once() {
        let feed = feed(3);
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
    fn five_minutes_are_kept() {
        let feed = feed(HISTORY_SECONDS + 50);
        let (_, snapshot) = next(&mut feed.watch("{}").unwrap()).0.unwrap();
        let history = snapshot["history"].as_array().unwrap();
        assert_eq!((history.len(), &history[0]["t"]), (HISTORY_SECONDS, &Value::from(50)));
    }

    #[test]
    fn a_watcher_that_does_not_read_is_dropped() {
        let feed = feed(1);
        let (mut slow, mut quick) = (feed.watch("{}").unwrap(), feed.watch("{}").unwrap());
        next(&mut quick);
        for t in 0..=WAITING_MAX {
            feed.publish(format!(r#"{{"t":{t}}}"#), "{}".to_owned());
            assert!(next(&mut quick).0.is_some());
        }
        assert_eq!(feed.watchers(), 1);
        // It gets the queued events, then the end.
        for _ in 0..=WAITING_MAX {
            assert!(next(&mut slow).0.is_some());
        }
        assert_eq!(next(&mut slow), (None, false));
    }

    #[test]
    fn watchers_are_bounded() {
        let feed = feed(1);
        let mut all: Vec<_> = (0..WATCHERS_MAX).map(|_| feed.watch("{}").unwrap()).collect();
        assert_eq!(feed.watch("{}").unwrap_err(), WatchRefused);
        all.pop();
        assert!(feed.watch("{}").is_ok());
    }

    #[test]
    fn without_watchers_no_event_is_encoded() {
        let feed = feed(HISTORY_SECONDS);
        assert_eq!(feed.watchers(), 0);
        drop(feed.watch("{}").unwrap());
        feed.publish("{}".to_owned(), "{}".to_owned());
        assert!(feed.lock().watchers.is_empty(), "a dropped watcher is still kept");
    }

    #[test]
    fn a_closed_feed_stays_closed() {
        let feed = feed(1);
        let mut watching = feed.watch("{}").unwrap();
        next(&mut watching);
        feed.close();
        assert_eq!(next(&mut watching), (None, false));
        assert_eq!(feed.watch("{}").unwrap_err(), WatchRefused);
    }
}
