//! What runs without a configuration: a handful of policies that show the range.

use crate::config::{Config, Problems};

/// As anybody could write it.
const FILE: &str = include_str!("demo.yaml");

/// The configuration of the demo.
pub(crate) fn config() -> Result<Config, Problems> {
    let no_variables = |_: &str| None;
    Config::parse(FILE, &no_variables).map_err(|found| Problems::new("the demo".as_ref(), found))
}

/// The demo in memory, for tests of what asks it.
#[cfg(test)]
pub(crate) fn draft() -> crate::service::Draft {
    let builder = tidegate::Engine::builder();
    crate::service::Draft::build(&config().unwrap(), builder, std::sync::Arc::default(), None)
        .unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_of_the_demo_can_be_built() {
        let names: Vec<_> = config().unwrap().policies.into_keys().collect();
        let expected =
            ["api", "export", "login", "monthly", "plan", "report", "search", "signup", "upload"];
        assert_eq!(names, expected);
    }
}
