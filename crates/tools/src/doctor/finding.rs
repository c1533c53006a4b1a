//! A finding: what was seen, what it risks, and what to do about it.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
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
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Fault => "fault",
        }
    }
}

/// What one check found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    pub(super) check: &'static str,
    /// The server it was found at; empty for the store as a whole.
    pub(super) node: String,
    pub(super) seen: String,
    pub(super) risk: Option<String>,
    /// A command to copy, or a sentence where no command helps.
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn new(severity: Severity, check: &'static str, seen: impl Into<String>) -> Self {
        let seen = seen.into();
        Self { severity, check, node: String::new(), seen, risk: None, remedy: None }
    }

    pub(super) fn ok(check: &'static str, seen: impl Into<String>) -> Self {
        Self::new(Severity::Ok, check, seen)
    }

    pub(super) fn note(check: &'static str, seen: impl Into<String>) -> Self {
        Self::new(Severity::Note, check, seen)
    }

    pub(super) fn warning(check: &'static str, seen: impl Into<String>) -> Self {
        Self::new(Severity::Warning, check, seen)
    }

    pub(super) fn fault(check: &'static str, seen: impl Into<String>) -> Self {
        Self::new(Severity::Fault, check, seen)
    }

    pub(super) fn risk(mut self, risk: impl Into<String>) -> Self {
        self.risk = Some(risk.into());
        self
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    pub(super) fn at(mut self, node: &str) -> Self {
        node.clone_into(&mut self.node);
        self
    }
}
