//! Policies that share one limit: what tenants ask for is counted here, and decides what each may use while they contend.
//!
//! The first check after the end of a tick looks at the demands: so nothing runs by itself, and what it does is bounded.
//! The limit of a tenant and the shared limit are asked in one atomic step, so that a wrong guess costs fairness for a
//! tick, and never admits more than the shared limit does alone.
//!
//! Tenants contend once they ask for more in a second than comes in of the shared limit, and is left beyond a second of that.
//! Each answer of the store about it says how much is left. From then on, whoever asks for more than its share saves up little,
//! and leaves the reserve to those who ask for less.

mod exchange;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use siphasher::sip::SipHasher13;
use tidegate_core::share::{Demand, Level, Tenants};
use tidegate_core::{Limit, Timestamp, Verdict};

use super::in_force::{InForce, ReducedLimit};
use super::question::GLOBAL;
use super::{Engine, Key};
use crate::clock::{Clock, micros};
use crate::policy::{Compiled, Member, OverrideInForce, Share};
use crate::store::{KeyHasher, Op, Source};
use crate::sync::lock;

/// Where the limit of the tenant is among the limits of the policy: behind the shared one. With equal numbers the first one
/// answers, so that nobody notices the other while nobody contends.
pub(crate) const OWN: usize = 1;

/// The key of all who have no entry of their own. Whoever is called this is one of them.
pub(super) const REST_KEY: &[u8] = b"\0else";

/// So many checks of a tenant fit into its part at once at least, where they fit into the shared limit: requests of most
/// clients come in small groups.
const PART_CHECKS_MIN: u64 = 4;

/// A level that was not found anew for this time is forgotten.
const LEVEL_LIFE: Duration = Duration::from_secs(2);

/// A policy that shares the limit of another.
#[derive(Debug)]
pub(crate) struct Shares {
    share: Share,
    divided: Arc<Divided>,
}

/// A limit that tenants share, by whichever policies they ask, and what is known of them.
#[derive(Debug)]
pub(crate) struct Divided {
    /// What all nodes of a fleet call it.
    scope: String,
    /// What all without an entry of their own count together.
    rest_weight: u32,
    /// The limit in units so fine that each part of it is a whole number of them.
    limit: Limit,
    /// Tells this node's readings from those of others. Random.
    node: u64,
    state: Mutex<SharesState>,
}

#[derive(Debug, Default)]
struct SharesState {
    tenants: Tenants,
    /// While tenants contend.
    level: Option<Level>,
    level_at: Timestamp,
    /// What the level divides.
    capacity: Option<Capacity>,
    /// What was left of the shared limit, and when.
    left: Option<(u64, Timestamp)>,
    /// When this node was last asked.
    checked_at: Timestamp,
    /// The limits in force by weight, made when they are first asked for. As many as there are weights.
    parts: Vec<(u32, Option<Part>)>,
    /// Since when nodes are asked, until they have answered.
    asked_at: Option<Timestamp>,
    /// How far the end of a tick is ahead of this node's clock.
    ahead_us: i64,
}

/// What a tenant may use while tenants contend.
#[derive(Clone, Debug)]
struct Part {
    limit: ReducedLimit,
    /// The same as a part of the shared limit, as callers know that.
    shown: Arc<Limit>,
}

/// What is known of a question of a tenant beside its limits.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    /// Whether it has no entry of its own.
    pub(super) in_rest: bool,
    /// Its part of the shared limit, if it has only that.
    pub(super) shown: Option<Arc<Limit>>,
    /// What of the shared limit it is to leave to others.
    reserve: u64,
    /// What it takes if it is admitted.
    takes: u64,
    /// How many nodes divide the limit while the store fails.
    nodes: NonZeroU32,
}

/// How the tenants of a policy share its limit just now: see [`PolicyView::share_status`](super::PolicyView::share_status).
///
/// ```
/// use tidegate::{Engine, Policy, Share, ShareStatus};
///
/// let engine = Engine::builder()
///     .policy("total", Policy::all().limit_by("", "global", "100/s"))
///     .policy("api", Policy::share(Share::of("total", "tenant")))
///     .build()?;
/// assert!(engine.check("api", "acme").now()?.decision.allowed());
/// let status: Option<ShareStatus> = engine.policy_ref("api")?.share_status();
/// assert_eq!(status, Some(ShareStatus { active: 1, level: None })); // nobody contends
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ShareStatus {
    /// The tenants with an entry of their own that asked this node within the last second: of all policies that share the
    /// same limit.
    pub active: usize,
    /// While tenants contend: the part of the limit that a weight of 1 gets.
    pub level: Option<f64>,
}

impl Shares {
    pub(crate) fn new(share: Share, limit: &Limit) -> Self {
        let divided = Divided::new(scope_text(&share.of, limit), share.rest_weight(), limit);
        Self { share, divided: Arc::new(divided) }
    }

    pub(crate) const fn divided(&self) -> &Arc<Divided> {
        &self.divided
    }

    pub(super) const fn share(&self) -> &Share {
        &self.share
    }

    pub(super) fn status(&self) -> ShareStatus {
        let state = lock(&self.divided.state);
        let level = state.level.map(|level| level.fraction());
        let whole = state.capacity.map_or(1, |capacity| capacity.units.max(1));
        #[expect(clippy::cast_precision_loss, reason = "to be shown")]
        let part =
            |(units, weights): (u64, u64)| (units as f64 / weights as f64 / whole as f64).min(1.0);
        ShareStatus { active: state.tenants.active(), level: level.map(part) }
    }

    /// Notes what an answer says is left of the shared limit.
    #[inline(never)]
    pub(super) fn note_left(&self, tenant: &Tenant, verdict: &Verdict, source: Source) {
        let nodes = match source {
            Source::Store | Source::DenyCache => 1,
            Source::Local => tenant.nodes.get().into(),
            Source::Lease | Source::FailOpen | Source::FailClosed => return, // of which nothing is known
        };
        let Verdict { binding, decision } = verdict;
        let mut state = lock(&self.divided.state);
        if *binding == OWN {
            // Of the shared limit it says no more than that.
            if let Some((left, _)) = state.left.as_mut().filter(|_| decision.allowed()) {
                *left = left.saturating_sub(tenant.takes);
            }
        } else {
            let left = decision.remaining().saturating_mul(nodes).saturating_add(tenant.reserve);
            state.left = Some((left, state.checked_at));
        }
    }

    /// The weight that a caller has given, or that of all others.
    fn weight(&self, key: Key<'_>) -> u32 {
        self.share.weight(self.share.weighed_by().and_then(|by| key.get(Some(by))))
    }
}

/// Has all shares of one limit divide it together: going on with what is known of its tenants, as on a reload, or anew. Those
/// without an entry of their own count what the lightest `else` says.
pub(super) fn join<'a>(shares: impl Iterator<Item = &'a mut Shares>, known: &[Arc<Divided>]) {
    let mut known = known.to_vec();
    let mut shares: Vec<_> = shares.collect();
    let mut rest_weights = BTreeMap::new();
    for Shares { divided, .. } in &shares {
        let lightest = rest_weights.entry(divided.scope.clone()).or_insert(divided.rest_weight);
        *lightest = divided.rest_weight.min(*lightest);
    }
    for Shares { divided, .. } in &mut shares {
        let (scope, rest_weight) = (&divided.scope, rest_weights[&divided.scope]);
        let same = known.iter().find(|it| it.scope == *scope && it.rest_weight == rest_weight);
        *divided = same.cloned().unwrap_or_else(|| {
            let new = Divided::new(scope.clone(), rest_weight, &divided.limit);
            known.push(Arc::new(new));
            known[known.len() - 1].clone()
        });
    }
}

impl Divided {
    fn new(scope: String, rest_weight: u32, limit: &Limit) -> Self {
        let (node, limit) = (RandomState::new().hash_one(0), limit.finer());
        let tenants = Tenants::new(rest_weight);
        let state = Mutex::new(SharesState { tenants, ..SharesState::default() });
        Self { scope, rest_weight, limit, node, state }
    }

    /// The same for all nodes, in 48 bits: enough to tell thousands apart. It reaches the store, and so it has the secret
    /// of a store that is to see hashes only: without one, whoever reads the store could try out addresses.
    fn fingerprint(&self, tenant: &[u8], hasher: Option<&KeyHasher>) -> u64 {
        if tenant == REST_KEY {
            return Tenants::REST; // nobody else counts what all others count
        }
        let hash = hasher.map_or_else(
            || {
                let mut hasher = SipHasher13::new_with_keys(0x7469_6465, 0x7368_6172);
                hasher.write(self.scope.as_bytes());
                hasher.write(tenant);
                hasher.finish()
            },
            |hasher| hasher.short_hash(tenant),
        );
        (hash >> 16).max(1)
    }
}

/// A name that all nodes give a shared limit. Contains it, so that only nodes with the same one share demands: as it is
/// written, which is the same in every version of a fleet.
fn scope_text(shared: &str, limit: &Limit) -> String {
    let text = limit_text(shared, limit);
    format!("share {:016x}", rapidhash::v3::rapidhash_v3(text.as_bytes()))
}

fn limit_text(shared: &str, limit: &Limit) -> String {
    let period_us = micros(limit.period());
    let (algorithm, units, burst) = (limit.algorithm(), limit.units(), limit.ceiling());
    format!("share {shared} {algorithm} {units}/{period_us}us burst {burst}")
}

impl SharesState {
    /// The time by which ticks end.
    fn tick_time(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_micros(now.as_micros().saturating_add_signed(self.ahead_us))
    }

    fn set_level(&mut self, level: Option<Level>, capacity: Capacity, now: Timestamp) {
        if (self.level, self.capacity) != (level, Some(capacity)) {
            self.parts.clear();
        }
        (self.level, self.capacity, self.level_at) = (level, Some(capacity), now);
    }

    /// What is left of the shared limit by now, as far as this node knows.
    fn left(&self, shared: &Limit, now: Timestamp) -> Option<u64> {
        let (left, at) = self.left?;
        let since_us = micros(now.since(at));
        let come_in = u128::from(shared.units()) * u128::from(since_us);
        let come_in = come_in / u128::from(micros(shared.period())).max(1);
        let come_in = u64::try_from(come_in).unwrap_or(u64::MAX);
        Some(left.saturating_add(come_in).min(shared.ceiling()))
    }

    /// What a tenant of this weight may use at this level, and how much of that at once; `None` for the whole limit.
    fn part(&mut self, level: Level, weight: u32, shared: &Limit, own: &Member) -> Option<Part> {
        if let Some((_, part)) = self.parts.iter().find(|(known, _)| *known == weight) {
            return part.clone();
        }
        let share = level.share(weight);
        let part = ReducedLimit::of(own, share).map(|part| {
            let factor = own.cost.get();
            let few = PART_CHECKS_MIN.saturating_mul(factor).min(own.limit.ceiling());
            let burst = in_tick(part.limit()).max(few);
            let whole = self.capacity.map_or(share, |capacity| capacity.units);
            let shown = Arc::new(shared.effective_part(share, whole, 1));
            Part { limit: part.with_room(own, few).with_burst(burst), shown }
        });
        self.parts.push((weight, part.clone()));
        part
    }

    /// What a tenant may use of the shared limit, and of its own, while tenants contend. Who asks for twice its share leaves
    /// the whole reserve to others.
    fn parts(
        &mut self,
        level: Level,
        contender: Contender,
        [shared, own]: [&Member; 2],
        of_shared: Option<ReducedLimit>,
        tenant: &mut Tenant,
    ) -> [Option<ReducedLimit>; 2] {
        let Contender { weight, asked, room } = contender;
        let share = level.share(weight);
        if (1..=share).contains(&asked) {
            return [of_shared, None];
        }
        let of_shared = of_shared.unwrap_or_else(|| ReducedLimit::whole(shared));
        let Some(part) = self.part(level, weight, of_shared.limit(), own) else {
            return [Some(of_shared), None];
        };
        let ceiling = of_shared.limit().ceiling();
        let most = reserve(of_shared.limit());
        let reserve = match asked {
            // A newcomer may be a quiet one, or one of a flood of made-up names.
            0 => most / 2,
            _ => part_of(most, (asked - share).min(share), share),
        };
        let of_shared = of_shared.with_burst((ceiling - reserve).max(room));
        tenant.reserve = ceiling - of_shared.limit().ceiling();
        tenant.shown = Some(part.shown);
        // Its part may be too small for a check at once. Then its own burst has to be full.
        [Some(of_shared), Some(part.limit.with_room(own, room))]
    }

    /// The level of what this node has seen, where each of so many nodes sees the same.
    fn own_level(&self, capacity: Capacity, nodes: NonZeroU32) -> Option<Level> {
        let demands = self.tenants.demands(capacity.in_window(nodes));
        Level::find(demands.map(|(_, demand)| capacity.demand(demand, nodes)), capacity.units)
    }
}

/// What tenants that ask for more than their share leave of a limit.
fn reserve(limit: &Limit) -> u64 {
    in_tick(limit).min(limit.ceiling() / 2)
}

/// Whether more than comes in within a second can be left of a limit with a pace.
pub(super) fn saves_up(limit: &Limit) -> bool {
    limit.as_gcra().is_some() && limit.ceiling() > in_time_of(limit, Tenants::WINDOW)
}

/// What a limit admits in a tick, rounded up.
fn in_tick(limit: &Limit) -> u64 {
    in_time_of(limit, Tenants::TICK)
}

fn in_time_of(limit: &Limit, time: Duration) -> u64 {
    part_of(limit.units(), micros(time), micros(limit.period()))
}

/// So much of `units`, rounded up.
fn part_of(units: u64, part: u64, whole: u64) -> u64 {
    let units = (u128::from(units) * u128::from(part)).div_ceil(u128::from(whole.max(1)));
    u64::try_from(units).unwrap_or(u64::MAX)
}

/// Who asks while tenants contend.
#[derive(Clone, Copy, Debug)]
struct Contender {
    weight: u32,
    /// What it has asked for already, in units of the limit's period. 0 for a newcomer.
    asked: u64,
    /// What it asks for now.
    room: u64,
}

/// What the shared limit admits in the coming second: what comes in, and what is left beyond a second of that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Capacity {
    /// As in `period`, if every second of it was like this one.
    units: u64,
    period: Duration,
    /// How long a unit that is left lasts, at one a second: beside a pace, the period. A window loses by then what comes
    /// in of that unit.
    lasts: Duration,
    /// What comes in of the shared limit within a second. So much is not counted as left: while tenants contend it comes and
    /// goes, nodes learn late of it, and their parts would swing with it.
    in_second: u64,
}

impl Capacity {
    /// What comes in, of the shared limit as it is in force.
    fn of(divided: &Divided, shared: &Member, in_force: &Limit) -> Self {
        let limit = &divided.limit;
        let of_limit = limit.effective_part(in_force.units(), shared.limit.units(), 1);
        let period = limit.period();
        let has_pace = limit.as_gcra().is_some();
        let lasts = if has_pace { period } else { period.saturating_sub(Tenants::WINDOW) };
        let in_second = in_time_of(in_force, Tenants::WINDOW);
        Self { units: of_limit.units(), period, lasts, in_second }
    }

    /// And so much that is left.
    fn with_left(self, left: Option<u64>) -> Self {
        let spare = left.unwrap_or_default().saturating_sub(self.in_second);
        Self { units: self.units.saturating_add(in_time(spare.into(), self.lasts)), ..self }
    }

    /// What one of so many nodes may admit in a second.
    fn in_window(self, nodes: NonZeroU32) -> u64 {
        let units = u128::from(self.units) * u128::from(micros(Tenants::WINDOW));
        let units = units / u128::from(micros(self.period)).max(1) / u128::from(nodes.get());
        u64::try_from(units).unwrap_or(u64::MAX).max(1)
    }

    /// What was asked for in a second, in units of the limit's period.
    fn demand(self, demand: Demand, nodes: NonZeroU32) -> Demand {
        let asked = u128::from(demand.units) * u128::from(nodes.get());
        Demand { units: in_time(asked, self.period).min(self.units), ..demand }
    }
}

/// What so much in each second comes to, rounded up.
fn in_time(in_second: u128, time: Duration) -> u64 {
    let units = in_second.saturating_mul(micros(time).into());
    u64::try_from(units.div_ceil(micros(Tenants::WINDOW).into())).unwrap_or(u64::MAX)
}

impl<C: Clock + 'static> Engine<C> {
    /// Counts what a tenant asks for, and finds what it may use.
    pub(super) fn tenant_limits(
        &self,
        policy: &Compiled,
        shares: &Shares,
        key: Key<'_>,
        cost: u64,
        op: Op,
    ) -> (InForce, Option<Box<Tenant>>) {
        let [(_, shared), (_, own)] = policy.members() else { return (InForce::Whole, None) };
        let Ok(tenant) = key.find(policy, own.key.as_deref()) else {
            return (InForce::Whole, None);
        };
        let now = self.state.clock.now();
        let nodes = self.nodes();
        let hasher = self.state.stores.plain.store.extensions().key_hasher;
        let divided = &shares.divided;
        let (tenant, weight) = (divided.fingerprint(tenant, hasher), shares.weight(key));
        let of_shared = InForce::part_of(shared, key);
        let in_force = of_shared.as_ref().map_or(&shared.limit, |part| &**part.limit());
        let mut state = lock(&divided.state);
        state.checked_at = now;
        let tick_time = state.tick_time(now);
        let is_over = state.tenants.end_tick(tick_time);
        let asked = if is_over {
            let left = state.left(in_force, now);
            self.end_tick(divided, &mut state, Capacity::of(divided, shared, in_force), left, now)
        } else {
            None
        };
        // More than the burst is never admitted, and so no demand.
        let units = cost.saturating_mul(shared.cost.get());
        let units = if units <= shared.limit.ceiling() { units } else { 0 };
        let takes = if op == Op::Take { units } else { 0 };
        let in_rest = !state.tenants.note(tenant, weight, takes, tick_time);
        let (fingerprint, weight) =
            if in_rest { (Tenants::REST, divided.rest_weight) } else { (tenant, weight) };
        let mut tenant = Tenant { in_rest, shown: None, reserve: 0, takes, nodes };
        let parts = match (state.level, state.capacity) {
            (Some(level), Some(capacity)) => {
                let asked = state.tenants.asked(fingerprint, capacity.in_window(nodes));
                let asked = capacity.demand(Demand { units: asked, weight }, nodes).units;
                let contender = Contender { weight, asked, room: units };
                state.parts(level, contender, [shared, own], of_shared, &mut tenant)
            }
            _ => [of_shared, None],
        };
        drop(state);
        if let Some(asked) = asked {
            exchange::start(divided, self.state.stores.plain.store.clone(), asked);
        }
        let in_force = if parts.iter().all(Option::is_none) {
            InForce::Whole
        } else {
            InForce::Some(Box::new(parts))
        };
        (in_force, Some(Box::new(tenant)))
    }

    /// The override of a key, or of the limit that it shares with others: a block comes first.
    pub(super) fn override_for<'e>(
        &'e self,
        policy: &'e Compiled,
        key: Key<'_>,
    ) -> Option<OverrideInForce<'e>> {
        let own = policy.override_for(key, &self.state.clock);
        let Some(shares) = &policy.share else { return own };
        let Some(shared) = self.state.policies.get(&shares.share.of) else { return own };
        let of_all = shared.override_for(Key::One(GLOBAL.as_bytes()), &self.state.clock);
        match (own, of_all) {
            (Some(OverrideInForce::Block), _) | (_, Some(OverrideInForce::Block)) => {
                Some(OverrideInForce::Block)
            }
            (own, of_all) => own.or(of_all),
        }
    }

    /// Finds the level for the next tick: at once if there is no other node, otherwise by what they are to be asked.
    fn end_tick(
        &self,
        divided: &Divided,
        state: &mut SharesState,
        come_in: Capacity,
        left: Option<u64>,
        now: Timestamp,
    ) -> Option<exchange::Asked> {
        let nodes = self.nodes();
        let capacity = come_in.with_left(left);
        let own_level = state.own_level(capacity, nodes);
        if nodes == NonZeroU32::MIN {
            state.set_level(own_level, capacity, now);
            return None;
        }
        if now.since(state.level_at) > LEVEL_LIFE {
            state.set_level(own_level, capacity, now);
        }
        // An answer may never come: its task ends with its runtime.
        if state.asked_at.is_some_and(|at| now.since(at) <= LEVEL_LIFE) {
            return None;
        }
        state.asked_at = Some(now);
        let demands = state.tenants.demands(capacity.in_window(nodes));
        let reading = exchange::write(demands, nodes, divided.rest_weight, left);
        Some(exchange::Asked { reading, come_in, own: (own_level, capacity), now })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_every_version_call_a_share_the_same() {
        for (limit, expected) in [
            ("100/s burst 20", "share total gcra 100/1000000us burst 20"),
            ("sliding-window 240/min", "share total sliding-window 240/60000000us burst 240"),
        ] {
            assert_eq!(limit_text("total", &limit.parse().unwrap()), expected);
        }
    }
}
