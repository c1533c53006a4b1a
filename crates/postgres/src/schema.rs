//! The tables and functions, made and brought up to date by us.

use tokio_postgres::{Client, Error};

use crate::url::Durability;

/// The version of `schema.sql`: one more with every change.
const VERSION: i32 = 2;

/// Keeps nodes that start together from making the tables at the same time: "tidegate" in ASCII.
const LOCK: i64 = 0x7469_6465_6761_7465;

/// The statements of a table.
#[derive(Clone, Debug)]
pub(crate) struct Statements {
    pub(crate) read: String,
    pub(crate) swap: String,
    pub(crate) write: String,
    pub(crate) sweep: String,
}

impl Statements {
    pub(crate) fn new(durability: Durability) -> Self {
        let items = items(durability);
        Self {
            // The first row is the time.
            read: format!(
                "SELECT NULL::text, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, NULL::bytea \
                 UNION ALL \
                 SELECT item.key, item.version, item.data FROM tidegate.{items} AS item WHERE item.key = ANY ($1)"
            ),
            swap: format!("SELECT tidegate.swap_{items}($1, $2, $3, $4, $5, $6)"),
            write: format!("SELECT tidegate.write_{items}($1, $2, $3, $4, $5, $6, $7)"),
            sweep: format!("SELECT last, removed FROM tidegate.sweep_{items}($1, $2)"),
        }
    }
}

/// The name of the table. One that does not survive a crash is another one, so that two nodes with different settings do
/// not share it by mistake.
pub(crate) const fn items(durability: Durability) -> &'static str {
    match durability {
        Durability::Unlogged => "items_unlogged",
        Durability::Full | Durability::Asynchronous => "items",
    }
}

/// Makes the tables and functions if they are missing or older. Needs the right to create a schema only then.
pub(crate) async fn ensure(client: &Client, durability: Durability) -> Result<(), Error> {
    let items = items(durability);
    if version(client, items).await? >= VERSION {
        return Ok(());
    }
    let unlogged = if durability == Durability::Unlogged { "UNLOGGED" } else { "" };
    let schema =
        include_str!("schema.sql").replace("{unlogged}", unlogged).replace("{items}", items);
    // Several statements in one message are one transaction.
    client
        .batch_execute(&format!(
            "SELECT pg_advisory_xact_lock({LOCK}); {schema} \
             INSERT INTO tidegate.versions (name, version) VALUES ('{items}', {VERSION}) \
             ON CONFLICT (name) DO UPDATE SET version = excluded.version;"
        ))
        .await
}

/// The version that is there; 0 for none.
async fn version(client: &Client, items: &str) -> Result<i32, Error> {
    let exists =
        client.query_one("SELECT to_regclass('tidegate.versions') IS NOT NULL", &[]).await?;
    if !exists.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    let row = client
        .query_opt("SELECT version FROM tidegate.versions WHERE name = $1", &[&items])
        .await?;
    row.map_or(Ok(0), |row| row.try_get(0))
}
