//! How long things take.

use tidegate::{Clock, SystemClock};

/// Does `once` up to `most` times, until the budget is spent. Returns how long each took, sorted; `None` once it fails.
pub(super) async fn time_each(
    most: usize,
    budget_us: u64,
    mut once: impl AsyncFnMut() -> Option<()>,
) -> Option<Vec<u64>> {
    let mut times_us = Vec::with_capacity(most);
    let start_us = SystemClock.steady_us();
    while times_us.len() < most && SystemClock.steady_us() - start_us < budget_us {
        let before_us = SystemClock.steady_us();
        once().await?;
        times_us.push(SystemClock.steady_us() - before_us);
    }
    times_us.sort_unstable();
    Some(times_us)
}
