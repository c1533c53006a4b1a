//! Budgets: how much, for what time, and whose midnight ends it.

use tidegate::{Every, Quota, SlidingWindow, Zone, zone};

use super::amount::{count, duration};
use super::limit::{Wrong, built, required};
use super::text::{self, Amount};
use tidegate_core::text::printable;

pub(super) fn quota(text: &text::Limit) -> Result<Quota, Wrong> {
    let (limit, every) = budget(text)?;
    let rolling = text.rolling.unwrap_or(false);
    let calendar = match every.as_str() {
        "day" => Some(Every::Day),
        "week" => Some(Every::Week),
        "month" => Some(Every::Month),
        _ => None,
    };
    let zone_field = if text.time_zone.is_some() { "time_zone" } else { "utc_offset" };
    let has_zone = text.time_zone.is_some() || text.utc_offset.is_some();
    match calendar {
        Some(_) if text.buckets.is_some() && !rolling => {
            Err(("buckets", "goes with `rolling: true` only".into()))
        }
        Some(every) if !rolling => {
            let zone = zone_of(text)?;
            built("limit", Quota::calendar(limit, every, zone))
        }
        _ if has_zone => Err((
            zone_field,
            "goes with `every: day`, `week` or `month` that is not rolling".to_owned(),
        )),
        _ => {
            let period = calendar.map_or_else(|| duration(&every), |every| Ok(every.nominal()));
            let period = period.map_err(|message| ("every", message))?;
            if rolling {
                let buckets = text.buckets.unwrap_or(SlidingWindow::DEFAULT_BUCKETS);
                built("limit", Quota::rolling(limit, period, buckets))
            } else if text.buckets.is_some() {
                Err(("buckets", "goes with `rolling: true` only".into()))
            } else {
                built("limit", Quota::fixed(limit, period))
            }
        }
    }
}

/// How much, and for what time: `limit: 100000` with `every: month`, or `limit: 100000/month`.
fn budget(text: &text::Limit) -> Result<(u64, String), Wrong> {
    let amount = required("limit", text.limit.as_ref(), "100000")?;
    let wrong = |message| ("limit", message);
    match (amount, &text.every) {
        (_, Some(every)) => Ok((count(amount).map_err(wrong)?, every.trim().to_owned())),
        (Amount::Rate(rate), None) if rate.contains('/') => {
            let (number, every) = rate.split_once('/').unwrap_or_default();
            let number = Amount::Rate(number.to_owned());
            Ok((count(&number).map_err(wrong)?, every.trim().to_owned()))
        }
        _ => Err(("", "`every` is missing: day, week, month or a duration like 90s".into())),
    }
}

fn zone_of(text: &text::Limit) -> Result<Zone, Wrong> {
    match (&text.time_zone, &text.utc_offset) {
        (Some(name), None) => {
            zone(name).map_err(|error| ("time_zone", printable(&error.to_string())))
        }
        (None, Some(offset)) => fixed(offset).map_err(|message| ("utc_offset", message)),
        (None, None) => Ok(Zone::UTC),
        (Some(_), Some(_)) => {
            Err(("utc_offset", "and `time_zone` are both given: give one of them".into()))
        }
    }
}

/// The core reads offsets as part of a quota.
fn fixed(offset: &str) -> Result<Zone, String> {
    let expected = || format!("`{}` is no offset: expected one like \"+02:00\"", printable(offset));
    if offset.contains(char::is_whitespace) {
        return Err(expected());
    }
    let minutes = offset_minutes(offset).ok_or_else(expected)?;
    Zone::fixed(minutes).map_err(|error| error.to_string())
}

/// `+02:00` or `Z` as minutes.
fn offset_minutes(text: &str) -> Option<i64> {
    if text == "Z" || text == "UTC" {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let number = |part: &str| -> Option<i64> {
        let is_plain = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        is_plain.then(|| part.parse().ok()).flatten()
    };
    Some(sign * (number(hours)? * 60 + number(minutes).filter(|minutes| *minutes < 60)?))
}
