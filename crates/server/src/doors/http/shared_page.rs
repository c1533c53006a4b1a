//! A page that is rendered once for all who ask at the same moment.
//!
//! Pages of thousands of policies have megabytes. Whoever waited while another one was rendered gets the next one, which
//! was begun after all of them had asked: nobody gets an old page.

use hyper::body::Bytes;
use tidegate::{Clock, SystemClock};
use tokio::sync::Mutex;

#[derive(Debug, Default)]
pub(super) struct SharedPage(Mutex<Rendered>);

/// The last page, and when its rendering began, on the steady clock.
#[derive(Debug, Default)]
struct Rendered {
    began_us: u64,
    page: Bytes,
}

impl SharedPage {
    pub(super) async fn get(&self, render: impl FnOnce() -> String) -> Bytes {
        self.get_at(SystemClock.steady_us(), || SystemClock.steady_us(), render).await
    }

    async fn get_at(
        &self,
        asked_us: u64,
        now_us: impl FnOnce() -> u64,
        render: impl FnOnce() -> String,
    ) -> Bytes {
        let mut last = self.0.lock().await;
        if last.began_us <= asked_us {
            *last = Rendered { began_us: now_us(), page: render().into() };
        }
        last.page.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_asked_before_the_rendering_began_shares_it() {
        let page = SharedPage::default();
        let get = async |asked_us, now_us, text: &str| {
            page.get_at(asked_us, || now_us, || text.to_owned()).await
        };
        assert_eq!(get(10, 10, "first").await, "first");
        assert_eq!(get(10, 20, "second").await, "second", "the first may lack what it did before");
        assert_eq!(get(11, 30, "third").await, "second");
        assert_eq!(get(19, 30, "third").await, "second");
        assert_eq!(get(20, 30, "third").await, "third");
    }
}
