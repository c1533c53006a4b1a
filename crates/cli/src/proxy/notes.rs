//! What the log of `tidegate proxy` says at the start: the limits in force, and what may surprise.

use std::path::Path;
use std::time::Duration;

use tidegate_config::plan::UrlCap;
use tidegate_core::LimitOrShaper;

use super::limits::UrlLimit;
use super::{OrNone, ProxyArgs};

/// The limits in force, a line each. Without any the server says so itself.
pub(super) fn in_force(
    args: &ProxyArgs,
    documents: Option<&LimitOrShaper>,
    url: Option<UrlLimit>,
) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(limit) = &args.limit {
        lines.push(format!("limit of each client: {limit}, for pages and API calls"));
        lines.push(match &args.asset_limit {
            None => "limit of each client for assets: ten times that".to_owned(),
            Some(OrNone::None) => "limit of each client for assets: none".to_owned(),
            Some(OrNone::Limit(limit)) => format!("limit of each client for assets: {limit}"),
        });
    }
    let each = "limit of each URL, all clients together";
    lines.extend(url.map(|url| match url.cap {
        UrlCap::Units => {
            format!("{each}: {}/min while it is fast, less while it is slow", url.units)
        }
        UrlCap::None { .. } => format!("{each}: no cap while healthy, less while it is slow"),
    }));
    let first_period = documents.and_then(|limit| match limit {
        LimitOrShaper::Limit(limit) => limit.first_period(),
        LimitOrShaper::Shaper(_) => None,
    });
    lines.extend(first_period);
    lines
}

/// Warns if one client alone may send as many requests as a URL has for all of them.
pub(super) fn warning(
    clients: [Option<&LimitOrShaper>; 2],
    url: Option<UrlLimit>,
) -> Option<String> {
    let cap = url.filter(|url| url.cap == UrlCap::Units)?.units;
    let reaches = |client: Option<&LimitOrShaper>| match client {
        None => true,
        Some(LimitOrShaper::Limit(limit)) => {
            let per_minute = u128::from(limit.units()) * Duration::from_mins(1).as_micros();
            per_minute / limit.period().as_micros().max(1) >= u128::from(cap)
        }
        Some(LimitOrShaper::Shaper(_)) => false,
    };
    clients.into_iter().any(reaches).then(|| {
        format!(
            "one client can use up a URL for all others: {cap} requests a minute are for all clients together. Write \
             --limit 240/min without --adaptive-max, or --adaptive-max none"
        )
    })
}

/// A configuration file that looks as if it were in force.
pub(super) fn unread(path: &Path) -> String {
    let path = path.display();
    format!(
        "{path} is not read: `tidegate proxy` takes its limits from the command line alone, also where a policy of the \
         file is called `limit`. `tidegate serve -c {path}` reads it"
    )
}
