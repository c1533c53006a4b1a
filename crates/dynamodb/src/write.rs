//! Conditional writes: one item by itself, several in a transaction.
//!
//! A write whose answer was lost is sent once more, with the same version. If the item has that version, the first one
//! happened. If it has another one, nobody knows: the first one may have happened before somebody else's. Only what
//! certainly did not happen is decided again.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    CancellationReason, Delete, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
};
use tidegate::{Ran, StoreError, StoreErrorKind};
use tidegate_cas::{Commit, Update, Written};

use crate::backend::DynamoDbBackend;
use crate::error::{code, failed, is_answered, is_conflict, is_throttled, no_table};
use crate::item::{Attributes, KEY, VERSION, Version, attributes, binary, key_of, version_of};

const ALL_OLD: ReturnValuesOnConditionCheckFailure = ReturnValuesOnConditionCheckFailure::AllOld;

/// One item to write or to remove, and the version that it gets.
struct Write<'a> {
    update: &'a Update<Version>,
    version: Version,
}

/// What an item must be, for its write to happen.
struct Condition {
    text: &'static str,
    name: (&'static str, &'static str),
    value: Option<Version>,
}

/// What DynamoDB said to a write.
enum Answer {
    Done,
    /// The item had changed, or was being changed.
    Changed,
    Failed(StoreError),
}

impl Write<'_> {
    fn condition(&self) -> Condition {
        match self.update.expected {
            None => {
                Condition { text: "attribute_not_exists(#key)", name: ("#key", KEY), value: None }
            }
            Some(version) => Condition {
                text: "#version = :expected",
                name: ("#version", VERSION),
                value: Some(version),
            },
        }
    }

    fn is_removal(&self) -> bool {
        self.update.bytes.is_empty()
    }

    /// Whether the item that was there is the one that this write makes.
    fn made(&self, old: Option<&Attributes>) -> bool {
        !self.is_removal() && old.and_then(version_of) == Some(self.version)
    }

    fn put(&self) -> Attributes {
        attributes(self.update, &self.version)
    }
}

impl DynamoDbBackend {
    /// Writes a commit, and once more if its answer was lost.
    pub(crate) async fn commit(&self, client: &Client, commit: &Commit<Version>) -> Written {
        let writes: Vec<_> = commit
            .updates
            .iter()
            // What was absent and is to be removed needs no write.
            .filter(|update| !update.bytes.is_empty() || update.expected.is_some())
            .map(|update| Write { update, version: self.versions.new_version() })
            .collect();
        let lost = match self.send(client, &writes).await {
            Answer::Done => return Written::Done,
            Answer::Changed => return Written::Changed,
            Answer::Failed(error) if error.kind() != StoreErrorKind::Disconnected => {
                return Written::Failed(error);
            }
            Answer::Failed(error) => error,
        };
        self.connection.counters.retries.add(1);
        match self.send(client, &writes).await {
            Answer::Done => Written::Done,
            Answer::Failed(error) if error.ran() == Ran::Unknown => Written::Failed(error),
            // Of this one it is known that it did not happen; of the one before it is not.
            Answer::Changed | Answer::Failed(_) => Written::Failed(lost),
        }
    }

    async fn send(&self, client: &Client, writes: &[Write<'_>]) -> Answer {
        let _permit = self.room.acquire().await;
        match writes {
            [] => Answer::Done,
            [write] if write.is_removal() => self.delete(client, write).await,
            [write] => self.put(client, write).await,
            several => self.transact(client, several).await,
        }
    }

    async fn put(&self, client: &Client, write: &Write<'_>) -> Answer {
        let Condition { text, name, value } = write.condition();
        let mut call = client
            .put_item()
            .table_name(&self.connection.url.table)
            .set_item(Some(write.put()))
            .condition_expression(text)
            .expression_attribute_names(name.0, name.1)
            .return_values_on_condition_check_failure(ALL_OLD);
        if let Some(value) = value {
            call = call.expression_attribute_values(":expected", binary(&value));
        }
        let Err(error) = call.send().await else { return self.done() };
        self.connection.note(is_answered(&error));
        match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(old)) if write.made(old.item()) => {
                Answer::Done
            }
            Some(PutItemError::ConditionalCheckFailedException(_)) => Answer::Changed,
            _ => self.refused(code(&error), || failed(&error)),
        }
    }

    async fn delete(&self, client: &Client, write: &Write<'_>) -> Answer {
        let Condition { text, name, value } = write.condition();
        let mut call = client
            .delete_item()
            .table_name(&self.connection.url.table)
            .set_key(Some(key_of(&write.update.key)))
            .condition_expression(text)
            .expression_attribute_names(name.0, name.1);
        if let Some(value) = value {
            call = call.expression_attribute_values(":expected", binary(&value));
        }
        let Err(error) = call.send().await else { return self.done() };
        self.connection.note(is_answered(&error));
        match error.as_service_error() {
            Some(DeleteItemError::ConditionalCheckFailedException(_)) => Answer::Changed,
            _ => self.refused(code(&error), || failed(&error)),
        }
    }

    async fn transact(&self, client: &Client, writes: &[Write<'_>]) -> Answer {
        let table = &self.connection.url.table;
        let items = writes.iter().map(|write| transact_item(table, write)).collect();
        let items: Vec<TransactWriteItem> = match items {
            Ok(items) => items,
            Err(error) => return Answer::Failed(error),
        };
        let call = client
            .transact_write_items()
            .set_transact_items(Some(items))
            // With the same token DynamoDB runs it once.
            .client_request_token(token(writes));
        let Err(error) = call.send().await else { return self.done() };
        self.connection.note(is_answered(&error));
        match error.as_service_error() {
            Some(TransactWriteItemsError::TransactionCanceledException(why)) => {
                cancelled(writes, why.cancellation_reasons())
            }
            // The one before is still under way: nobody knows what becomes of it.
            Some(TransactWriteItemsError::TransactionInProgressException(_)) => {
                let why = "the transaction is still under way";
                Answer::Failed(StoreError::new(StoreErrorKind::Disconnected, why))
            }
            _ => self.refused(code(&error), || failed(&error)),
        }
    }

    fn done(&self) -> Answer {
        self.connection.note(true);
        Answer::Done
    }

    fn refused(&self, code: Option<&str>, error: impl FnOnce() -> StoreError) -> Answer {
        match code {
            Some(code) if is_conflict(code) => Answer::Changed,
            Some("ResourceNotFoundException") => {
                Answer::Failed(no_table(&self.connection.url.table))
            }
            _ => Answer::Failed(error()),
        }
    }
}

fn transact_item(table: &str, write: &Write<'_>) -> Result<TransactWriteItem, StoreError> {
    let Condition { text, name, value } = write.condition();
    let value = value.map(|value| [(":expected".to_owned(), binary(&value))].into());
    let names = [(name.0.to_owned(), name.1.to_owned())].into();
    let item = if write.is_removal() {
        let delete = Delete::builder()
            .table_name(table)
            .set_key(Some(key_of(&write.update.key)))
            .condition_expression(text)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(value)
            .build();
        delete.map(|delete| TransactWriteItem::builder().delete(delete).build())
    } else {
        let put = Put::builder()
            .table_name(table)
            .set_item(Some(write.put()))
            .condition_expression(text)
            .set_expression_attribute_names(Some(names))
            .set_expression_attribute_values(value)
            .return_values_on_condition_check_failure(ALL_OLD)
            .build();
        put.map(|put| TransactWriteItem::builder().put(put).build())
    };
    item.map_err(|error| StoreError::new(StoreErrorKind::BadRequest, error.to_string()))
}

/// The name of a transaction, up to 36 characters: the version of its first item.
fn token(writes: &[Write<'_>]) -> String {
    let bytes = writes.first().map_or([0; 16], |write| write.version);
    format!("{:032x}", u128::from_be_bytes(bytes))
}

/// Why a transaction did not happen: for each item its reason, in the order of the items.
fn cancelled(writes: &[Write<'_>], reasons: &[CancellationReason]) -> Answer {
    if writes.iter().zip(reasons).any(|(write, reason)| write.made(reason.item())) {
        return Answer::Done;
    }
    let codes = || reasons.iter().filter_map(CancellationReason::code);
    if let Some(code) = codes().find(|code| is_throttled(code)) {
        return Answer::Failed(StoreError::new(StoreErrorKind::Overloaded, code.to_owned()));
    }
    let is_expected = |code: &str| code == "ConditionalCheckFailed" || is_conflict(code);
    match codes().find(|code| *code != "None" && !is_expected(code)) {
        Some(code) => Answer::Failed(StoreError::new(StoreErrorKind::Other, code.to_owned())),
        None => Answer::Changed,
    }
}
