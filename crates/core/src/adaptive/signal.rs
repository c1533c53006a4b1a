//! What is read of a target, and what of it can be believed.

/// What kind of number a signal is, and so which numbers are none.
///
/// ```
/// use tidegate_core::adaptive::Signal;
///
/// assert_eq!(Signal::Number.sanitise(-3.0), Some(-3.0));
/// assert_eq!(Signal::Share.sanitise(-3.0), Some(0.0));
/// assert_eq!(Signal::Millis.sanitise(-3.0), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Signal {
    /// A part of a whole, like a pressure, the use of a processor or a pool, or a ratio of errors: cut to 0..1.
    Share,
    /// A time in milliseconds: never negative.
    Millis,
    /// Any finite number, like the answer to a query.
    Number,
}

impl Signal {
    /// The number, if it is one: NaN, infinities and negative times are missing.
    ///
    /// ```
    /// use tidegate_core::adaptive::Signal;
    ///
    /// assert_eq!(Signal::Share.sanitise(1.7), Some(1.0));
    /// assert_eq!(Signal::Share.sanitise(f64::NAN), None);
    /// assert_eq!(Signal::Millis.sanitise(-3.0), None);
    /// assert_eq!(Signal::Number.sanitise(f64::INFINITY), None);
    /// ```
    pub fn sanitise(self, raw: f64) -> Option<f64> {
        match self {
            _ if !raw.is_finite() => None,
            Self::Share => Some(raw.clamp(0.0, 1.0)),
            Self::Millis => (raw >= 0.0).then_some(raw),
            Self::Number => Some(raw),
        }
    }
}

/// What a source said at one tick.
///
/// ```
/// use tidegate_core::Timestamp;
/// use tidegate_core::adaptive::{Chain, Controller, Reading, Settings};
///
/// let mut controller = Controller::new(Settings::of([Chain::pressure("db")])?, 100)?;
/// let mut step = |reading, second: u64| {
///     controller.step(&[reading], Timestamp::from_micros(second * 1_000_000))
/// };
/// assert_eq!(step(Reading::Value(0.4), 0).limit, 60);
/// assert_eq!(step(Reading::Missing, 1).limit, 60); // no news
/// step(Reading::Failed, 2);
/// step(Reading::Failed, 3);
/// assert!(step(Reading::Failed, 4).limit < 60); // too sick to answer
/// # Ok::<(), tidegate_core::adaptive::AdaptiveError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub enum Reading {
    /// A number, to be sanitised.
    Value(f64),
    /// Nothing: no answer was due, or none came.
    #[default]
    Missing,
    /// The source was asked and is too sick to answer: a timeout, or a 5xx.
    Failed,
}
