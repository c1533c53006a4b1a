//! What can be wrong with a table: `tidegate doctor`.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    BillingMode, KeyType, ScalarAttributeType, TableDescription, TableStatus,
    TimeToLiveDescription, TimeToLiveStatus,
};
use tidegate::driver::Finding;
use tidegate::{StoreError, StoreErrorKind};
use tokio::time::Instant;

use crate::backend::consistent;
use crate::connection::Connection;
use crate::error::{code, failed};
use crate::item::{EXPIRES, KEY, key_of};
use crate::table::{CREDENTIALS_DEADLINE, enable_expiry};

/// How many reads are timed; the first also opens the connection.
const READS: usize = 11;

/// What `store.deadline` is unless it is set.
const DEADLINE: Duration = tidegate::deadline::DEFAULT;

/// What is read of a table; the checks are pure functions of it.
#[derive(Clone, PartialEq, Debug)]
struct Facts {
    table: String,
    is_active: bool,
    /// Attribute and whether it is the partition key and text, of each part of the key.
    keys: Vec<(String, bool)>,
    /// `None`: on demand. Otherwise units for reads and for writes.
    provisioned: Option<(i64, i64)>,
    /// The attribute by which items expire, if they do; an error if it may not be asked.
    expires_by: Result<Option<String>, String>,
    /// From the fastest to the slowest.
    reads: Vec<Duration>,
}

/// Asks, and looks.
pub(crate) async fn examine(connection: &Connection) -> Result<Vec<Finding>, StoreError> {
    let table = &connection.url.table;
    let client = match connection.client(Instant::now() + CREDENTIALS_DEADLINE).await {
        Ok(client) => client,
        Err(error) => return Ok(vec![no_credentials(&error)]),
    };
    let mut findings = vec![Finding::ok("credentials", "there are some")];
    let described = match client.describe_table().table_name(table).send().await {
        Ok(answer) => answer.table,
        Err(error) if code(&error) == Some("ResourceNotFoundException") => {
            findings.push(no_table(table));
            return Ok(findings);
        }
        Err(error) => match failed(&error) {
            error if error.kind() == StoreErrorKind::Denied => {
                findings.push(not_permitted("table", "dynamodb:DescribeTable", &error));
                None
            }
            error => return Err(error),
        },
    };
    let Some(described) = described else { return Ok(findings) };
    let facts = facts(&client, table, &described).await?;
    findings.extend(checks(&facts));
    Ok(findings)
}

async fn facts(
    client: &Client,
    table: &str,
    described: &TableDescription,
) -> Result<Facts, StoreError> {
    let is_text = |name: &str| {
        described
            .attribute_definitions()
            .iter()
            .any(|it| it.attribute_name() == name && *it.attribute_type() == ScalarAttributeType::S)
    };
    let key = |it: &aws_sdk_dynamodb::types::KeySchemaElement| {
        let name = it.attribute_name();
        (name.to_owned(), *it.key_type() == KeyType::Hash && is_text(name))
    };
    let mode = described.billing_mode_summary().and_then(|billing| billing.billing_mode());
    let units = described.provisioned_throughput();
    let units =
        units.map(|it| (it.read_capacity_units(), it.write_capacity_units())).unwrap_or_default();
    let units = (units.0.unwrap_or(0), units.1.unwrap_or(0));
    Ok(Facts {
        table: table.to_owned(),
        is_active: described.table_status == Some(TableStatus::Active),
        keys: described.key_schema().iter().map(key).collect(),
        provisioned: (mode != Some(&BillingMode::PayPerRequest)).then_some(units),
        expires_by: expires_by(client, table).await,
        reads: time_reads(client, table).await?,
    })
}

async fn expires_by(client: &Client, table: &str) -> Result<Option<String>, String> {
    let answer = client.describe_time_to_live().table_name(table).send().await;
    let answer = answer.map_err(|error| failed(&error).to_string())?.time_to_live_description;
    let is_on = |it: &TimeToLiveDescription| {
        let on = [TimeToLiveStatus::Enabled, TimeToLiveStatus::Enabling];
        it.time_to_live_status().is_some_and(|status| on.contains(status))
    };
    Ok(answer.filter(is_on).and_then(|it| it.attribute_name))
}

async fn time_reads(client: &Client, table: &str) -> Result<Vec<Duration>, StoreError> {
    let mut reads = Vec::with_capacity(READS);
    for _ in 0..READS {
        let began = Instant::now();
        let keys = consistent([key_of("tidegate:doctor")].into_iter())?;
        let read = client.batch_get_item().request_items(table, keys).send().await;
        read.map_err(|error| failed(&error))?;
        reads.push(began.elapsed());
    }
    // The first opened the connection.
    reads.remove(0);
    reads.sort_unstable();
    Ok(reads)
}

fn checks(facts: &Facts) -> Vec<Finding> {
    vec![table(facts), key(facts), expiry(facts), billing(facts), latency(facts)]
}

fn no_credentials(error: &StoreError) -> Finding {
    Finding::fault("credentials", error.to_string())
        .risk("every policy decides by on_store_error")
        .remedy("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine, task or pod a role")
}

fn no_table(table: &str) -> Finding {
    Finding::fault("table", format!("there is no table `{table}` in this region"))
        .risk("every policy decides by on_store_error")
        .remedy("tidegate doctor --store URL --create")
}

fn not_permitted(check: &'static str, action: &str, error: &StoreError) -> Finding {
    Finding::note(check, format!("not permitted to look: {error}"))
        .risk("what it would have told was not checked; limits do not need it")
        .remedy(format!("allow {action}, or run the doctor as somebody who may"))
}

fn table(facts: &Facts) -> Finding {
    if facts.is_active {
        return Finding::ok("table", format!("`{}` is active", facts.table));
    }
    Finding::warning("table", format!("`{}` is not active", facts.table))
        .risk("calls fail until it is")
        .remedy(format!("aws dynamodb wait table-exists --table-name {}", facts.table))
}

fn key(facts: &Facts) -> Finding {
    if facts.keys == [(KEY.to_owned(), true)] {
        return Finding::ok("key", format!("`{KEY}`, text"));
    }
    let names: Vec<_> = facts.keys.iter().map(|(name, _)| name.as_str()).collect();
    Finding::fault("key", format!("the table's key is {}", names.join(", ")))
        .risk("every read and write fails")
        .remedy(format!("name a table whose only key is `{KEY}`, text: --create makes one"))
}

fn expiry(facts: &Facts) -> Finding {
    let seen = match &facts.expires_by {
        Ok(Some(name)) if name == EXPIRES => {
            return Finding::ok("expiry", format!("items expire by `{EXPIRES}`"));
        }
        Ok(Some(other)) => format!("items expire by `{other}`, not by `{EXPIRES}`"),
        Ok(None) => "items do not expire".to_owned(),
        Err(why) => {
            let error = StoreError::new(StoreErrorKind::Denied, why.clone());
            return not_permitted("expiry", "dynamodb:DescribeTimeToLive", &error);
        }
    };
    Finding::warning("expiry", seen)
        .risk("the table keeps every identifier it has ever counted, and you pay for it")
        .remedy(enable_expiry(&facts.table))
}

fn billing(facts: &Facts) -> Finding {
    match facts.provisioned {
        None => Finding::ok("billing", "on demand"),
        Some((reads, writes)) => {
            let seen = format!("provisioned: {reads} reads and {writes} writes a second");
            Finding::note("billing", seen)
                .risk("checks beyond that are throttled, and decided by on_store_error")
                .remedy(format!(
                    "aws dynamodb update-table --table-name {} --billing-mode PAY_PER_REQUEST",
                    facts.table
                ))
        }
    }
}

/// A check takes a read and a write.
fn latency(facts: &Facts) -> Finding {
    let median = facts.reads.get(facts.reads.len() / 2).copied().unwrap_or_default();
    let slowest = facts.reads.last().copied().unwrap_or_default();
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    let seen = format!("a read takes {}, at most {}", ms(median), ms(slowest));
    if slowest * 2 < DEADLINE {
        return Finding::ok("latency", seen);
    }
    let enough = (slowest * 4).as_millis().div_ceil(50) * 50;
    Finding::note("latency", seen)
        .risk(
            "a check is a read and a write: with the default deadline of 20 ms some come too late",
        )
        .remedy(format!("store: {{ deadline: {enough}ms }}"))
}

#[cfg(test)]
mod tests {
    use tidegate::driver::Severity;

    use super::*;

    fn healthy() -> Facts {
        Facts {
            table: "tidegate".to_owned(),
            is_active: true,
            keys: vec![(KEY.to_owned(), true)],
            provisioned: None,
            expires_by: Ok(Some(EXPIRES.to_owned())),
            reads: vec![Duration::from_millis(3); 10],
        }
    }

    #[test]
    fn each_fault_is_found_and_nothing_else() {
        type Break = fn(&mut Facts);
        let rows: [(&str, Break); 9] = [
            ("table", |facts| facts.is_active = false),
            ("key", |facts| facts.keys[0].1 = false),
            ("key", |facts| facts.keys[0].0 = "id".to_owned()),
            ("key", |facts| facts.keys.push(("range".to_owned(), false))),
            ("expiry", |facts| facts.expires_by = Ok(None)),
            ("expiry", |facts| facts.expires_by = Ok(Some("ttl".to_owned()))),
            ("expiry", |facts| facts.expires_by = Err("AccessDenied".to_owned())),
            ("billing", |facts| facts.provisioned = Some((5, 5))),
            ("latency", |facts| facts.reads.push(Duration::from_millis(12))),
        ];
        let found = |facts: &Facts| -> Vec<&str> {
            let found = checks(facts);
            let bad = |finding: &&Finding| finding.severity != Severity::Ok;
            assert!(found.iter().filter(bad).all(|it| it.risk.is_some() && it.remedy.is_some()));
            found.iter().filter(bad).map(|finding| finding.check).collect()
        };
        assert_eq!(found(&healthy()), [""; 0]);
        for (check, break_it) in rows {
            let mut facts = healthy();
            break_it(&mut facts);
            assert_eq!(found(&facts), [check]);
        }
    }
}
