//! The decision on a whole request. All descriptors that bind are one atomic step. Quotas are asked before it, since one
//! alone refuses nothing; what a refused request was charged there is given back.

mod asker;

use smallvec::SmallVec;
use tidegate::{Clock, Op, Source, SystemClock};

pub(super) use self::asker::{Asker, Trouble};
use super::answer::{Code, Ruling, Status};
use super::request::{Bad, Hits, Request};
use super::targets::{self, Counted, Role, Target};
use super::{Manner, Shadow};
use crate::envoy::Unit;
use crate::gate::Snapshot;

/// A counter, and which descriptor it is for.
type Asked<'t, 'a> = (usize, &'t Counted<'a>);

/// Answers a request.
pub(super) async fn decide<'a>(
    snapshot: &'a Snapshot,
    request: &Request<'a>,
    asker: Asker<'a>,
) -> Result<Ruling<'a>, Trouble> {
    let targets = targets::of(snapshot, request).map_err(|Bad(why)| Trouble::Bad(why))?;
    let manner = snapshot.rls.manner;
    let statuses = targets.iter().map(known).collect();
    let mut deciding = Deciding { asker, manner, statuses, refused: false };
    deciding.decide(&targets).await?;
    deciding.tell_blocked(&targets);
    if manner.shadow == Shadow::Everybody {
        deciding.say_what_would_be_over(&targets);
    }
    let Deciding { statuses, refused, .. } = deciding;
    let overall = Code::of(!refused || manner.shadow != Shadow::Nobody);
    let mut ruling = Ruling { overall, statuses, headers: SmallVec::new() };
    ruling.add_headers(manner.adds_headers);
    Ok(ruling)
}

/// A request that is being decided.
struct Deciding<'a> {
    asker: Asker<'a>,
    manner: Manner,
    statuses: SmallVec<[Status<'a>; 2]>,
    /// Whether the whole is refused, as far as is known.
    refused: bool,
}

impl<'a> Deciding<'a> {
    async fn decide(&mut self, targets: &[Target<'a>]) -> Result<(), Trouble> {
        if let [Target::Counted(only)] = targets
            && only.role == Role::Binds
            && only.hits.spends()
        {
            return self.take_together(&[(0, only)]).await;
        }
        let those = |wanted: fn(&Counted<'_>) -> bool| -> SmallVec<[Asked<'_, 'a>; 4]> {
            let counted = targets.iter().enumerate().filter_map(|(index, target)| match target {
                Target::Counted(counted) => Some((index, counted)),
                Target::NoLimit | Target::Unlimited | Target::Blocked { .. } => None,
            });
            counted.filter(|(_, counted)| wanted(counted)).collect()
        };
        let (all, bound) =
            (those(|_| true), those(|it| it.role == Role::Binds && it.hits.spends()));
        // One step looks at all by itself before it charges any.
        if !self.manner.is_atomic || bound.len() < all.len() {
            self.asker.validate(&all)?;
        }
        self.look(&those(|it| it.hits == Hits::Peek)).await?;
        self.refused = self.is_over(targets, Role::Binds);
        let quotas = those(|it| it.role == Role::Quota && it.hits.spends());
        let takes = !self.refused || !self.manner.is_atomic;
        self.take_each(&quotas).await?;
        self.refused |= self.is_over(targets, Role::Quota);
        self.take_together(&bound).await?;
        if takes && self.refused && self.manner.is_atomic {
            self.untake(&quotas).await;
        }
        self.give_back(&those(|it| matches!(it.hits, Hits::GiveBack(_)))).await
    }

    /// Tells of what was refused without being asked.
    fn tell_blocked(&self, targets: &[Target<'_>]) {
        for (target, status) in targets.iter().zip(&self.statuses) {
            if let Target::Blocked { counted, .. } = target {
                self.asker.tell_blocked(counted, status);
            }
        }
    }

    /// A shadow of everything flips the whole alone, unlike one of a rule.
    fn say_what_would_be_over(&mut self, targets: &[Target<'_>]) {
        for (target, status) in targets.iter().zip(&mut self.statuses) {
            if status.shadow_denied && target.counted().is_some_and(|counted| !counted.is_shadow) {
                status.code = Code::OverLimit;
            }
        }
    }

    /// Whether what is known refuses the whole: one that binds does, quotas only all together.
    fn is_over(&self, targets: &[Target<'_>], role: Role) -> bool {
        let those = targets.iter().zip(&self.statuses);
        let mut over = those
            .filter(|(target, _)| target.role() == Some(role))
            .map(|(_, status)| status.code == Code::OverLimit)
            .peekable();
        match role {
            Role::Binds => over.any(|over| over),
            Role::Quota => over.peek().is_some() && over.all(|over| over),
        }
    }

    /// Looks whether one more would be admitted, and spends nothing. Where anything is left one would be, and all is told
    /// as it is now; only those that have nothing left are asked when one will be.
    async fn look(&mut self, asked: &[Asked<'_, 'a>]) -> Result<(), Trouble> {
        self.ask_each(asked, Op::Peek, |_| 0).await?;
        let has_nothing_left = |(index, _): &&Asked<'_, '_>| {
            let status = &self.statuses[*index];
            status.code == Code::Ok && !status.shadow_denied && status.remaining == 0
        };
        let spent: SmallVec<[Asked<'_, 'a>; 4]> =
            asked.iter().filter(has_nothing_left).copied().collect();
        self.ask_each(&spent, Op::Peek, |_| 1).await?;
        self.uncharge(&spent, |_| 1);
        Ok(())
    }

    /// Spends what binds, all or nothing; a whole that is refused already only looks.
    async fn take_together(&mut self, asked: &[Asked<'_, 'a>]) -> Result<(), Trouble> {
        if asked.is_empty() {
            return Ok(());
        }
        if self.refused || !self.manner.is_atomic {
            self.take_each(asked).await?;
        } else {
            let statuses = self.asker.together(asked).await?;
            for ((index, _), status) in asked.iter().zip(statuses) {
                self.statuses[*index] = status;
            }
        }
        let over = |(index, _): &Asked<'_, '_>| self.statuses[*index].code == Code::OverLimit;
        self.refused |= asked.iter().any(over);
        Ok(())
    }

    /// Spends each by itself; for a whole that is refused already only looks.
    async fn take_each(&mut self, asked: &[Asked<'_, 'a>]) -> Result<(), Trouble> {
        if self.refused && self.manner.is_atomic {
            self.ask_each(asked, Op::Peek, cost).await?;
            self.uncharge(asked, cost);
            return Ok(());
        }
        self.ask_each(asked, Op::Take, cost).await?;
        if !self.manner.is_atomic {
            self.drain(asked).await?;
        }
        Ok(())
    }

    /// Takes what is left of limits that have refused more than that.
    async fn drain(&mut self, asked: &[Asked<'_, 'a>]) -> Result<(), Trouble> {
        for (index, counted) in asked {
            let status = self.statuses[*index];
            let is_over = status.code == Code::OverLimit || status.shadow_denied;
            if is_over && status.remaining > 0 {
                let rest = u64::from(status.remaining);
                self.asker.correct(&[(*index, *counted)], Op::Take, |_| rest).await?;
                self.statuses[*index].remaining = 0;
            }
        }
        Ok(())
    }

    /// Gives back what a request was charged before it turned out to be refused. The ruling stands if that fails.
    async fn untake(&mut self, asked: &[Asked<'_, 'a>]) {
        // While the store fails nothing was charged there.
        let charged = |(index, _): &&Asked<'_, '_>| {
            let status = &self.statuses[*index];
            let by_store = matches!(status.source, Some(Source::Store | Source::Lease));
            status.code == Code::Ok && by_store
        };
        let charged: SmallVec<[Asked<'_, 'a>; 4]> = asked.iter().filter(charged).copied().collect();
        match self.asker.correct(&charged, Op::Refund, cost).await {
            Ok(_) => self.uncharge(&charged, cost),
            Err(trouble) => tracing::debug!(?trouble, "a refused request's charge stays"),
        }
    }

    /// Gives back what the request wants given back; a refused one only looks.
    async fn give_back(&mut self, asked: &[Asked<'_, 'a>]) -> Result<(), Trouble> {
        if self.refused {
            self.ask_each(asked, Op::Peek, |_| 0).await
        } else {
            self.ask_each(asked, Op::Refund, cost).await
        }
    }

    async fn ask_each(
        &mut self,
        asked: &[Asked<'_, 'a>],
        op: Op,
        cost: impl Fn(&Counted<'_>) -> u64,
    ) -> Result<(), Trouble> {
        let statuses = self.asker.each(asked, op, cost).await?;
        for ((index, _), status) in asked.iter().zip(statuses) {
            self.statuses[*index] = status;
        }
        Ok(())
    }

    /// Answers what is left now, where the answer was what would be left.
    fn uncharge(&mut self, asked: &[Asked<'_, 'a>], cost: impl Fn(&Counted<'_>) -> u64) {
        for (index, counted) in asked {
            let status = &mut self.statuses[*index];
            // Who is let through while the store fails is answered as if nothing had been spent.
            let is_charged = status.source != Some(Source::FailOpen) && !status.shadow_denied;
            if status.code == Code::Ok && is_charged {
                let cost = u32::try_from(cost(counted)).unwrap_or(u32::MAX);
                status.remaining = status.remaining.saturating_add(cost);
            }
        }
    }
}

fn cost(counted: &Counted<'_>) -> u64 {
    match counted.hits {
        Hits::Spend(hits) | Hits::GiveBack(hits) => hits,
        Hits::Peek => 0,
    }
}

/// What can be answered without asking.
fn known<'a>(target: &Target<'a>) -> Status<'a> {
    match target {
        Target::NoLimit | Target::Counted(_) => Status::NO_LIMIT,
        Target::Unlimited => Status::UNLIMITED,
        Target::Blocked { counted, unit, is_shadow } => Status {
            code: Code::of(*is_shadow),
            limit: counted.shown,
            reset_after_us: until_next(*unit),
            shadow_denied: *is_shadow,
            ..Status::NO_LIMIT
        },
    }
}

/// How long the present unit lasts.
fn until_next(unit: Unit) -> u64 {
    let unit_us = unit.seconds() * 1_000_000;
    unit_us - SystemClock.now().as_micros() % unit_us
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tidegate::{
        Decision, Engine, MultiCharge, OnStoreError, Policy, Reply, ReserveReply, ReserveRequest,
        Store, StoreError, StoreReply, StoreRequest, Timestamp,
    };
    use tokio::time::Instant;

    use super::*;
    use crate::config::Config;
    use crate::doors::rls::Rls;
    use crate::doors::rls::request::{Descriptor, OwnLimit};
    use crate::envoy::Entry;
    use crate::gate::Draft;

    /// A store that never answers.
    #[derive(Debug)]
    struct Silent;

    impl Store for Silent {
        fn decide(
            &self,
            _: &StoreRequest<'_>,
            _: Timestamp,
        ) -> Reply<'static, StoreReply, StoreError> {
            Reply::later(std::future::pending())
        }

        fn reserve(
            &self,
            _: &ReserveRequest<'_>,
            _: Timestamp,
        ) -> Reply<'static, ReserveReply, StoreError> {
            Reply::later(std::future::pending())
        }

        fn decide_each(
            &self,
            _: &MultiCharge<'_>,
            _: Timestamp,
        ) -> Reply<'static, Vec<Decision>, StoreError> {
            Reply::later(std::future::pending())
        }
    }

    fn descriptor<'a>(policy: &'a str, user: &'a str) -> Descriptor<'a> {
        let entry = |key, value| Entry { key, value };
        let entries = [entry("policy", policy), entry("user", user)];
        Descriptor { entries: SmallVec::from_iter(entries), ..Descriptor::default() }
    }

    /// Policies over that store.
    fn snapshot() -> Snapshot {
        let limit = || Policy::all().limit("", "fixed-window 3/h");
        let engine = Engine::builder()
            .store(Silent)
            .policy("local", limit())
            .policy("open", limit().on_store_error(OnStoreError::Allow))
            .policy("closed", limit().on_store_error(OnStoreError::DENY));
        let draft = Draft::build(&Config::default(), engine, Arc::default(), None);
        draft.unwrap().into_snapshot()
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_no_time_left_is_answered_by_the_policies() {
        let snapshot = snapshot();
        for (policies, expected) in [
            (&["local"][..], Ok(vec![2])),
            (&["local", "open"], Ok(vec![1, 3])),
            (&["closed"], Err(())),
            (&["local", "closed"], Err(())),
            (&["local"], Ok(vec![0])),
        ] {
            let descriptors = policies.iter().map(|policy| descriptor(policy, "ann")).collect();
            let request = Request { domain: "tidegate", descriptors };
            let start = Instant::now();
            let asker = Asker::new(&snapshot, Some(Duration::from_millis(15)));
            let decided = decide(&snapshot, &request, asker).await;
            assert_eq!(start.elapsed().as_millis(), 15, "{policies:?}");
            let seen = decided.map(|ruling| {
                ruling.statuses.iter().map(|status| status.remaining).collect::<Vec<_>>()
            });
            let seen = seen.map_err(|error| assert!(matches!(error, Trouble::Unavailable(_))));
            assert_eq!(seen, expected, "{policies:?}");
        }
    }

    /// Rules over that store.
    fn with_rules(name: &str, text: &str) -> Snapshot {
        let path =
            std::env::temp_dir().join(format!("tidegate-{name}-{}.yaml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let rules = crate::envoy::load(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let rls = Arc::new(Rls { rules, ..Rls::default() });
        let config = Config { rls, ..Config::default() };
        let engine = Engine::builder().store(Silent);
        Draft::build(&config, engine, Arc::default(), None).unwrap().into_snapshot()
    }

    /// Asks the domain `edge` for descriptors of one entry.
    async fn ask<'a>(
        snapshot: &'a Snapshot,
        asked: &[(&'a str, Hits)],
    ) -> Result<Ruling<'a>, Trouble> {
        let descriptor = |(key, hits): &(&'a str, Hits)| Descriptor {
            entries: SmallVec::from_iter([Entry { key, value: "ann" }]),
            hits: *hits,
            ..Descriptor::default()
        };
        let descriptors = asked.iter().map(descriptor).collect();
        let request = Request { domain: "edge", descriptors };
        let asker = Asker::new(snapshot, Some(Duration::from_millis(15)));
        decide(snapshot, &request, asker).await
    }

    /// The whole, and what is left of each.
    async fn ruled<'a>(snapshot: &'a Snapshot, asked: &[(&'a str, Hits)]) -> (Code, Vec<u32>) {
        let ruling = ask(snapshot, asked).await.unwrap();
        (ruling.overall, ruling.statuses.iter().map(|status| status.remaining).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_stands_where_nothing_can_be_given_back() {
        let rules = "{ domain: edge, descriptors: [
            { key: quota, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 9 } },
            { key: open, quota_mode: true,
              rate_limit: { unit: hour, requests_per_unit: 7, on_store_error: allow } },
            { key: user, rate_limit: { unit: hour, requests_per_unit: 1 } } ] }";
        let snapshot = with_rules("untake", rules);
        let asked = ["quota", "open", "user"].map(|key| (key, Hits::Spend(1)));
        assert_eq!(ruled(&snapshot, &asked).await, (Code::Ok, vec![8, 7, 0]));
        assert_eq!(ruled(&snapshot, &asked).await, (Code::OverLimit, vec![7, 7, 0]));
        // Nor has anybody more left than there is.
        assert_eq!(ruled(&snapshot, &[("open", Hits::Peek)]).await, (Code::Ok, vec![7]));
        assert_eq!(ruled(&snapshot, &[("quota", Hits::Peek)]).await, (Code::Ok, vec![7]));
    }

    #[tokio::test(start_paused = true)]
    async fn hits_that_cannot_be_given_back_in_time_are_a_failure_of_the_store() {
        let rules = "{ domain: edge, descriptors: [
            { key: user, rate_limit: { unit: hour, requests_per_unit: 5 } } ] }";
        let snapshot = with_rules("giveback", rules);
        for (hits, stands_in) in [(Hits::GiveBack(1), false), (Hits::Spend(1), true)] {
            let decided = ask(&snapshot, &[("user", hits)]).await;
            assert_eq!(decided.is_ok(), stands_in, "{hits:?}");
            assert!(stands_in || matches!(decided, Err(Trouble::Unavailable(_))), "{decided:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_of_the_requests_own_is_answered_without_the_store_too() {
        let snapshot = with_rules("own", "domain: edge");
        let limit = Some(OwnLimit { requests_per_unit: 5, unit: Unit::Hour });
        for left in [4, 3] {
            let descriptors =
                SmallVec::from_iter([Descriptor { limit, ..descriptor("any", "ann") }]);
            let request = Request { domain: "edge", descriptors };
            let asker = Asker::new(&snapshot, Some(Duration::from_millis(15)));
            let ruling = decide(&snapshot, &request, asker).await.unwrap();
            assert_eq!(ruling.statuses[0].remaining, left);
        }
    }
}
