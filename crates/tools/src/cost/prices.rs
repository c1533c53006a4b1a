//! Instances with prices and capacities: a built-in list, or a file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::money::Cents;
use tidegate_core::text::{closest, printable};

/// A database, its price per month, and the requests per second that it serves.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Instance {
    pub(super) name: String,
    pub(super) monthly: Cents,
    pub(super) rps: u64,
}

/// An entry of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceEntry {
    name: String,
    monthly: f64,
    rps: u64,
}

/// Sorted by capacity.
#[derive(Clone, Debug)]
pub(super) struct Prices(Vec<Instance>);

/// A longer file is a mistake.
const MAX_BYTES: u64 = 1 << 20;

impl Default for Prices {
    fn default() -> Self {
        let list =
            [("4xlarge", 2880, 15_000), ("8xlarge", 5760, 30_000), ("16xlarge", 11_520, 60_000)];
        Self(
            list.map(|(size, dollars, rps)| Instance {
                name: format!("db.r6g.{size}"),
                monthly: Cents(dollars * 100),
                rps,
            })
            .into(),
        )
    }
}

impl Prices {
    /// Reads a list in YAML or JSON.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let mut text = String::new();
        let file = File::open(path).map_err(|error| error.to_string())?;
        file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
        if text.len() as u64 > MAX_BYTES {
            return Err("longer than 1 MiB".to_owned());
        }
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let expected = "expected a list like [{ name: db.r6g.4xlarge, monthly: 2880, rps: 15000 }]";
        let written: Vec<PriceEntry> = serde_saphyr::from_str(text)
            .map_err(|error| format!("{}; {expected}", printable(&error.to_string())))?;
        let mut list: Vec<Instance> = Vec::new();
        for PriceEntry { name, monthly, rps } in written {
            let shown = printable(&name);
            let Some(monthly) = Cents::from_dollars(monthly) else {
                return Err(format!("`{shown}`: monthly: expected dollars from 0 to 1000000000"));
            };
            if rps == 0 || rps > super::MAX_RPS {
                return Err(format!("`{shown}`: rps: expected 1 to {}", super::MAX_RPS));
            }
            if list.iter().any(|other| other.name == name) {
                return Err(format!("`{shown}` is given twice: give it once"));
            }
            list.push(Instance { name, monthly, rps });
        }
        if list.is_empty() {
            return Err(format!("is empty: {expected}"));
        }
        list.sort_by_key(|instance| (instance.rps, instance.monthly));
        Ok(Self(list))
    }

    /// The smallest instance that serves `rps`.
    pub(super) fn smallest_for(&self, rps: u64) -> Option<&Instance> {
        self.0.iter().find(|instance| instance.rps >= rps)
    }

    pub(super) fn largest(&self) -> Option<&Instance> {
        self.0.last()
    }

    pub(super) fn named(&self, name: &str) -> Result<&Instance, String> {
        let names = || self.0.iter().map(|instance| instance.name.as_str());
        self.0.iter().find(|instance| instance.name == name).ok_or_else(|| {
            let known = names().take(20).map(printable).collect::<Vec<_>>().join(", ");
            match closest(name, names()) {
                Some(meant) => format!(
                    "`{}` is not in the price list, did you mean `{}`?",
                    printable(name),
                    printable(meant)
                ),
                None => format!(
                    "`{}` is not in the price list: expected one of {known}",
                    printable(name)
                ),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_yaml_or_json_and_sorted_by_what_instances_hold() {
        let yaml =
            "- { name: big, monthly: 99.5, rps: 20 }\n- { name: small, monthly: 10, rps: 5 }";
        let json =
            r#"[{"name":"big","monthly":99.5,"rps":20},{"name":"small","monthly":10,"rps":5}]"#;
        for text in [yaml, json] {
            let prices = Prices::parse(text).unwrap();
            assert_eq!(prices.smallest_for(5).unwrap().name, "small");
            assert_eq!(prices.smallest_for(6).unwrap().monthly, Cents(9950));
            assert_eq!(prices.smallest_for(21), None);
        }
    }

    #[test]
    fn a_bad_list_says_what_was_expected() {
        for (text, part) in [
            ("[]", "is empty"),
            ("nonsense", "expected a list like"),
            ("- { name: a, monthly: 1 }", "rps"),
            ("- { name: a, monthly: 1, rps: 1, cpu: 4 }", "cpu"),
            ("- { name: a, monthly: -1, rps: 1 }", "`a`: monthly: expected dollars"),
            ("- { name: a, monthly: .nan, rps: 1 }", "`a`: monthly: expected dollars"),
            ("- { name: a, monthly: 1, rps: 0 }", "`a`: rps: expected 1 to"),
            ("- { name: a, monthly: 1, rps: 1 }\n- { name: a, monthly: 2, rps: 2 }", "twice"),
        ] {
            let error = Prices::parse(text).unwrap_err();
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}
