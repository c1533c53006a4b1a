//! Records of the store's own: how they are read from an item, and written back.

use std::time::Duration;

use tidegate::store_kit::{OverridesRecord, ReadingsRecord};
use tidegate::{
    Changed, OverrideChange, OverrideTable, ReadingReport, StateUpdate, StoreError, StoreErrorKind,
    TickReadings, Timestamp,
};

use crate::step::Working;

/// How long readings are kept after the last report.
const READINGS_LIFE: Duration = Duration::from_mins(10);

/// Overrides are kept until they are removed.
const FOR_EVER: Duration = Duration::MAX;

pub(crate) fn load_overrides(
    item: &Working,
    known: u64,
    now: Timestamp,
) -> Result<Option<OverrideTable>, StoreError> {
    Ok(overrides(item)?.load(known, now))
}

pub(crate) fn change_override(
    item: &mut Working,
    change: &OverrideChange<'_>,
    bytes_max: usize,
    now: Timestamp,
) -> Result<Changed, StoreError> {
    let mut record = overrides(item)?;
    let changed = record.change(change, now);
    if changed != Changed::Done {
        return Ok(changed);
    }
    let bytes = record.to_bytes();
    if bytes.len() > bytes_max {
        return Ok(Changed::Full);
    }
    item.set_record(bytes, FOR_EVER, now);
    Ok(changed)
}

pub(crate) fn report_reading(
    item: &mut Working,
    report: &ReadingReport<'_>,
    now: Timestamp,
) -> Result<TickReadings, StoreError> {
    let mut record = readings(item)?;
    let answer = record.report(report, now);
    item.set_record(record.to_bytes(), READINGS_LIFE, now);
    Ok(answer)
}

pub(crate) fn keep_state(
    item: &mut Working,
    update: &StateUpdate<'_>,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let mut record = readings(item)?;
    let keeps = !item.record().is_empty() && record.keep(update);
    if keeps {
        item.set_record(record.to_bytes(), READINGS_LIFE, now);
    }
    Ok(keeps)
}

fn overrides(item: &Working) -> Result<OverridesRecord, StoreError> {
    OverridesRecord::from_bytes(item.record()).ok_or_else(foreign)
}

fn readings(item: &Working) -> Result<ReadingsRecord, StoreError> {
    ReadingsRecord::from_bytes(item.record()).ok_or_else(foreign)
}

/// The item holds something else.
pub(crate) fn foreign() -> StoreError {
    StoreError::new(StoreErrorKind::WrongType, "the item holds what tidegate did not write")
}
