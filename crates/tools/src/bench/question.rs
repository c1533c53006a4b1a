//! What is asked, before a protocol gives it a form.

use std::time::Duration;

use tidegate::Limit;

/// The same for every request but for its key.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) policy: String,
    pub(super) cost: u32,
    /// A limit that goes along, where the protocol has a way for it.
    pub(super) given: Option<Given>,
    /// What Envoy would ask: its domain, and entries in whose values `{}` is the key.
    pub(super) domain: String,
    pub(super) entries: Vec<(String, String)>,
}

/// A limit in the words of `CL.THROTTLE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Given {
    pub(super) max_burst: u64,
    pub(super) count: u64,
    pub(super) period_s: u64,
}

impl Given {
    /// The error says what would have been one.
    pub(super) fn of(limit: &Limit) -> Result<Self, String> {
        let (Limit::Gcra(gcra) | Limit::TokenBucket(gcra)) = limit else {
            return Err("CL.THROTTLE has one algorithm: expected a limit like \
                        `100/min burst 20`"
                .to_owned());
        };
        if gcra.period().subsec_nanos() != 0 || gcra.period() == Duration::ZERO {
            return Err(
                "CL.THROTTLE counts in whole seconds: expected a limit like 10/s".to_owned()
            );
        }
        let (burst, count) = (gcra.burst(), gcra.limit());
        Ok(Self { max_burst: burst.saturating_sub(1), count, period_s: gcra.period().as_secs() })
    }
}

/// `KEY=VALUE,…`; the error says what is wrong.
pub(super) fn entries(text: &str) -> Result<Vec<(String, String)>, String> {
    let entry = |part: &str| match part.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!(
            "--descriptor: `{}`: expected entries like remote_address={{}} with commas between them",
            tidegate_core::text::printable(part)
        )),
    };
    text.split(',').map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_put_in_the_words_of_the_command() {
        let given = |text: &str| Given::of(&text.parse().unwrap()).ok();
        let of = |max_burst, count, period_s| Some(Given { max_burst, count, period_s });
        assert_eq!(given("100/min burst 20"), of(19, 100, 60));
        assert_eq!(given("1000000/s"), of(999_999, 1_000_000, 1));
        assert_eq!(given("token-bucket 10/s capacity 50"), of(49, 10, 1));
        assert_eq!(given("10/500ms"), None);
        assert_eq!(given("sliding-log 5/h"), None);
    }

    #[test]
    fn entries_have_a_name_each() {
        let two = vec![("a".to_owned(), "1".to_owned()), ("b".to_owned(), "{}=".to_owned())];
        assert_eq!(entries("a=1,b={}="), Ok(two));
        assert!(entries("a").is_err() && entries("a=1,").is_err() && entries("=1").is_err());
    }
}
