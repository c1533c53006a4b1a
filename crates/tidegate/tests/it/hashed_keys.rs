//! Keys as hashes: the store sees nothing else, limits and overrides hold as before.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::{
    Check, Decision, Engine, HashedKeys, Key, KeyHasher, MemoryStore, MultiCharge, Op, Override,
    Policy, Question, RemoteStore, ReserveReply, ReserveRequest, Scope, Store, StoreExtensions,
    StoreReply, StoreRequest, StoreResult, Timestamp,
};

/// Remembers every key that it is given.
#[derive(Clone, Debug, Default)]
struct Nosy {
    store: Arc<MemoryStore>,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Nosy {
    fn note<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) {
        self.seen.lock().unwrap().extend(keys.map(<[u8]>::to_vec));
    }
}

impl Store for Nosy {
    fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        self.note(request.limits.iter().map(|keyed| keyed.key));
        self.store.decide(request, now)
    }

    fn decide_each(&self, charges: &MultiCharge<'_>, now: Timestamp) -> StoreResult<Vec<Decision>> {
        self.note(charges.limits.iter().map(|charge| charge.keyed.key));
        self.store.decide_each(charges, now)
    }

    fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        self.note(std::iter::once(request.key));
        self.store.reserve(request, now)
    }

    fn prefetch(&self, _: &Scope, key: &[u8]) {
        self.note(std::iter::once(key));
    }

    fn extensions(&self) -> StoreExtensions<'_> {
        StoreExtensions { remote: Some(self), ..self.store.extensions() }
    }
}

/// Its variants are as nosy.
impl RemoteStore for Nosy {
    fn replicated(&self, _: tidegate::Replicas) -> Option<Arc<dyn Store>> {
        Some(Arc::new(self.clone()))
    }

    fn within(&self, _: Duration) -> Option<Arc<dyn Store>> {
        Some(Arc::new(self.clone()))
    }
}

fn engine(store: impl Store + 'static) -> Engine {
    Engine::builder()
        .store(store)
        .policy("api", "5/h")
        .policy("plan", Policy::all().limit("second", "5/s").limit("day", "9/day"))
        .policy("signup", Policy::all().limit_by("ip", "ip", "5/h").limit_by("user", "user", "5/h"))
        .policy("jobs", "concurrency 5")
        .policy("queue", Policy::shaper("5/h max-wait 9h"))
        .policy("quick", Policy::all().limit("", "5/h").deadline(Duration::from_millis(7)))
        .policy("copied", Policy::all().limit("", "5/h").replicas(tidegate::Replicas::default()))
        .build()
        .unwrap()
}

/// Asks everything that can be asked about one caller.
fn ask_everything(engine: &Engine) {
    for policy in ["api", "plan", "quick", "copied"] {
        for op in [Op::Take, Op::Peek, Op::Refund, Op::Reset] {
            let check = Check { policy, key: Key::One(b"ann"), cost: 1 };
            engine.ask(&check, op).now().unwrap();
        }
    }
    let both: [(&str, &[u8]); 2] = [("ip", b"ann"), ("user", b"ann")];
    let signup = Check { policy: "signup", key: Key::Named(&both), cost: 1 };
    engine.ask(&signup, Op::Take).now().unwrap();
    let acquired = engine.acquire("jobs", "ann").now().unwrap();
    drop(acquired);
    let queued = engine.reserve(&Check { policy: "queue", key: Key::One(b"ann"), cost: 1 });
    assert!(queued.now().unwrap().accepted());
    let question = |policy| Question {
        policy: engine.policy_ref(policy).unwrap(),
        key: Key::One(b"ann"),
        cost: 1,
        limit: None,
    };
    engine.decide_together(&[question("api"), question("plan")], Op::Take).now().unwrap();
}

#[test]
fn the_store_sees_hashes_only_and_without_them_every_identifier() {
    let hasher = KeyHasher::new([7; 16]);
    let hash = hasher.hash("ann").into_bytes();
    let nosy = Nosy::default();
    ask_everything(&engine(HashedKeys::new(Arc::new(nosy.clone()), hasher)));
    let seen = nosy.seen.lock().unwrap();
    assert!(seen.len() > 20 && seen.iter().all(|key| *key == hash), "{seen:?}");
    let nosy = Nosy::default();
    ask_everything(&engine(nosy.clone()));
    let seen = nosy.seen.lock().unwrap();
    assert!(seen.iter().all(|key| key == b"ann"), "the control");
}

#[test]
fn overrides_are_set_by_the_key_and_kept_by_its_hash() {
    let hasher = KeyHasher::new([7; 16]);
    let store = Arc::new(MemoryStore::default());
    let node = || engine(HashedKeys::new(store.clone(), hasher.clone()));
    let (here, there) = (node(), node());
    here.overrides().set("api", "mallory", "block", None).now().unwrap();
    here.overrides().set("api", "10.0.0.0/8", "block", None).now().unwrap();
    there.overrides().refresh().now().unwrap();
    let allowed =
        |engine: &Engine, key: &str| engine.check("api", key).now().unwrap().decision.allowed();
    for engine in [&here, &there, &here.successor().policy("api", "5/h").build().unwrap()] {
        assert!(!allowed(engine, "mallory") && !allowed(engine, "10.1.2.3"));
        assert!(allowed(engine, "ann") && allowed(engine, "11.1.2.3"));
        // Who sends the hash of another is not taken for them.
        assert!(allowed(engine, &hasher.hash("mallory")));
    }
    let keys = |engine: &Engine| -> Vec<String> {
        let all = engine.overrides().list().now().unwrap();
        all.iter().map(|it| String::from_utf8_lossy(&it.key).into_owned()).collect()
    };
    assert_eq!(keys(&there), [hasher.hash("mallory"), "10.0.0.0/8".to_owned()]);
    assert!(there.overrides().get("api", "mallory").now().unwrap().is_some());
    assert!(there.overrides().get("api", hasher.hash("mallory").as_str()).now().unwrap().is_some());
    assert!(there.overrides().remove("api", "mallory").now().unwrap());
    assert!(there.overrides().remove("api", "10.0.0.0/8").now().unwrap());
    here.overrides().refresh().now().unwrap();
    assert!(allowed(&here, "mallory") && keys(&here).is_empty());
}

#[test]
fn overrides_of_a_policy_match_before_keys_are_hashed() {
    let store = HashedKeys::new(Arc::new(MemoryStore::default()), KeyHasher::new([7; 16]));
    let policy = Policy::all().limit("", "5/h").with_override("mallory", Override::Block);
    let engine = Engine::builder().store(store).policy("api", policy).build().unwrap();
    assert!(!engine.check("api", "mallory").now().unwrap().decision.allowed());
}
