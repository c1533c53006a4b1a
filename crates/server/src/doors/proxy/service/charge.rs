//! What a request was charged, to be given back if it reached no upstream.

use tidegate::{Key, Op};

use crate::metrics::Door;
use crate::service::{AppState, Question};

/// The policy by its name: forwarding may take long and must not keep an old configuration alive.
pub(super) struct Charge {
    policy: Box<str>,
    key: ChargedKey,
    cost: u64,
}

enum ChargedKey {
    One(Box<[u8]>),
    Named(Vec<(Box<str>, Box<[u8]>)>),
}

impl Charge {
    pub(super) fn of(question: &Question<'_, '_>) -> Self {
        let key = match question.key {
            Key::One(key) => ChargedKey::One(key.into()),
            Key::Named(named) => {
                let owned = |(name, key): &(&str, &[u8])| ((*name).into(), (*key).into());
                ChargedKey::Named(named.iter().map(owned).collect())
            }
        };
        Self { policy: question.policy.name().into(), key, cost: question.cost }
    }

    /// Gives the units back. A failed refund is ignored: nothing else can be done.
    pub(super) async fn refund(self, app: &AppState) {
        let in_force = app.in_force();
        let call = app.call(&in_force, Door::Proxy);
        // A reload may have removed it.
        let Ok(policy) = call.lookup(&self.policy) else { return };
        let named: Vec<(&str, &[u8])> = match &self.key {
            ChargedKey::One(_) => Vec::new(),
            ChargedKey::Named(named) => named.iter().map(|(name, key)| (&**name, &**key)).collect(),
        };
        let key = match &self.key {
            ChargedKey::One(key) => Key::One(key),
            ChargedKey::Named(_) => Key::Named(&named),
        };
        let _ = call.check(&Question::new(policy, key, self.cost, Op::Refund)).await;
    }
}
