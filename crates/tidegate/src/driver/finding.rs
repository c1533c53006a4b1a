//! What an examination of a store finds: what was seen, what it risks, and what to do about it.

/// How bad a [`Finding`] is.
///
/// ```
/// use tidegate::driver::Severity;
///
/// assert!(Severity::Fault > Severity::Warning);
/// assert_eq!(Severity::Note.as_str(), "note");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Good to know.
    Note,
    /// It works, and one day it may not.
    Warning,
    /// It does not work, or is about to stop.
    Fault,
}

impl Severity {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Fault => "fault",
        }
    }
}

/// What one check of a store found.
///
/// ```
/// use tidegate::driver::{Finding, Severity};
///
/// let finding = Finding::warning("maxmemory", "not set").risk("it grows").remedy("set it").at("h:1");
/// assert_eq!((finding.severity, finding.node.as_str()), (Severity::Warning, "h:1"));
/// assert_eq!((finding.check, finding.seen.as_str()), ("maxmemory", "not set"));
/// assert_eq!(Finding::ok("reach", "it answers"), Finding::new(Severity::Ok, "reach", "it answers"));
/// assert!(Finding::note("a", "b").severity < Finding::fault("a", "b").severity);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The name of the check.
    pub check: &'static str,
    /// The server it was found at; empty for the store as a whole.
    pub node: String,
    /// What was seen.
    pub seen: String,
    /// What may come of it.
    pub risk: Option<String>,
    /// A command to copy, or a sentence where no command helps.
    pub remedy: Option<String>,
}

impl Finding {
    /// A finding.
    pub fn new(severity: Severity, check: &'static str, seen: impl Into<String>) -> Self {
        let seen = seen.into();
        Self { severity, check, node: String::new(), seen, risk: None, remedy: None }
    }

    /// It is as it should be.
    pub fn ok(check: &'static str, seen: impl Into<String>) -> Self {
        Self::new(Severity::Ok, check, seen)
    }

    /// It is good to know.
    pub fn note(check: &'static str, seen: impl Into<String>) -> Self {
        Self::new(Severity::Note, check, seen)
    }

    /// It works, and one day it may not.
    pub fn warning(check: &'static str, seen: impl Into<String>) -> Self {
        Self::new(Severity::Warning, check, seen)
    }

    /// It does not work, or is about to stop.
    pub fn fault(check: &'static str, seen: impl Into<String>) -> Self {
        Self::new(Severity::Fault, check, seen)
    }

    /// With what may come of it.
    #[must_use]
    pub fn risk(mut self, risk: impl Into<String>) -> Self {
        self.risk = Some(risk.into());
        self
    }

    /// With what to do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Found at one server.
    #[must_use]
    pub fn at(mut self, node: &str) -> Self {
        node.clone_into(&mut self.node);
        self
    }
}
