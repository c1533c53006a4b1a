//! Limits as a store's script reads them: a name and its numbers. The scripts decide as the functions here do, bit for
//! bit, and these are the numbers they need.

use super::Limit;
use crate::algorithm::LimitAlgorithm;
use crate::time::Timestamp;

impl Limit {
    /// Appends the limit as a script reads it, like `window,100,60000000`. Calendar quotas pass the edges of the
    /// periods `around` an instant: the one that holds it and the two after.
    ///
    /// ```
    /// use tidegate_core::{Limit, Timestamp};
    ///
    /// let limit: Limit = "3/s burst 2".parse()?;
    /// let mut text = String::new();
    /// limit.write_script(Timestamp::EPOCH, &mut text);
    /// assert_eq!(text, "gcra,1000000,3,1,2,2000000"); // 1,000,000/3 µs per unit
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn write_script(&self, around: Timestamp, out: &mut String) {
        with_algorithm!(self, limit => limit.write_script(around, out));
    }

    /// Whether [`Limit::write_script`] depends on its instant.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// let calendar: Limit = "quota 1000/month".parse()?;
    /// assert!(calendar.has_edges()); // months differ in length
    /// let window: Limit = "fixed-window 1000/h".parse()?;
    /// assert!(!window.has_edges());
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn has_edges(&self) -> bool {
        with_algorithm!(self, limit => limit.has_edges())
    }

    /// What a check costs a store's script at worst, in checks of a plain limit.
    ///
    /// ```
    /// # use tidegate_core::{Limit, LimitError};
    /// let work = |text: &str| text.parse().map(|limit: Limit| limit.script_work());
    /// assert_eq!(work("100/min")?, 1);
    /// assert_eq!(work("sliding-window 100/s buckets 1000")?, 126); // it reads and writes every slot
    /// assert_eq!(work("sliding-log 100000/h")?, 17); // it looks a run up among all
    /// # Ok::<(), LimitError>(())
    /// ```
    pub fn script_work(&self) -> u64 {
        with_algorithm!(self, limit => limit.script_work())
    }

    /// A letter for the kind of state the limit keeps: limits that share it can read each other's states.
    ///
    /// ```
    /// # use tidegate_core::{Limit, LimitError};
    /// let letter = |text: &str| text.parse().map(|limit: Limit| limit.state_letter());
    /// assert_eq!(letter("5/h")?, letter("token-bucket 9/h")?); // both keep an arrival
    /// assert_ne!(letter("5/h")?, letter("sliding-log 5/h")?);
    /// # Ok::<(), LimitError>(())
    /// ```
    pub fn state_letter(&self) -> char {
        with_algorithm!(self, limit => limit.state_letter())
    }
}
