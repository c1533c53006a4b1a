//! Which store, and how it is treated.

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate::driver::{StoreDrivers, normalized};
use tidegate::{BreakerOptions, deadline};

use super::amount::{span, span_within};
use super::node::Cursor;
use super::problem::Problem;
use super::secret::{Secret, SecretSource};
use super::text::{self, StoreOptions};

/// A store that can be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreChoice {
    pub url: SecretSource,
    pub deadline: Duration,
    /// None: it is asked however it fails.
    pub breaker: Option<BreakerOptions>,
    /// None: they are counted.
    pub nodes: Option<NonZeroU32>,
}

impl StoreChoice {
    pub fn by_url(url: impl Into<String>) -> Self {
        Self {
            url: SecretSource::Given(Secret(url.into())),
            deadline: deadline::DEFAULT,
            breaker: Some(BreakerOptions::default()),
            nodes: None,
        }
    }

    /// Another place, treated the same.
    #[must_use]
    pub fn at(self, url: String) -> Self {
        Self { url: SecretSource::Given(Secret(url)), ..self }
    }
}

/// Checks the choice of a store; what is wrong is noted.
pub(crate) fn store(
    text: Option<&text::Store>,
    stores: StoreDrivers,
    cursor: &Cursor<'_>,
    problems: &mut Vec<Problem>,
) -> StoreChoice {
    match text {
        None => StoreChoice::by_url("memory:"),
        Some(text::Store::Url(url)) => {
            let checked = cursor.accept(checked(&url.0, stores), problems);
            StoreChoice::by_url(checked.unwrap_or_default())
        }
        Some(text::Store::Map(options)) => with_options(options, stores, cursor, problems),
    }
}

fn with_options(
    options: &StoreOptions,
    stores: StoreDrivers,
    cursor: &Cursor<'_>,
    problems: &mut Vec<Problem>,
) -> StoreChoice {
    let mut choice = StoreChoice::by_url("memory:");
    let (given, file) = (options.url.as_ref(), options.url_file.as_ref());
    match SecretSource::choose("url", given, file, cursor, problems) {
        Some(SecretSource::Given(url)) => {
            let url = cursor.field("url").accept(checked(&url.0, stores), problems);
            choice = choice.at(url.unwrap_or_default());
        }
        Some(file) => choice.url = file,
        None => {}
    }
    if matches!(&choice.url, SecretSource::Given(url) if stores.is_local(&url.0)) {
        let given = [
            ("deadline", options.deadline.is_some()),
            ("breaker", options.breaker.is_some()),
            ("nodes", options.nodes.is_some()),
        ];
        for (field, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
            let message = "goes with a store over the network: memory answers at once and alone";
            problems.push(cursor.field(field).problem(message));
        }
    }
    if let Some(given) = &options.deadline {
        let within = span_within(given, deadline::MIN, deadline::MAX);
        choice.deadline =
            cursor.field("deadline").accept(within, problems).unwrap_or(deadline::DEFAULT);
    }
    choice.breaker = match &options.breaker {
        None | Some(text::Breaker::Switch(true)) => Some(BreakerOptions::default()),
        Some(text::Breaker::Switch(false)) => None,
        Some(text::Breaker::Map(options)) => {
            Some(breaker(options, &cursor.field("breaker"), problems))
        }
    };
    choice.nodes = options.nodes.and_then(NonZeroU32::new);
    choice
}

fn breaker(
    text: &text::BreakerOptions,
    cursor: &Cursor<'_>,
    problems: &mut Vec<Problem>,
) -> BreakerOptions {
    let mut options = BreakerOptions::default();
    let mut time = |field: &str, given: Option<&text::Span>, default| {
        given.and_then(|it| cursor.field(field).accept(span(it), problems)).unwrap_or(default)
    };
    options.slow = time("slow", text.slow.as_ref(), options.slow);
    options.window = time("window", text.window.as_ref(), options.window);
    options.failures = text.failures.unwrap_or(options.failures);
    options.min_calls = text.min_calls.unwrap_or(options.min_calls);
    options.good_probes = text.good_probes.unwrap_or(options.good_probes);
    options
}

/// The URL as stores know it. Nothing of a bad one is repeated: it may hold a password.
fn checked(url: &str, stores: StoreDrivers) -> Result<String, String> {
    stores.check(url).map(|()| normalized(url).to_owned())
}
