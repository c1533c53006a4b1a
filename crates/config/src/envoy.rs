//! The configuration of envoyproxy/ratelimit, as its users have it: read, checked, and made into rules that a request
//! is matched with. Every rule that limits is a policy of the engine, named by its path: `edge/tier_gold/api_key`.

mod build;
mod document;
mod error;
mod files;
mod pattern;
mod rules;
mod unit;

use std::path::Path;

pub use self::error::Error;
pub use self::files::below as files_below;
pub use self::rules::{CounterKey, Counts, Domain, Entry, Quantity, Rule, Rules};
pub use self::unit::Unit;

/// Reads every `*.yaml` and `*.yml` file below a folder, or one file. All that is wrong is told at once; nothing is
/// half loaded.
pub fn load(path: &Path) -> Result<Rules, Vec<Error>> {
    let mut building = build::Building::default();
    for file in files::below(path).map_err(|error| vec![error])? {
        match files::read(&file).and_then(|text| document::parse(&file, &text)) {
            Ok(document) => building.add(&file, document),
            Err(error) => building.errors.push(error),
        }
    }
    building.finish()
}
