//! The policies of the configuration, asked by Envoy without rules of its own: `policy=NAME` is a descriptor's first
//! entry, and who is asking the others.

use smallvec::SmallVec;
use tidegate::{Check, CheckError, Engine, Key, Op};

use super::request::Descriptor;
use super::targets::{Counted, Role, Target, Who};
use crate::envoy::CounterKey;

/// What a descriptor means; nothing if it names no policy.
pub(super) fn target<'a>(engine: &Engine, descriptor: &Descriptor<'a>) -> Target<'a> {
    let Some((first, others)) = descriptor.entries.split_first() else { return Target::NoLimit };
    if first.key != "policy" {
        return Target::NoLimit;
    }
    let policy = first.value;
    let named: SmallVec<[(&'a str, &'a [u8]); 4]> =
        others.iter().map(|entry| (entry.key, entry.value.as_bytes())).collect();
    let who = match &named[..] {
        [] => Who::One(CounterKey::of(&[])),
        [_] => Who::Named(named),
        several if counts_one(engine, policy, several) => {
            let values: SmallVec<[&[u8]; 4]> = several.iter().map(|(_, value)| *value).collect();
            Who::One(CounterKey::of(&values))
        }
        _ => Who::Named(named),
    };
    Target::Counted(Counted {
        policy,
        who,
        hits: descriptor.hits,
        limit: None,
        own: None,
        shown: None,
        role: Role::Binds,
        is_shadow: false,
    })
}

/// Whether a policy counts callers by one identifier, and not by names.
fn counts_one(engine: &Engine, policy: &str, keys: &[(&str, &[u8])]) -> bool {
    let check = Check { policy, key: Key::Named(keys), cost: 1 };
    let error = engine.validate(&check, Op::Take).err();
    matches!(error, Some(CheckError::MissingKey { key, .. }) if key == "key")
}
