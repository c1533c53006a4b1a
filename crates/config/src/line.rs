//! A policy in one line, as the library reads it too: `100/min burst 20`, `sliding-log 5/h`, `concurrency 10`.

use super::text::{Algorithm, Amount, Limit, Span};
use tidegate_core::text::{closest, printable};

const ALGORITHMS: [(&str, Algorithm); 8] = [
    ("gcra", Algorithm::Gcra),
    ("token-bucket", Algorithm::TokenBucket),
    ("leaky-bucket", Algorithm::LeakyBucket),
    ("fixed-window", Algorithm::FixedWindow),
    ("sliding-window", Algorithm::SlidingWindow),
    ("sliding-log", Algorithm::SlidingLog),
    ("quota", Algorithm::Quota),
    ("concurrency", Algorithm::Concurrency),
];

/// The same as a map. `[ALGORITHM] RATE [OPTION VALUE]…`
pub(crate) fn limit(line: &str) -> Result<Limit, String> {
    let mut words = line.split_whitespace().peekable();
    let named = words.next_if(|word| word.starts_with(char::is_alphabetic));
    let algorithm = named.map(algorithm).transpose()?;
    let amount = words.next().ok_or("expected a limit like `100/min burst 20`")?;
    let amount = amount.parse().map_or_else(|_| Amount::Rate(amount.to_owned()), Amount::Count);
    let mut limit = Limit { algorithm, ..Limit::default() };
    if algorithm == Some(Algorithm::TokenBucket) {
        limit.refill = Some(amount);
    } else {
        limit.limit = Some(amount);
    }
    while let Some(option) = words.next() {
        if option == "rolling" {
            limit.rolling = Some(true);
            continue;
        }
        let value = words.next().ok_or_else(|| {
            format!("`{}` does not belong here or lacks its value", printable(option))
        })?;
        match option {
            "burst" => limit.burst = Some(number(option, value)?),
            "capacity" => limit.capacity = Some(number(option, value)?),
            "buckets" => limit.buckets = Some(number(option, value)?),
            "max-wait" => limit.max_wait = Some(Span(value.to_owned())),
            "lease" => limit.ttl = Some(Span(value.to_owned())),
            "at" => limit.utc_offset = Some(value.to_owned()),
            _ => {
                let option = printable(option);
                return Err(format!(
                    "unknown option `{option}`: expected burst, capacity, buckets, max-wait, lease, at or \
                     rolling"
                ));
            }
        }
    }
    Ok(limit)
}

fn algorithm(name: &str) -> Result<Algorithm, String> {
    let found = ALGORITHMS.iter().find(|(known, _)| *known == name);
    found.map(|(_, algorithm)| *algorithm).ok_or_else(|| {
        let (names, name) = (ALGORITHMS.map(|(name, _)| name), printable(name));
        match closest(&name, names.into_iter()) {
            Some(meant) => format!("unknown algorithm `{name}`, did you mean `{meant}`?"),
            None => format!("unknown algorithm `{name}`: expected one of {}", names.join(", ")),
        }
    })
}

fn number(option: &str, value: &str) -> Result<u64, String> {
    let problem = || format!("{option} `{}` is no whole number", printable(value));
    value.parse().map_err(|_| problem())
}
