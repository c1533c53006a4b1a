//! Envoy's units of time: periods start at the epoch, a month has 30 days and a year 365.

/// The period of a number of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Unit {
    const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// By its name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
    }

    /// By its number in Envoy's messages.
    pub fn numbered(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| u64::from(unit.number()) == number)
    }

    /// The unit of this length.
    pub fn lasting(seconds: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.seconds() == seconds)
    }

    pub const fn seconds(self) -> u64 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3600,
            Self::Day => 86_400,
            Self::Week => 7 * 86_400,
            Self::Month => 30 * 86_400,
            Self::Year => 365 * 86_400,
        }
    }

    /// Its number in Envoy's messages; the week was added last.
    pub const fn number(self) -> u8 {
        match self {
            Self::Second => 1,
            Self::Minute => 2,
            Self::Hour => 3,
            Self::Day => 4,
            Self::Week => 7,
            Self::Month => 5,
            Self::Year => 6,
        }
    }

    /// Its name in Envoy's messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "SECOND",
            Self::Minute => "MINUTE",
            Self::Hour => "HOUR",
            Self::Day => "DAY",
            Self::Week => "WEEK",
            Self::Month => "MONTH",
            Self::Year => "YEAR",
        }
    }
}
