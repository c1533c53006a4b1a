//! Work that waits for its turn: `cargo run -p tidegate --example shaping`. Takes about three seconds.

use std::time::Duration;

use tidegate::{Clock, Limiter, Shaper, SystemClock, Timestamp};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    shape().await?;
    wait_for_a_limit().await?;
    give_up().await
}

/// Eight exports come at once; a shaper lets four a second out, and sends away whoever would wait too long.
async fn shape() -> Result<(), Box<dyn std::error::Error>> {
    println!("8 exports at once through `4/s max-wait 1s`:");
    let exports = Shaper::new("4/s max-wait 1s")?;
    let start = SystemClock.now();
    let mut tasks = JoinSet::new();
    for export in 1..=8 {
        let exports = exports.clone();
        tasks.spawn(async move {
            let turn = exports.schedule("user-42").await;
            let became = match turn.retry_after() {
                _ if turn.accepted() => "runs".to_owned(),
                Some(wait) => {
                    format!("is refused, come back in {} ms", wait.as_micros().div_ceil(1000))
                }
                None => "will never fit".to_owned(),
            };
            println!("  {} export {export} {became}", since(start));
        });
    }
    while let Some(done) = tasks.join_next().await {
        done?;
    }
    Ok(())
}

/// A limiter refuses; `until_ready` asks again when the limit says so. Nobody is sent away.
async fn wait_for_a_limit() -> Result<(), Box<dyn std::error::Error>> {
    println!("7 mails through `5/s burst 2`, waiting for each:");
    let mails = Limiter::new("5/s burst 2")?;
    let start = SystemClock.now();
    for mail in 1..=7 {
        mails.until_ready("smtp").await?;
        println!("  {} mail {mail} is sent", since(start));
    }
    Ok(())
}

/// A wait that is dropped has spent nothing, so that any timeout can be put around it.
async fn give_up() -> Result<(), Box<dyn std::error::Error>> {
    println!("nobody has to wait for ever:");
    let reports = Limiter::new("1/h")?;
    reports.until_ready("user-42").await?;
    let second =
        tokio::time::timeout(Duration::from_millis(200), reports.until_ready("user-42")).await;
    println!(
        "  the second report of the hour: {}",
        if second.is_err() { "given up" } else { "made" }
    );
    if let Err(never) = reports.until_ready_n("user-42", 2).await {
        println!("  two at once: {never}");
    }
    Ok(())
}

fn since(start: Timestamp) -> String {
    format!("{:>4} ms", SystemClock.now().since(start).as_millis())
}
