//! The configuration of the demo: a few policies that show the range.

use tidegate::driver::StoreDrivers;

use crate::{Config, Problems};

/// An ordinary file.
const FILE: &str = include_str!("demo.yaml");

/// The configuration of the demo.
pub fn config() -> Result<Config, Problems> {
    let no_variables = |_: &str| None;
    Config::parse(FILE, &no_variables, StoreDrivers::MEMORY)
        .map_err(|found| Problems::new("the demo".as_ref(), found))
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
