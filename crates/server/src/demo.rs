//! What runs without a configuration: a handful of policies that show the range.

use std::sync::Arc;

use tidegate::{BuildError, Engine, EngineBuilder, Every, Limit, Policy, Quota, Store, zone};

/// Policies of one limit, as they would be written in a configuration.
const PLAIN: [(&str, &str); 4] = [
    ("api", "100/min burst 20"),
    ("login", "sliding-log 5/h"),
    ("search", "sliding-window 240/min"),
    ("upload", "token-bucket 10/s capacity 50"),
];

/// The engine of the demo, over a store.
pub(crate) fn engine(store: Arc<dyn Store>) -> Result<Engine, BuildError> {
    let add = |builder: EngineBuilder, (name, limit): (&str, &str)| builder.policy(name, limit);
    PLAIN
        .into_iter()
        .fold(Engine::builder().store(store), add)
        .policy("export", Policy::shaper("2/s max-wait 5s"))
        .policy("monthly", monthly())
        .policy(
            "plan",
            Policy::all().limit("second", "10/s").limit("day", "fixed-window 10000/day"),
        )
        .policy(
            "signup",
            Policy::all().limit_by("ip", "ip", "3/h").limit_by("domain", "email_domain", "50/h"),
        )
        .build()
}

/// A budget for each calendar month of Berlin. A machine without any time zone data counts in UTC.
fn monthly() -> Policy {
    let berlin = zone("Europe/Berlin").unwrap_or(tidegate::Zone::UTC);
    let quota = Quota::calendar(100_000, Every::Month, berlin).map(Limit::Quota);
    quota.map_or_else(|_| Policy::all(), Policy::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_of_the_demo_can_be_built() {
        let engine = engine(Arc::new(tidegate::MemoryStore::default())).unwrap();
        let names: Vec<_> = engine.policies().map(|policy| policy.name().to_owned()).collect();
        let expected = ["api", "export", "login", "monthly", "plan", "search", "signup", "upload"];
        assert_eq!(names, expected);
    }
}
