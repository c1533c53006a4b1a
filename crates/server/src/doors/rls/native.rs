//! The policies of the configuration, asked by Envoy without rules of its own: `policy=NAME` is a descriptor's first
//! entry, and who is asking the others.

use smallvec::SmallVec;
use tidegate::{CheckError, Key, Op};

use super::request::{Bad, Descriptor};
use super::targets::{Counted, Role, Target, Who};
use crate::envoy::CounterKey;
use crate::service::{Handle, InForce};

/// What a descriptor means; nothing if it names no policy. `spot` is where it stands.
pub(super) fn target<'a>(
    in_force: &'a InForce,
    descriptor: &Descriptor<'a>,
    spot: usize,
) -> Result<Target<'a>, Bad> {
    if descriptor.limit.is_some() {
        return Err(Bad::new(format!(
            "descriptors[{spot}].limit: the limits of this domain are those of its policies: leave it out"
        )));
    }
    let Some((first, others)) = descriptor.entries.split_first() else {
        return Ok(Target::NoLimit);
    };
    if first.key != "policy" {
        return Ok(Target::NoLimit);
    }
    let (name, policy) = (first.value, in_force.policy(first.value));
    // Or all whom nobody knows would share what one may have.
    if let Some(index) = others.iter().position(|entry| entry.value.is_empty()) {
        let (key, index) = (crate::text::printable(others[index].key), index + 1);
        return Err(Bad::new(format!(
            "descriptors[{spot}].entries[{index}].value: `{key}` is empty: whoever is limited needs a name"
        )));
    }
    let named: SmallVec<[(&'a str, &'a [u8]); 4]> =
        others.iter().map(|entry| (entry.key, entry.value.as_bytes())).collect();
    let who = match &named[..] {
        [] => Who::One(CounterKey::of(&[])),
        [_] => Who::Named(named),
        several if policy.is_some_and(|policy| counts_one(&policy, several)) => {
            let values: SmallVec<[&[u8]; 4]> = several.iter().map(|(_, value)| *value).collect();
            Who::One(CounterKey::of(&values))
        }
        _ => Who::Named(named),
    };
    Ok(Target::Counted(Counted {
        name,
        policy,
        who,
        hits: descriptor.hits,
        limit: None,
        own: None,
        shown: None,
        role: Role::Binds,
        is_shadow: false,
    }))
}

/// Whether a policy counts callers by one identifier, and not by names.
fn counts_one(policy: &Handle<'_>, keys: &[(&str, &[u8])]) -> bool {
    let error = policy.validate(Key::Named(keys), Op::Take).err();
    matches!(error, Some(CheckError::MissingKey { key, .. }) if key == "key")
}
