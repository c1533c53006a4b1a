//! `./dev bench limiters`: limiters that people have in front of or in their sites, beside ours, in one run: proxies with
//! a limit per client address, and libraries in memory.
//!
//! A proxy has the first processor; the site and its visitors, one thread of this program, are on the others. Rounds
//! alternate, so that noise affects all alike. Figures are medians, and a ratio is the median of the rounds' ratios.
//! `QUICK=1` only shows that everything works.
//!
//! Caddy is not among the proxies: without a third-party module it has no limiter.

mod contender;
mod embedded;
mod load;
mod proxies;

use std::time::Duration;

use tidegate_bench::report::Report;
use tidegate_bench::{RaisedPriority, is_quick, memory, rerun_off_first_processor, site};
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

fn main() {
    if std::env::args().nth(1).as_deref() != Some("measure") {
        rerun_off_first_processor();
    }
    let (rounds, round) = match is_quick() {
        true => (1, Duration::from_millis(200)),
        false => (7, Duration::from_secs(1)),
    };
    let mut report = Report::new("limiters");
    RaisedPriority::warn();
    embedded::measure(&mut report, rounds, round.as_millis() as u64 / 2);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("its address").port();
        // In the thread of the visitors: beside them, it would wait for the processor while they wait for it.
        tokio::spawn(site::serve(listener));
        proxies::measure(&mut report, port, rounds, round).await;
    });
}
