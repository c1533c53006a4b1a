//! The first words on a connection: who we are, whether the server will do, and the script.

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisResult, Value, cmd};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::link::{Link, lost, said};
use super::place::{Access, Place};
use super::script;
use tidegate::{Ran, StoreError, StoreErrorKind};

/// A connection that is not ready by then is given up. Redis accepts one at once even while it hangs.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Where sentinels say that there is another primary.
const SWITCH_CHANNEL: &str = "+switch-master";

impl Link {
    /// A connection that can be used. `as_primary` asks the server whether it is one.
    pub(super) async fn open(
        place: &Place,
        access: &Access,
        as_primary: bool,
    ) -> Result<Self, StoreError> {
        let open = async {
            let mut link = Self::connect(place, access, None).await?;
            match link.greet(access, as_primary).await {
                Ok(()) => Ok(link),
                // Nobody's question was in it.
                Err(error) if error.ran() == Ran::Unknown => {
                    Err(StoreError::new(StoreErrorKind::Unreachable, format!("{place}: {error}")))
                }
                Err(error) => Err(error),
            }
        };
        let late = format!("{place}: no connection within {CONNECT_TIMEOUT:?}");
        let late = || Err(StoreError::new(StoreErrorKind::Unreachable, late));
        timeout(CONNECT_TIMEOUT, open).await.unwrap_or_else(|_| late())
    }

    /// A connection to a sentinel, which says unasked when the primary changes.
    pub(super) async fn listen(
        place: &Place,
        access: &Access,
        heard: Arc<Notify>,
    ) -> Result<Self, StoreError> {
        let mut link = Self::connect(place, access, Some(heard)).await?;
        let subscribed = link.subscribe(SWITCH_CHANNEL);
        link.value_of(subscribed).await?;
        Ok(link)
    }

    /// A connection that is good for questions about the servers only.
    pub(super) async fn enter(place: &Place, access: &Access) -> Result<Self, StoreError> {
        let mut link = Self::connect(place, access, None).await?;
        if let Some(login) = &access.login {
            let login = link.start(login.command());
            link.value_of(login).await?;
        }
        Ok(link)
    }

    /// Enters, and leaves the script there, all in one round trip.
    async fn greet(&mut self, access: &Access, as_primary: bool) -> Result<(), StoreError> {
        let login = access.login.as_ref().map(|login| self.start(login.command()));
        // Redis hangs up on a stranger who sends a text as long as the script, and says why only to short ones.
        let ping = self.start(cmd("PING"));
        let select = (access.db > 0).then(|| self.start(cmd("SELECT").arg(access.db).take()));
        let role = as_primary.then(|| self.start(cmd("ROLE")));
        let load = self.start(cmd("SCRIPT").arg("LOAD").arg(script::SOURCE).take());
        if let Some(login) = login {
            self.value_of(login).await?;
        }
        tolerated(self.reply_to(ping).await)?;
        if let Some(select) = select {
            self.value_of(select).await?;
        }
        if let Some(role) = role {
            check_role(&self.value_of(role).await?)?;
        }
        tolerated(self.reply_to(load).await)
    }
}

/// Whether a connection is of use. A server that is busy or loading, or lets us call scripts only, still is one: it
/// answers questions, or says itself why not.
fn tolerated(reply: RedisResult<Value>) -> Result<(), StoreError> {
    match reply.map_err(|error| lost(&error))? {
        Value::ServerError(error) => match said(&error) {
            why if error.code() == "NOAUTH" || why.kind() == StoreErrorKind::MaxClients => Err(why),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn check_role(role: &Value) -> Result<(), StoreError> {
    match role {
        Value::Array(fields) if fields.first() == Some(&Value::BulkString(b"master".to_vec())) => {
            Ok(())
        }
        _ => Err(StoreError::new(StoreErrorKind::ReadOnly, "the server is no primary")),
    }
}
