//! `POST /v1/check` over HTTP/1.1, without a framework.
//!
//! Nearly all requests of nearly all connections are this one, whole in one read, and it costs hyper more than its
//! decision costs us. A connection is served here for as long as that is what it sends. With the first request that is
//! anything else, or in any way unusual, it is hyper's to its end: nothing here is ever an error, and whoever wants to
//! know how a strange request is treated need not look here.

mod date;
mod request;
mod response;

use std::pin::pin;

use tidegate::{Answer, Op};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep};

use self::request::check_of;
use self::response::Out;
use super::connection::HttpBounds;
use super::decide_on;
use crate::gate::Gate;
use crate::listen::Stream;
use crate::server::Ending;

/// What is read at once: a check has about two hundred bytes, and a larger one is no less welcome at hyper's.
const INPUT_BYTES: usize = 4 << 10;
/// When answers to requests that came together are sent, though more are to come.
const OUT_BYTES_MAX: usize = 16 << 10;

/// Answers checks. What was read and is none is left for hyper; nothing, if the connection has ended.
pub(super) async fn serve(
    stream: &mut Stream,
    gate: &Gate,
    ending: &Ending,
    bounds: HttpBounds,
) -> Option<Vec<u8>> {
    let (mut input, mut out) = (Vec::with_capacity(INPUT_BYTES), Out::default());
    let mut farewell = pin!(ending.farewell());
    // Who says nothing has no more time than a head; who has asked before is waited for longer. One timer for all
    // requests: it is looked at only when it rings.
    let mut alarm = pin!(sleep(bounds.head_timeout));
    let mut has_asked = false;
    loop {
        tokio::select! {
            biased;
            read = stream.read_buf(&mut input) => {
                read.ok().filter(|count| *count > 0)?;
                // Hyper knows how to say goodbye.
                if ending.is_farewell() {
                    return Some(input);
                }
            }
            () = &mut farewell => return Some(input),
            () = &mut alarm => {
                if !has_asked {
                    return None;
                }
                has_asked = false;
                alarm.as_mut().reset(Instant::now() + bounds.idle_timeout);
                continue;
            }
        }
        let mut used = 0;
        while let Some(check) = check_of(&input[used..]) {
            let tell = |answer: &Answer<'_>, dialect, now| out.decision(answer, dialect, now);
            if let Err(problem) = decide_on(gate, check.body, Op::Take, tell).await {
                out.response(&problem.whole());
            }
            used += check.length;
            if out.bytes.len() > OUT_BYTES_MAX {
                stream.send(&out.bytes, bounds.write_timeout).await.ok()?;
                out.bytes.clear();
            }
        }
        stream.send(&out.bytes, bounds.write_timeout).await.ok()?;
        out.bytes.clear();
        if used < input.len() {
            return Some(input.split_off(used));
        }
        input.clear();
        has_asked = true;
    }
}

#[cfg(test)]
mod tests;
