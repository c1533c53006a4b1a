//! A breaker for each node of a real cluster: one that hangs or dies is left alone, and nobody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate::{
    BreakerOptions, BreakerState, Engine, Limit, OnStoreError, Policy, Source, StoreErrorKind,
};
use tidegate_redis::{NodeBreakerStatus, RedisOptions, RedisStore};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::support::{LONG_TIMEOUT, limit_of, take};
use tidegate_testkit::processes::{AGREEMENT_DEADLINE, ClusterShape, RedisCluster, RedisServer};

/// A node that has not answered by then hangs, however busy the machine is.
const LATE: Duration = Duration::from_secs(2);

/// A cluster, and two keys on different nodes.
struct Scene {
    cluster: RedisCluster,
    store: Arc<RedisStore>,
    engine: Arc<Engine>,
    key: &'static str,
    other: &'static str,
}

impl Scene {
    async fn start(replicas_each: usize, deadline: Duration, breaker: BreakerOptions) -> Self {
        let cluster = RedisCluster::start_with(ClusterShape { masters: 3, replicas_each });
        let options =
            RedisOptions { deadline, breaker: Some(breaker), ..RedisOptions::new(cluster.url()) };
        let store = Arc::new(RedisStore::new(options).unwrap());
        let policy = Policy::all().limit("", "1000000/h").on_store_error(OnStoreError::Allow);
        let engine = Engine::builder().store(store.clone()).policy("api", policy).build().unwrap();
        let scene = Self { cluster, store, engine: Arc::new(engine), key: "k", other: "user-1" };
        assert_ne!(scene.master_of(scene.key).port(), scene.master_of(scene.other).port());
        scene.until(scene.key, Source::Store).await;
        scene.until(scene.other, Source::Store).await;
        scene
    }

    /// Where only what takes longer than [`LATE`] is a failure.
    async fn with_long_deadline(replicas_each: usize) -> Self {
        let breaker = BreakerOptions { slow: LATE, ..BreakerOptions::default() };
        Self::start(replicas_each, LATE, breaker).await
    }

    /// Nodes that are well serve what they have, also while others are gone.
    fn without_full_coverage(self) -> Self {
        for node in self.cluster.nodes() {
            node.command(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]).text();
        }
        self
    }

    fn master_of(&self, key: &str) -> &RedisServer {
        let slot = self.cluster.slot_of(&format!("{{{}:{key}}}", key.len()));
        self.cluster.master_of_slot(slot)
    }

    async fn until(&self, key: &str, source: Source) {
        let start = Instant::now();
        while self.engine.check("api", key).await.unwrap().source != source {
            assert!(start.elapsed() < AGREEMENT_DEADLINE, "{key} is not answered by {source:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Asks for the key, several times at once, until the breaker of its node opens.
    async fn until_open(&self, node: &RedisServer) {
        let start = Instant::now();
        while self.breaker_of(node).unwrap().state == BreakerState::Closed {
            assert!(start.elapsed() < LONG_TIMEOUT, "the breaker stays closed");
            let replies: Vec<_> = (0..5).map(|_| self.engine.check("api", self.key)).collect();
            for reply in replies {
                reply.await.unwrap();
            }
        }
    }

    fn breaker_of(&self, node: &RedisServer) -> Option<NodeBreakerStatus> {
        let address = node.address();
        self.store.breakers().into_iter().find(|breaker| breaker.node == address)
    }

    /// Who has opened, ever.
    fn opened(&self) -> Vec<String> {
        let opened = self.store.breakers().into_iter().filter(|breaker| breaker.opened_total > 0);
        opened.map(|breaker| breaker.node).collect()
    }
}

/// Asks for one key all the time, and says where its answers came from that did not come from the store.
struct Asker {
    stop: Arc<AtomicBool>,
    task: JoinHandle<(u64, Vec<Source>)>,
}

impl Asker {
    fn start(scene: &Scene, key: &'static str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (engine, stopped) = (scene.engine.clone(), stop.clone());
        let task = tokio::spawn(async move {
            let (mut asked, mut others) = (0, Vec::new());
            while !stopped.load(Ordering::Relaxed) {
                let source = engine.check("api", key).await.unwrap().source;
                asked += 1;
                others.extend((source != Source::Store).then_some(source));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            (asked, others)
        });
        Self { stop, task }
    }

    async fn end(self) -> (u64, Vec<Source>) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_hangs_is_left_alone_and_the_others_decide_as_ever() {
    let scene = Scene::with_long_deadline(0).await.without_full_coverage();
    let others = Asker::start(&scene, scene.other);
    let hung = scene.master_of(scene.key);
    hung.pause();
    scene.until_open(hung).await;
    for _ in 0..1_000 {
        // The answer is there at once, also while probes are under way.
        let answer = scene.engine.check("api", scene.key).now().unwrap();
        assert_eq!(answer.source, Source::FailOpen);
    }
    let error = take(&scene.store, scene.key, &limit_of(5)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::BreakerOpen, "{error}");
    assert_eq!(scene.opened(), [hung.address()]);
    hung.resume();
    scene.until(scene.key, Source::Store).await;
    let breaker = scene.breaker_of(hung).unwrap();
    assert_eq!((breaker.state, breaker.opened_total), (BreakerState::Closed, 1));
    assert_eq!(scene.opened(), [hung.address()]);
    let (asked, elsewhere) = others.end().await;
    assert!(asked > 0 && elsewhere.is_empty(), "{asked} asked, {elsewhere:?}");
}

#[tokio::test]
async fn with_the_defaults_a_node_that_hangs_is_waited_for_no_longer_than_one_server() {
    let scene = Scene::start(0, Duration::from_millis(20), BreakerOptions::default()).await;
    let hung = scene.master_of(scene.key);
    hung.pause();
    let paused = Instant::now();
    while scene.breaker_of(hung).unwrap().state == BreakerState::Closed {
        let start = Instant::now();
        scene.engine.check("api", scene.key).await.unwrap();
        assert!(start.elapsed() < LATE, "an answer took {:?}", start.elapsed());
        assert!(paused.elapsed() < LONG_TIMEOUT, "the breaker stays closed");
    }
    for _ in 0..1_000 {
        assert_eq!(scene.engine.check("api", scene.key).now().unwrap().source, Source::FailOpen);
    }
    hung.resume();
    scene.until(scene.key, Source::Store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_leaves_the_breaker_behind() {
    let scene = Scene::with_long_deadline(1).await.without_full_coverage();
    let others = Asker::start(&scene, scene.other);
    let dead = scene.master_of(scene.key);
    let heirs = scene.cluster.replicas_of(dead);
    let hold_back = |value: &str| {
        let option = "cluster-replica-no-failover";
        for heir in &heirs {
            heir.command(&["CONFIG", "SET", option, value]).text();
        }
    };
    // Nobody takes over before the breaker was looked at.
    hold_back("yes");
    dead.kill();
    scene.until_open(dead).await;
    assert_eq!(scene.opened(), [dead.address()]);
    hold_back("no");
    scene.until(scene.key, Source::Store).await;
    let left = async {
        while scene.breaker_of(dead).is_some() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(LONG_TIMEOUT, left).await.expect("the dead node is still asked");
    assert_eq!(scene.opened(), [""; 0]);
    let (asked, elsewhere) = others.end().await;
    assert!(asked > 0 && elsewhere.is_empty(), "{asked} asked, {elsewhere:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_down_is_told_by_its_name() {
    let scene = Scene::with_long_deadline(0).await;
    let (dead, other) = (scene.master_of(scene.key), scene.master_of(scene.other));
    let other = other.address();
    dead.kill();
    let down = async {
        let mut in_a_row = 0;
        while in_a_row < 50 {
            let error = take(&scene.store, scene.other, &limit_of(1_000_000)).await.err();
            let trouble = error.map(|error| error.kind());
            in_a_row = if trouble == Some(StoreErrorKind::ClusterDown) { in_a_row + 1 } else { 0 };
            assert_ne!(trouble, Some(StoreErrorKind::BreakerOpen));
        }
    };
    tokio::time::timeout(LONG_TIMEOUT, down).await.expect("the cluster never says that it is down");
    assert!(!scene.opened().contains(&other));
    dead.restart();
    scene.until(scene.key, Source::Store).await;
    scene.until(scene.other, Source::Store).await;
}

/// More work at once than the deadline has room for: what gets no turn fails, and says nothing about the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_that_is_too_much_for_the_deadline_does_not_open_the_breaker() {
    let server = RedisServer::start();
    // Only what is never sent counts here: no percentile, and no single slow call.
    let (failures, min_calls, slow) = (100, u64::MAX, Duration::from_millis(20));
    let breaker = BreakerOptions { failures, min_calls, slow, ..BreakerOptions::default() };
    let deadline = Duration::from_millis(300);
    let options =
        RedisOptions { deadline, breaker: Some(breaker), ..RedisOptions::new(server.url()) };
    let store = Arc::new(RedisStore::new(options).unwrap());
    let window: Limit = "sliding-window 1000000/h buckets 1000".parse().unwrap();
    let connected = async { while take(&store, "warm", &window).await.is_err() {} };
    tokio::time::timeout(LONG_TIMEOUT, connected).await.unwrap();
    let replies: Vec<_> = (0..3_000)
        .map(|n| {
            let (store, window, key) = (store.clone(), window.clone(), format!("key-{n}"));
            tokio::spawn(async move { take(&store, &key, &window).await })
        })
        .collect();
    let (mut decided, mut not_sent) = (0, 0);
    for reply in replies {
        match reply.await.unwrap() {
            Ok(_) => decided += 1,
            Err(error) => not_sent += u32::from(error.kind() == StoreErrorKind::NotSent),
        }
    }
    assert!(decided > 0 && not_sent > 1_000, "{decided} decided, {not_sent} got no turn");
    let NodeBreakerStatus { state, opened_total, .. } = &store.breakers()[0];
    assert_eq!((*state, *opened_total), (BreakerState::Closed, 0));
}
