//! Decides a request on states that are held: what every store does that decides in this process.

use tidegate_core::{
    Change, Decision, Return, State, Timestamp, Weighted, decide_each, decide_many, grant,
};

use super::{Charge, MultiCharge, Op, StoreReply, StoreRequest};

const MAX: usize = StoreRequest::MAX_LIMITS;

/// Decides a request on the states of its limits, in their order, and marks in `wrote` the states that have to be
/// written. `None` if the request has no limits.
///
/// ```
/// use tidegate::store_kit::decide_states;
/// use tidegate::{KeyedLimit, Limit, Mode, Op, Scope, StoreRequest, Timestamp};
/// use tidegate_core::State;
///
/// let (limit, scope): (Limit, _) = ("5/h".parse()?, Scope::named("login", ""));
/// let limits = [KeyedLimit { scope: &scope, key: b"user-42", limit: &limit }];
/// let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 2, op: Op::Take };
/// let (mut states, mut wrote) = ([State::Empty], [false]);
/// let reply = decide_states(&request, &mut states, &mut wrote, Timestamp::from_micros(1_700_000_000_000_000));
/// assert_eq!(reply.map(|reply| reply.verdict.decision.remaining()), Some(3));
/// assert_eq!(wrote, [true]);
/// # Ok::<(), tidegate::LimitError>(())
/// ```
pub fn decide_states<S: AsRef<State> + AsMut<State>>(
    request: &StoreRequest<'_>,
    states: &mut [S],
    wrote: &mut [bool],
    now: Timestamp,
) -> Option<StoreReply> {
    match request.op {
        Op::Take | Op::Lease(_) => take(request, states, wrote, now),
        Op::Peek => peek(request, states, now, request.cost),
        Op::Refund | Op::Reset | Op::GiveBack(_) => give_back(request, states, wrote, now),
        Op::Release { permit_id } => {
            let [state] = states else { return None };
            let released = release(state.as_mut(), permit_id, request.cost, now);
            wrote[0] = released != Released::NotThere;
            let held = (released == Released::Held).then_some((0, permit_id));
            let reply = peek(request, states, now, 0)?;
            Some(StoreReply { permits: held.into_iter().collect(), ..reply })
        }
        Op::Renew { permit_id } => {
            let ([keyed], [state]) = (request.limits, &mut *states) else { return None };
            wrote[0] = keyed.limit.renew(state.as_mut(), now, permit_id, request.cost);
            let held = wrote[0].then_some((0, permit_id));
            let reply = peek(request, states, now, 0)?;
            Some(StoreReply { permits: held.into_iter().collect(), ..reply })
        }
    }
}

/// What a release found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Released {
    /// It was held until now.
    Held,
    /// It was there, and had expired.
    Expired,
    NotThere,
}

/// Takes a permit back that was granted for this cost.
pub(crate) fn release(state: &mut State, id: u64, cost: u64, now: Timestamp) -> Released {
    let held = match state {
        State::Permits(permits) => permits.held(),
        _ => &[],
    };
    let Some(expires_us) =
        held.iter().find(|held| held.id == id && held.cost == cost).map(|held| held.expires_us)
    else {
        return Released::NotThere;
    };
    state.release(id);
    if expires_us > now.as_micros() { Released::Held } else { Released::Expired }
}

/// Decides several limits in one step on their states, in their order, and marks in `wrote` the states that have to be
/// written.
///
/// ```
/// use tidegate::store_kit::decide_each_state;
/// use tidegate::{Charge, KeyedLimit, Limit, LimitCharge, MultiCharge, Scope, Timestamp};
/// use tidegate_core::State;
///
/// let (limit, scope): (Limit, _) = ("5/h".parse()?, Scope::named("mail", ""));
/// let keyed = KeyedLimit { scope: &scope, key: b"user-42", limit: &limit };
/// let charges = MultiCharge { limits: &[LimitCharge { keyed, cost: 2 }], charge: Charge::IfAllAdmit };
/// let (mut states, mut wrote) = ([State::Empty], [false]);
/// let each = decide_each_state(&charges, &mut states, &mut wrote, Timestamp::from_micros(1_700_000_000_000_000));
/// assert_eq!((each[0].remaining(), wrote), (3, [true]));
/// # Ok::<(), tidegate::LimitError>(())
/// ```
pub fn decide_each_state<S: AsRef<State> + AsMut<State>>(
    charges: &MultiCharge<'_>,
    states: &mut [S],
    wrote: &mut [bool],
    now: Timestamp,
) -> Vec<Decision> {
    let parts = charges.limits.iter().zip(&*states);
    let parts = parts.map(|(charge, state)| (charge.keyed.limit, state.as_ref(), charge.cost));
    let mut decisions = vec![Decision::unlimited(); charges.limits.len()];
    let mut changes = [Change::KEEP; MultiCharge::MAX_LIMITS];
    decide_each(parts, charges.charge == Charge::Refused, &mut decisions, &mut changes, now);
    if charges.charge == Charge::IfAllAdmit {
        for ((state, change), wrote) in states.iter_mut().zip(changes).zip(wrote) {
            state.as_mut().apply(change);
            *wrote = change.writes();
        }
    }
    decisions
}

/// The limits of a request with their states, in the order of the request.
fn parts<'a, S: AsRef<State>>(
    request: &'a StoreRequest<'_>,
    states: &'a [S],
) -> impl Iterator<Item = Weighted<'a>> + Clone {
    request.limits.iter().zip(states).map(|(keyed, state)| Weighted {
        limit: keyed.limit,
        state: state.as_ref(),
        factor: keyed.scope.factor(),
    })
}

/// What the limits would answer; nothing is written.
fn peek<S: AsRef<State>>(
    request: &StoreRequest<'_>,
    states: &[S],
    now: Timestamp,
    cost: u64,
) -> Option<StoreReply> {
    let verdict =
        decide_many(request.mode, parts(request, states), &mut [Change::KEEP; MAX], now, cost);
    verdict.map(StoreReply::by_store)
}

fn take<S: AsRef<State> + AsMut<State>>(
    request: &StoreRequest<'_>,
    states: &mut [S],
    wrote: &mut [bool],
    now: Timestamp,
) -> Option<StoreReply> {
    let (limits, mut changes) = (parts(request, states), [Change::KEEP; MAX]);
    let mut reply = if let Op::Lease(wanted) = request.op {
        let grant = grant(limits, &mut changes, now, wanted)?;
        let reply = StoreReply::by_store(grant.verdict);
        StoreReply { grant: Some(grant.into()), ..reply }
    } else {
        let verdict = decide_many(request.mode, limits, &mut changes, now, request.cost)?;
        StoreReply::by_store(verdict)
    };
    for (index, (state, change)) in states.iter_mut().zip(changes).enumerate() {
        state.as_mut().apply(change);
        wrote[index] = change.writes();
        reply.permits.extend(change.permit().map(|permit| (index, permit.id)));
    }
    Some(reply)
}

fn give_back<S: AsRef<State> + AsMut<State>>(
    request: &StoreRequest<'_>,
    states: &mut [S],
    wrote: &mut [bool],
    now: Timestamp,
) -> Option<StoreReply> {
    for ((keyed, state), wrote) in request.limits.iter().zip(&mut *states).zip(wrote) {
        *wrote = *state.as_ref() != State::Empty;
        let state = state.as_mut();
        match request.op {
            Op::Reset => state.reset(),
            Op::GiveBack(back) => {
                let back = Return { units: keyed.scope.cost(back.units), ..back };
                let _ = keyed.limit.give_back(state, now, back);
            }
            _ => {
                let _ = keyed.limit.refund(state, now, keyed.scope.cost(request.cost));
            }
        }
    }
    peek(request, states, now, 0)
}
