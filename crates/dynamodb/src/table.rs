//! Makes the table: `tidegate doctor --create`.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TableStatus,
    TimeToLiveSpecification,
};
use tidegate::StoreError;
use tidegate::driver::Finding;
use tokio::time::{Instant, sleep};

use crate::connection::Connection;
use crate::error::{code, failed};
use crate::item::{EXPIRES, KEY};

/// How long a new table may take until it can be used.
const READY_WITHIN: Duration = Duration::from_mins(2);
const POLL_EVERY: Duration = Duration::from_millis(500);

/// How long credentials may take.
pub(crate) const CREDENTIALS_DEADLINE: Duration = Duration::from_secs(25);

/// Makes the table and lets it forget what is expired; what is there already stays as it is.
pub(crate) async fn create(connection: &Connection) -> Result<Vec<Finding>, StoreError> {
    let client = connection.client(Instant::now() + CREDENTIALS_DEADLINE).await?;
    let table = &connection.url.table;
    let made = create_table(&client, table).await?;
    wait_until_active(&client, table).await?;
    let seen = if made {
        format!("made the table `{table}`, billed on demand")
    } else {
        format!("the table `{table}` is there already")
    };
    Ok(vec![Finding::ok("create", seen), expire(&client, table).await])
}

/// Whether it was made: not if it is there.
async fn create_table(client: &Client, table: &str) -> Result<bool, StoreError> {
    let attribute = AttributeDefinition::builder()
        .attribute_name(KEY)
        .attribute_type(ScalarAttributeType::S)
        .build()
        .map_err(|error| invalid(&error))?;
    let key = KeySchemaElement::builder()
        .attribute_name(KEY)
        .key_type(KeyType::Hash)
        .build()
        .map_err(|error| invalid(&error))?;
    let made = client
        .create_table()
        .table_name(table)
        .attribute_definitions(attribute)
        .key_schema(key)
        .billing_mode(BillingMode::PayPerRequest)
        .send()
        .await;
    match made {
        Ok(_) => Ok(true),
        Err(error) if code(&error) == Some("ResourceInUseException") => Ok(false),
        Err(error) => Err(failed(&error)),
    }
}

async fn wait_until_active(client: &Client, table: &str) -> Result<(), StoreError> {
    let due = Instant::now() + READY_WITHIN;
    while Instant::now() < due {
        let described = client.describe_table().table_name(table).send().await;
        let described = described.map_err(|error| failed(&error))?.table;
        if described.is_some_and(|it| it.table_status == Some(TableStatus::Active)) {
            return Ok(());
        }
        sleep(POLL_EVERY).await;
    }
    let why = format!("the table `{table}` is still being made: look again in a minute");
    Err(StoreError::new(tidegate::StoreErrorKind::NotSent, why))
}

/// Lets DynamoDB remove what is expired.
async fn expire(client: &Client, table: &str) -> Finding {
    let specification =
        TimeToLiveSpecification::builder().enabled(true).attribute_name(EXPIRES).build();
    let set = match specification {
        Ok(it) => {
            client
                .update_time_to_live()
                .table_name(table)
                .time_to_live_specification(it)
                .send()
                .await
        }
        Err(error) => return Finding::warning("create", error.to_string()),
    };
    match set {
        Ok(_) => Finding::ok("create", format!("items expire by their attribute `{EXPIRES}`")),
        Err(error) => {
            let why = failed(&error).to_string();
            // As it says if it was so before.
            if why.contains("already enabled") {
                return Finding::ok("create", format!("items expire by `{EXPIRES}` already"));
            }
            Finding::warning("create", format!("items do not expire: {why}"))
                .risk("the table keeps every identifier it has ever counted")
                .remedy(enable_expiry(table))
        }
    }
}

pub(crate) fn enable_expiry(table: &str) -> String {
    format!(
        "aws dynamodb update-time-to-live --table-name {table} \
         --time-to-live-specification Enabled=true,AttributeName={EXPIRES}"
    )
}

fn invalid(error: &dyn std::error::Error) -> StoreError {
    StoreError::new(tidegate::StoreErrorKind::BadRequest, error.to_string())
}
