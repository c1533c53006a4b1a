//! Giving back while less than the whole of a limit is in force.

use tidegate_core::Timestamp;

use super::in_force::InForce;
use super::settle::{Decided, Limits};
use super::{CheckError, Engine};
use crate::clock::Clock;
use crate::reply::Reply;
use crate::store::{Op, StoreReply};

impl<C: Clock + 'static> Engine<C> {
    /// Gives back by the whole limits, and answers for what is in force of them. At a lower rate a unit is a longer time
    /// than it was when it was spent: to give that back would create units as soon as the rate is up again.
    pub(super) fn refund_whole<'e>(
        &'e self,
        limits: Limits<'e>,
        keys: &[&[u8]],
        cost: u64,
        now: Timestamp,
    ) -> Reply<'e, Decided<'e>, CheckError> {
        let whole = Limits { in_force: InForce::Whole, ..limits.clone() };
        let Some(refund) = self.put(&whole, keys, cost, Op::Refund, now) else {
            return Reply::ready(Err(CheckError::UnknownPolicy(limits.policy.name())));
        };
        match refund.split() {
            Ok(Ok(refunded)) => self.left_in_force(limits, whole, keys, refunded, now),
            Ok(Err(error)) => Reply::ready(Err(CheckError::Store(error))),
            Err(later) => {
                let keys: Vec<Box<[u8]>> = keys.iter().map(|key| (*key).into()).collect();
                Reply::later(async move {
                    let refunded = later.await.map_err(CheckError::Store)?;
                    self.left_in_force(limits, whole, &keys, refunded, now).await
                })
            }
        }
    }

    fn left_in_force<'e>(
        &'e self,
        limits: Limits<'e>,
        whole: Limits<'e>,
        keys: &[impl AsRef<[u8]>],
        refunded: StoreReply,
        now: Timestamp,
    ) -> Reply<'e, Decided<'e>, CheckError> {
        let Some(peek) = self.put(&limits, keys, 0, Op::Peek, now) else {
            return Reply::ready(whole.answer(refunded));
        };
        peek.then(move |left| match left {
            Ok(left) => limits.answer(left),
            // It was given back: an error would have it given back again.
            Err(_) => whole.answer(refunded),
        })
    }
}
