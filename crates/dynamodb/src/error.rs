//! What an error of DynamoDB means for a decision.

use std::error::Error;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use tidegate::{StoreError, StoreErrorKind};
use tidegate_core::text::printable;

/// The longest text of an error that is passed on: the message about a wrong signature repeats the whole request.
const TEXT_MAX: usize = 200;

/// DynamoDB wants fewer requests: of this table, this partition or this account.
const THROTTLED: [&str; 5] = [
    "ProvisionedThroughputExceededException",
    "ProvisionedThroughputExceeded",
    "ThrottlingException",
    "ThrottlingError",
    "RequestLimitExceeded",
];

/// Who asks is not known, or may not.
const DENIED: [&str; 10] = [
    "AccessDeniedException",
    "AccessDenied",
    "ExpiredTokenException",
    "IncompleteSignatureException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];

/// Another request was changing the item: nothing was written.
const CONFLICTS: [&str; 3] =
    ["TransactionConflictException", "TransactionConflict", "ReplicatedWriteConflictException"];

pub(crate) fn is_throttled(code: &str) -> bool {
    THROTTLED.contains(&code)
}

pub(crate) fn is_conflict(code: &str) -> bool {
    CONFLICTS.contains(&code)
}

/// Whether the server has answered, be it with an error.
pub(crate) fn is_answered<E>(error: &SdkError<E, HttpResponse>) -> bool {
    matches!(error, SdkError::ServiceError(_) | SdkError::ResponseError(_))
}

/// The code of an answer that is an error.
pub(crate) fn code<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> Option<&str> {
    error.as_service_error()?.code()
}

/// The error of a call.
pub(crate) fn failed<E>(error: &SdkError<E, HttpResponse>) -> StoreError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match error {
        SdkError::ServiceError(service) => {
            let (code, status) = (service.err().code().unwrap_or(""), service.raw().status());
            let said = service.err().message().unwrap_or("no message");
            let text = format!("{code} (HTTP {}): {said}", status.as_u16());
            StoreError::new(kind(code, status.as_u16()), short(text.trim_start()))
        }
        SdkError::ConstructionFailure(_) => StoreError::new(StoreErrorKind::Other, chain(error)),
        SdkError::TimeoutError(_) => StoreError::new(StoreErrorKind::Timeout, chain(error)),
        SdkError::DispatchFailure(failure)
            if failure.as_connector_error().is_some_and(|error| is_connect(error)) =>
        {
            StoreError::new(StoreErrorKind::Unreachable, chain(error))
        }
        // The answer broke off, or was none of DynamoDB's.
        _ => StoreError::new(StoreErrorKind::Disconnected, chain(error)),
    }
}

fn kind(code: &str, status: u16) -> StoreErrorKind {
    match code {
        _ if is_throttled(code) => StoreErrorKind::Overloaded,
        _ if DENIED.contains(&code) || [401, 403].contains(&status) => StoreErrorKind::Denied,
        // Of a write that failed inside DynamoDB nobody knows whether it happened.
        _ if status >= 500 => StoreErrorKind::Disconnected,
        _ => StoreErrorKind::Other,
    }
}

pub(crate) fn no_table(table: &str) -> StoreError {
    let why =
        format!("there is no table `{table}`: `tidegate doctor --store URL --create` makes it");
    StoreError::new(StoreErrorKind::Other, why)
}

/// Whether no connection was made: then nothing was sent.
fn is_connect(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    // As deep as errors wrap each other here.
    for _ in 0..16 {
        let Some(error) = next else { return false };
        if error
            .downcast_ref::<hyper_util::client::legacy::Error>()
            .is_some_and(hyper_util::client::legacy::Error::is_connect)
        {
            return true;
        }
        next = error.source();
    }
    false
}

/// What an error and its causes say.
pub(crate) fn chain(error: &dyn Error) -> String {
    let (mut text, mut next) = (error.to_string(), error.source());
    while let Some(cause) = next.filter(|_| text.len() < TEXT_MAX) {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    short(&text)
}

/// The first line, and not too much of it.
fn short(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    printable(&line.chars().take(TEXT_MAX).collect::<String>())
}

#[cfg(test)]
mod tests {
    use tidegate::Ran;

    use super::*;

    #[test]
    fn each_code_says_whether_it_ran_and_whether_the_store_is_broken() {
        for (code, status, expected, ran, is_failure) in [
            ("ProvisionedThroughputExceededException", 400, "overloaded", Ran::No, false),
            ("ThrottlingException", 400, "overloaded", Ran::No, false),
            ("RequestLimitExceeded", 400, "overloaded", Ran::No, false),
            ("AccessDeniedException", 400, "denied", Ran::No, true),
            ("", 403, "denied", Ran::No, true),
            ("InternalServerError", 500, "disconnected", Ran::Unknown, true),
            ("ServiceUnavailable", 503, "disconnected", Ran::Unknown, true),
            ("ValidationException", 400, "other", Ran::No, true),
            ("ResourceNotFoundException", 400, "other", Ran::No, true),
        ] {
            let kind = kind(code, status);
            assert_eq!((kind.as_str(), kind.ran()), (expected, ran), "{code}");
            assert_eq!(kind.is_store_failure(), is_failure, "{code}");
        }
    }

    #[test]
    fn texts_are_one_short_line() {
        let text = short(&format!("first\u{1b}[31m{}\nThe Canonical String …", "x".repeat(500)));
        assert!(text.len() < 260 && !text.contains(['\n', '\u{1b}']), "{text}");
    }
}
