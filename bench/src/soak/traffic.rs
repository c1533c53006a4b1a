//! Who asks: a few keys that abuse the service, and many ordinary ones.

use std::time::Duration;

use tidegate_bench::keys::{SplitMix, key};

/// Of ten requests, how many come from abused keys.
const ABUSIVE_TENTHS: u64 = 8;
const ORDINARY_KEYS: u64 = 100_000;
/// Half of them are checked without leases, the other half with them.
pub(crate) const ABUSED_KEYS: usize = 16;

/// The limits: of `strict`, per minute, and of `leased`, per second. Ordinary keys use a thousandth of theirs.
const UNITS: u32 = 100;
const STRICT_BURST: u32 = 20;
const LEASED_BURST: u32 = 100;

pub(crate) fn policies() -> String {
    format!(
        "policies:\n  strict: {{ limit: {UNITS}/min, burst: {STRICT_BURST} }}\n  \
         leased: {{ limit: {UNITS}/s, burst: {LEASED_BURST}, lease: true }}\n"
    )
}

const fn is_strict(abused: usize) -> bool {
    abused < ABUSED_KEYS / 2
}

/// What its limit allows an abused key in a time.
pub(crate) fn allowed_in(abused: usize, time: Duration) -> u64 {
    let (burst, per_s) = if is_strict(abused) {
        (STRICT_BURST, f64::from(UNITS) / 60.0)
    } else {
        (LEASED_BURST, f64::from(UNITS))
    };
    u64::from(burst) + (per_s * time.as_secs_f64()) as u64
}

/// One request: which key is checked under which policy.
pub(crate) struct Ask {
    pub(crate) policy: &'static str,
    pub(crate) key: String,
    /// Which of the abused keys it is.
    pub(crate) abused: Option<usize>,
}

/// The requests of one client, the same in every run.
pub(crate) struct Traffic(SplitMix);

impl Traffic {
    pub(crate) const fn new(client: usize) -> Self {
        Self(SplitMix(client as u64))
    }

    pub(crate) fn ask(&mut self) -> Ask {
        let number = self.0.draw();
        if number % 10 >= ABUSIVE_TENTHS {
            let key = key((number / 10 % ORDINARY_KEYS) as usize);
            return Ask { policy: "leased", key, abused: None };
        }
        let abused = (number / 10 % ABUSED_KEYS as u64) as usize;
        let policy = if is_strict(abused) { "strict" } else { "leased" };
        Ask { policy, key: format!("abuser-{abused:02}"), abused: Some(abused) }
    }
}
