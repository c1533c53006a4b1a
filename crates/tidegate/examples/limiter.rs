//! Everything that one limiter does: `cargo run -p tidegate --example limiter`.

use std::thread::sleep;
use std::time::Duration;

use tidegate::{Decision, Limiter};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Five at once, and one more every 200 ms.
    let limiter = Limiter::new("5/s")?;

    println!("six requests at once:");
    for _ in 0..6 {
        say("  user-42", &limiter.check("user-42"));
    }

    println!("after the wait that the refusal named:");
    if let Some(wait) = limiter.peek("user-42", 1).retry_after() {
        sleep(wait);
    }
    say("  user-42", &limiter.check("user-42"));

    println!("a cost above one is all or nothing:");
    say("  upload of 4", &limiter.check_n("user-7", 4));
    say("  upload of 4", &limiter.check_n("user-7", 4));
    say("  upload of 6", &limiter.check_n("user-7", 6)); // no wait would ever be long enough

    println!("the upload failed half way, so half comes back:");
    say("  refund of 2", &limiter.refund("user-7", 2));

    println!("a key with a limit of its own:");
    limiter.set_override("partner-7", "5000/min burst 100")?;
    say("  partner-7", &limiter.check("partner-7"));
    limiter.clear_override("partner-7");

    println!("many keys in one call, in order:");
    let keys = ["ann", "ben", "ann"];
    for (key, decision) in keys.iter().zip(limiter.check_many(&keys)) {
        say(&format!("  {key}"), &decision);
    }

    println!("at most two in flight:");
    let exports = Limiter::new("concurrency 2 lease 30s")?;
    let first = exports.acquire("user-42").permit;
    let second = exports.acquire("user-42").permit;
    println!("  a third: {}", granted(exports.acquire("user-42").permit.is_some()));
    drop(first);
    println!("  one ended, again: {}", granted(exports.acquire("user-42").permit.is_some()));
    drop(second);

    let stats = limiter.store().stats();
    println!("the store holds {} keys in {} KiB", stats.keys, stats.bytes >> 10);
    Ok(())
}

fn say(who: &str, decision: &Decision) {
    let (left, limit) = (decision.remaining(), decision.limit());
    match (decision.allowed(), decision.retry_after()) {
        (true, _) => println!("{who}: allowed, {left} of {limit} left"),
        (false, Some(wait)) => println!("{who}: refused, {left} left, come back in {}", ms(wait)),
        (false, None) => println!("{who}: refused for ever, at most {limit} at once"),
    }
}

fn granted(granted: bool) -> &'static str {
    if granted { "granted" } else { "refused" }
}

fn ms(wait: Duration) -> String {
    format!("{} ms", wait.as_micros().div_ceil(1000))
}
