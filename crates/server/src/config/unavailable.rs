//! What can be written and cannot take effect yet: refused, so that nobody relies on it.

use super::amount::{rate, span};
use super::node::Spot;
use super::problem::Problem;
use super::text::{self, Policy, Ramp};

const NOT_YET: &str = "is not available in this version: leave it out";

/// Notes every option that would change nothing.
pub(crate) fn refuse(file: &text::File, top: &Spot<'_>, found: &mut Vec<Problem>) {
    for (name, policy) in &file.policies {
        let Policy::Map(options) = policy else { continue };
        let spot = top.of("policies").of(name);
        let mut refuse = |field, is_given: bool| {
            if is_given {
                found.push(spot.of(field).problem(NOT_YET));
            }
        };
        refuse("adaptive", options.adaptive.is_some());
        refuse("priority", options.priority.is_some());
        if let Some(adaptive) = &options.adaptive {
            check_ramp(&adaptive.ramp, &spot.of("adaptive").of("ramp"), found);
        }
    }
}

/// What is refused anyway is still looked at, so that it is right on the day when it is not.
fn check_ramp(ramp: &Ramp, spot: &Spot<'_>, found: &mut Vec<Problem>) {
    let Ramp::Curve(curve) = ramp else { return };
    let min_value = spot.of("min_value").note(span(&curve.min_value), found);
    let max_value = spot.of("max_value").note(span(&curve.max_value), found);
    if let (Some(min), Some(max)) = (min_value, max_value)
        && min >= max
    {
        found.push(spot.of("max_value").problem("has to be above `min_value`"));
    }
    spot.of("max_rate").note(rate(&curve.max_rate), found);
    spot.of("min_rate").note(rate(&curve.min_rate), found);
}
