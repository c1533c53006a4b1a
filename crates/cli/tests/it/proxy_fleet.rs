//! `proxy.in_flight`: the most requests at the upstream, however many proxies there are.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Response;
use tokio::sync::Semaphore;

use crate::processes::{DEADLINE, PostgresServer, RedisServer, wait_until};
use crate::programs::free_port;
use crate::proxy_support::{Origin, Proxy};
use crate::support::{Folder, run};

/// An app that answers one request per opening of its gate, and counts those that it works on.
struct App {
    origin: Origin,
    gate: Arc<Semaphore>,
    now: Arc<AtomicU32>,
    most: Arc<AtomicU32>,
}

/// A request at the app, until it is answered or its connection is gone.
struct AtWork(Arc<AtomicU32>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl App {
    fn start() -> Self {
        let gate = Arc::new(Semaphore::new(0));
        let (now, most) = (Arc::<AtomicU32>::default(), Arc::<AtomicU32>::default());
        let (opened, counts) = (gate.clone(), (now.clone(), most.clone()));
        let origin = Origin::start(move |_| {
            let (opened, (now, most)) = (opened.clone(), counts.clone());
            async move {
                most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                let _at_work = AtWork(now);
                opened.acquire().await.unwrap().forget();
                Response::new(Body::from("done"))
            }
        });
        Self { origin, gate, now, most }
    }

    fn now(&self) -> u32 {
        self.now.load(SeqCst)
    }

    fn most(&self) -> u32 {
        self.most.load(SeqCst)
    }
}

/// A store that answers however busy the machine is.
fn patient(redis: &RedisServer) -> String {
    patient_at(&redis.url())
}

fn patient_at(url: &str) -> String {
    format!("store: {{ url: \"{url}\", deadline: 10s, breaker: false }}\n")
}

/// A store with the default deadline and breaker, which one slow answer exceeds.
fn default_store(redis: &RedisServer) -> String {
    format!("store: {{ url: \"{}\", nodes: 2 }}\n", redis.url())
}

fn goes_by_share(proxy: &Proxy) -> bool {
    proxy.metric("tidegate_proxy_places_local") == Some(1.0)
}

fn proxy(app: &App, in_flight: &str, store: &str) -> Proxy {
    let folder = Folder::new();
    Proxy::start(&folder, &app.origin.url(), &format!(", in_flight: {in_flight}"), store)
}

/// Sends a request in the background; its status, unless the connection breaks.
fn ask(proxy: &Proxy) -> JoinHandle<Option<u16>> {
    let answer = ask_as(proxy, "");
    std::thread::spawn(move || answer.join().unwrap()?.split(' ').nth(1)?.parse().ok())
}

/// The same with more headers; the whole answer.
fn ask_as(proxy: &Proxy, headers: &str) -> JoinHandle<Option<String>> {
    let addr = proxy.server.addr;
    let request = format!("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
    std::thread::spawn(move || {
        let mut stream = TcpStream::connect(addr).ok()?;
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    })
}

/// Stops a proxy, and waits until each of its threads has: on a busy machine some go on for a moment.
fn freeze(proxy: &Proxy) {
    proxy.server.signal("STOP");
    let tasks = format!("/proc/{}/task", proxy.server.pid());
    let is_stopped = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("State:\tT"))
    };
    wait_until("all its threads stand still", DEADLINE, || {
        fs::read_dir(&tasks).unwrap().all(|task| is_stopped(task.unwrap()))
    });
}

/// Asks until so many requests are at the app: with the default deadline an answer of Redis may be late.
fn take(proxy: &Proxy, app: &App, count: usize) -> Vec<JoinHandle<Option<u16>>> {
    let mut asked: Vec<JoinHandle<Option<u16>>> = Vec::new();
    wait_until("they are passed on", DEADLINE, || {
        asked.retain(|asked| !asked.is_finished());
        if asked.len() < count {
            asked.push(ask(proxy));
        }
        app.now() == u32::try_from(count).unwrap()
    });
    asked
}

/// How many of these were refused so far.
fn refused(asked: &[JoinHandle<Option<u16>>]) -> usize {
    asked.iter().filter(|asked| asked.is_finished()).count()
}

fn count(statuses: &[Option<u16>], wanted: u16) -> usize {
    statuses.iter().filter(|status| **status == Some(wanted)).count()
}

fn statuses(asked: Vec<JoinHandle<Option<u16>>>) -> Vec<Option<u16>> {
    let mut statuses: Vec<_> = asked.into_iter().map(|asked| asked.join().unwrap()).collect();
    statuses.sort_unstable();
    statuses
}

#[test]
fn two_proxies_pass_on_as_many_requests_as_the_fleet_may() {
    for (in_flight, most, rest) in [
        ("{ max: 4, scope: fleet }", 4, 8),
        // The control: each proxy counts for itself.
        ("{ max: 4 }", 8, 4),
    ] {
        let (redis, app) = (RedisServer::start(), App::start());
        let both = [(); 2].map(|()| proxy(&app, in_flight, &patient(&redis)));
        let asked: Vec<_> = (0..12).map(|number| ask(&both[number % 2])).collect();
        wait_until("the rest is refused", DEADLINE, || refused(&asked) == rest);
        wait_until("the others are passed on", DEADLINE, || app.now() == most);
        let sum = |series: &str| both.iter().map(|proxy| proxy.metric(series)).sum::<Option<f64>>();
        let in_use = sum(r#"tidegate_proxy_places{state="in_use"}"#);
        assert_eq!(in_use, Some(f64::from(most)), "{in_flight}");
        assert_eq!(sum("tidegate_proxy_places_max"), Some(8.0));
        let scope = if in_flight.contains("fleet") { "fleet" } else { "node" };
        let seen = both.iter().map(|proxy| proxy.status()["in_flight"].clone());
        let seen: Vec<_> = seen.collect();
        let places: u64 = seen.iter().map(|it| it["in_use"].as_u64().unwrap()).sum();
        assert_eq!(places, u64::from(most), "{seen:?}");
        for it in seen {
            assert_eq!(
                (&it["max"], &it["scope"], &it["local"]),
                (&4.into(), &scope.into(), &false.into())
            );
        }
        let shed = sum(r#"tidegate_proxy_shed_total{reason="proxy.in_flight"}"#);
        assert_eq!(shed, Some(f64::from(12 - most)), "{in_flight}");
        app.gate.add_permits(1000);
        let statuses = statuses(asked);
        assert_eq!(app.most(), most, "{in_flight}");
        assert_eq!((count(&statuses, 200), count(&statuses, 429)), (12 - rest, rest));
    }
}

#[test]
fn two_proxies_share_the_places_that_postgres_counts() {
    let (postgres, app) = (PostgresServer::start(), App::start());
    let store = patient_at(&postgres.url());
    let both = [(); 2].map(|()| proxy(&app, "{ max: 4, scope: fleet }", &store));
    let asked: Vec<_> = (0..12).map(|number| ask(&both[number % 2])).collect();
    wait_until("the rest is refused", DEADLINE, || refused(&asked) == 8);
    wait_until("the others are passed on", DEADLINE, || app.now() == 4);
    app.gate.add_permits(4);
    assert_eq!(count(&statuses(asked), 200), 4);
    app.gate.add_permits(1);
    wait_until("a place is free", DEADLINE, || ask(&both[1]).join().unwrap() == Some(200));
    assert_eq!((app.most(), both.iter().any(goes_by_share)), (4, false));
}

/// A pool of five lets ten through, and one of two four.
#[test]
fn the_smaller_of_both_bounds_on_requests_in_flight_counts() {
    for (max, pool, most) in [(3, 5, 3), (10, 2, 4)] {
        let app = App::start();
        let site = format!(
            "policies: {{ site: {{ limit: 1000/s, adaptive: {{ source: latency, in_flight: {pool} }} }} }}\n\
             routes: [{{ policy: site, key: global }}]\n"
        );
        let proxy = proxy(&app, &format!("{{ max: {max} }}"), &site);
        let asked: Vec<_> = (0..12).map(|_| ask(&proxy)).collect();
        wait_until("the rest is refused", DEADLINE, || refused(&asked) == 12 - most);
        wait_until("the others are passed on", DEADLINE, || app.now() as usize == most);
        app.gate.add_permits(most);
        assert_eq!(count(&statuses(asked), 200), most, "max {max}, a pool of {pool}");
    }
}

#[test]
fn one_proxy_gets_all_places_that_the_other_does_not_use() {
    let (redis, app) = (RedisServer::start(), App::start());
    let [busy, idle] = [(); 2].map(|()| proxy(&app, "{ max: 3, scope: fleet }", &patient(&redis)));
    for (one, other) in [(&busy, &idle), (&idle, &busy), (&busy, &idle)] {
        let mut held: Vec<JoinHandle<Option<u16>>> = Vec::new();
        wait_until("it has all places", DEADLINE, || {
            held.retain(|asked| !asked.is_finished());
            held.push(ask(one));
            app.now() == 3
        });
        wait_until("the rest is refused", DEADLINE, || held.len() - refused(&held) == 3);
        assert_eq!(ask(other).join().unwrap(), Some(429));
        app.gate.add_permits(3);
        wait_until("all are answered", DEADLINE, || held.iter().all(JoinHandle::is_finished));
        assert_eq!((app.now(), app.gate.available_permits()), (0, 0));
    }
    assert_eq!(app.most(), 3);
}

#[test]
fn the_places_of_a_killed_proxy_come_back() {
    let (redis, app) = (RedisServer::start(), App::start());
    let [mut killed, other] =
        [(); 2].map(|()| proxy(&app, "{ max: 2, scope: fleet }", &patient(&redis)));
    let held = [ask(&killed), ask(&killed)];
    wait_until("it has all places", DEADLINE, || app.now() == 2);
    assert_eq!(ask(&other).join().unwrap(), Some(429));
    killed.server.stop("KILL");
    wait_until("its connections are gone", DEADLINE, || app.now() == 0);
    app.gate.add_permits(2);
    for _ in 0..2 {
        wait_until("a place is free again", DEADLINE, || ask(&other).join().unwrap() == Some(200));
    }
    assert_eq!(app.most(), 2);
    drop(held);
}

/// It has not read some requests when it is stopped. When it goes on, its places are those of another proxy.
#[test]
fn a_proxy_that_was_stopped_passes_nothing_on_without_a_place() {
    let (redis, app) = (RedisServer::start(), App::start());
    let [stopped, other] =
        [(); 2].map(|()| proxy(&app, "{ max: 2, scope: fleet }", &patient(&redis)));
    let held = vec![ask(&stopped), ask(&stopped)];
    wait_until("it has all places", DEADLINE, || app.now() == 2);
    freeze(&stopped);
    let late = vec![ask(&stopped), ask(&stopped)];
    app.gate.add_permits(2);
    wait_until("the upstream has answered", DEADLINE, || app.now() == 0);
    let mut taken: Vec<JoinHandle<Option<u16>>> = Vec::new();
    wait_until("the other one has all places", DEADLINE, || {
        taken.retain(|asked| !asked.is_finished());
        taken.push(ask(&other));
        app.now() == 2
    });
    wait_until("the rest is refused", DEADLINE, || taken.len() - refused(&taken) == 2);
    stopped.server.signal("CONT");
    assert_eq!(statuses(held), [Some(200); 2], "they had a place when they were passed on");
    assert_eq!(statuses(late), [Some(429); 2]);
    assert_eq!(app.most(), 2);
    app.gate.add_permits(2);
    wait_until("all are answered", DEADLINE, || taken.iter().all(JoinHandle::is_finished));
}

/// A listener that accepts nothing, with a full queue: the kernel lets further connections wait.
fn full_listener(runtime: &tokio::runtime::Runtime) -> (TcpListener, Vec<TcpStream>) {
    let listener = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        socket.listen(1).unwrap().into_std().unwrap()
    });
    listener.set_nonblocking(false).unwrap();
    let addr = listener.local_addr().unwrap();
    let connect = || TcpStream::connect_timeout(&addr, Duration::from_secs(2)).ok();
    (listener, std::iter::from_fn(connect).take(16).collect())
}

/// Its request has a place and waits for a connection when it is stopped. When it goes on, its lease has ended.
#[test]
fn a_proxy_that_was_stopped_while_it_connected_passes_nothing_on() {
    let (redis, folder) = (RedisServer::start(), Folder::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (listener, _queued) = full_listener(&runtime);
    let url = format!("http://{}", listener.local_addr().unwrap());
    let page = folder.write("busy.html", "<title>Busy</title> number {{request_id}}");
    let options = format!(
        ", connect_timeout: 60s, in_flight: {{ max: 1, scope: fleet }}, shed_status: 503, refusal: {{ page: {page} }}"
    );
    let [stopped, other] =
        [(); 2].map(|()| Proxy::start(&folder, &url, &options, &patient(&redis)));
    let has_place =
        |proxy: &Proxy| proxy.metric(r#"tidegate_proxy_places{state="in_use"}"#) == Some(1.0);
    let late = ask_as(&stopped, "Accept: text/html\r\nX-Request-Id: r-7\r\n");
    wait_until("it has the place", DEADLINE, || has_place(&stopped));
    freeze(&stopped);
    let mut asked: Vec<JoinHandle<Option<u16>>> = Vec::new();
    wait_until("the other one has it", DEADLINE, || {
        asked.retain(|asked| !asked.is_finished());
        asked.push(ask(&other));
        has_place(&other)
    });
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream));
        }
    });
    stopped.server.signal("CONT");
    let late = late.join().unwrap().unwrap().to_ascii_lowercase();
    for part in ["http/1.1 503 ", "\r\nretry-after: ", "\r\ncache-control: no-store", " number r-7"]
    {
        assert!(late.contains(part), "like every refusal for want of capacity, {part}: {late}");
    }
    assert_eq!(count(&statuses(asked), 200), 1);
}

fn answer(mut stream: TcpStream) {
    let mut head = [0; 4096];
    if stream.read(&mut head).is_ok_and(|count| count > 0) {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
}

#[test]
fn without_the_store_each_proxy_has_its_share() {
    for (max, both_shares, rest) in [(6, 6, 4), (1, 2, 8)] {
        let app = App::start();
        let nowhere =
            format!("store: {{ url: \"redis://127.0.0.1:{}\", nodes: 2 }}\n", free_port());
        let in_flight = format!("{{ max: {max}, scope: fleet }}");
        let both = [(); 2].map(|()| proxy(&app, &in_flight, &nowhere));
        for proxy in &both {
            assert_eq!(ask(proxy).join().unwrap(), Some(429), "nobody knows yet what others hold");
            wait_until("it goes by its share", DEADLINE, || goes_by_share(proxy));
        }
        let asked: Vec<_> = (0..10).map(|number| ask(&both[number % 2])).collect();
        wait_until("the rest is refused", DEADLINE, || refused(&asked) == rest);
        wait_until("the others are passed on", DEADLINE, || app.now() == both_shares);
        assert!(both.iter().all(goes_by_share));
        app.gate.add_permits(1000);
        assert!(statuses(asked).iter().all(|it| matches!(it, Some(200 | 429))));
    }
}

/// Redis does not answer in time, several times, and is not away: the others still hold their places.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "whether Redis was paused shows in how long a proxy waits"
)]
fn slow_answers_of_the_store_give_no_place() {
    let (redis, app) = (RedisServer::start(), App::start());
    let store = default_store(&redis);
    let [holder, other] = [(); 2].map(|()| proxy(&app, "{ max: 4, scope: fleet }", &store));
    let held = take(&holder, &app, 4);
    let late = ["30", "30", "200"].map(|pause_ms| {
        wait_until("Redis answers it", DEADLINE, || {
            other.metric("tidegate_breaker_state") == Some(0.0)
        });
        redis.command(&["CLIENT", "PAUSE", pause_ms, "ALL"]);
        let began = Instant::now();
        let asked = statuses((0..2).map(|_| ask(&other)).collect());
        assert_eq!(asked, [Some(429); 2], "paused for {pause_ms} ms");
        let is_late = began.elapsed() >= Duration::from_millis(20);
        redis.command(&["PING"]); // answered when the pause is over
        is_late
    });
    assert!(late.contains(&true), "no answer was late");
    assert_eq!((app.most(), goes_by_share(&other)), (4, false));
    app.gate.add_permits(4);
    assert_eq!(statuses(held), [Some(200); 4]);
}

#[test]
fn a_proxy_goes_by_its_share_while_redis_is_away_and_counts_together_again() {
    let (redis, app) = (RedisServer::start(), App::start());
    let store = default_store(&redis);
    let both = [(); 2].map(|()| proxy(&app, "{ max: 4, scope: fleet }", &store));
    let is_answered = |proxy: &Proxy| {
        app.gate.add_permits(1);
        let answered = ask(proxy).join().unwrap();
        if answered != Some(200) {
            app.gate.try_acquire().unwrap().forget();
        }
        answered == Some(200)
    };
    let together = |proxy: &Proxy| is_answered(proxy) && !goes_by_share(proxy);
    wait_until("both count in Redis", DEADLINE, || both.iter().all(together));
    redis.kill();
    for proxy in &both {
        wait_until("it goes by its share", DEADLINE, || is_answered(proxy) && goes_by_share(proxy));
    }
    let asked: Vec<_> = (0..8).map(|number| ask(&both[number % 2])).collect();
    wait_until("the rest is refused", DEADLINE, || refused(&asked) == 4);
    wait_until("two each are passed on", DEADLINE, || app.now() == 4);
    app.gate.add_permits(4);
    assert_eq!(count(&statuses(asked), 200), 4);
    redis.restart();
    wait_until("they notice without a request", DEADLINE, || !both.iter().any(goes_by_share));
    wait_until("both count in Redis again", DEADLINE, || both.iter().all(together));
}

/// Redis comes back without its data, twice: what is under way then is known to the proxy alone.
#[test]
fn a_proxy_never_has_more_than_all_places_whatever_redis_has_lost() {
    let (redis, app) = (RedisServer::start(), App::start());
    let store = default_store(&redis);
    let proxy = proxy(&app, "{ max: 4, scope: fleet }", &store);
    let mut asked = take(&proxy, &app, 3);
    redis.kill();
    wait_until("it goes by its share", DEADLINE, || {
        assert_eq!(ask(&proxy).join().unwrap(), Some(429));
        goes_by_share(&proxy)
    });
    redis.restart();
    wait_until("it counts in Redis again", DEADLINE, || {
        asked.push(ask(&proxy));
        !goes_by_share(&proxy)
    });
    wait_until("all places are taken", DEADLINE, || {
        asked.push(ask(&proxy));
        app.now() == 4
    });
    asked.extend((0..8).map(|_| ask(&proxy)));
    wait_until("the rest is refused", DEADLINE, || refused(&asked) == asked.len() - 4);
    assert_eq!(app.now(), 4);
    app.gate.add_permits(1000);
    assert_eq!(count(&statuses(asked), 200), 4);
}

/// Redis comes back without its data while requests are under way: they count again before the other proxy takes their
/// places, and each place is free when its request has ended.
#[test]
fn requests_under_way_count_again_once_redis_has_lost_its_data() {
    let (redis, app) = (RedisServer::start(), App::start());
    let [busy, other] = [(); 2].map(|()| proxy(&app, "{ max: 6, scope: fleet }", &patient(&redis)));
    let asked: Vec<_> = (0..6).map(|_| ask(&busy)).collect();
    wait_until("all places are taken", DEADLINE, || app.now() == 6);
    redis.kill();
    redis.restart();
    let held = || {
        let keys = redis.command(&["KEYS", "*proxy.in_flight*places*"]).text();
        let held = |key: &str| redis.command(&["ZSCORE", key, "used"]).text().trim().parse().ok();
        -keys.lines().next().and_then(held).unwrap_or(0_i64)
    };
    wait_until("they count again", DEADLINE, || held() == 6);
    assert_eq!(ask(&other).join().unwrap(), Some(429));
    app.gate.add_permits(6);
    assert_eq!(statuses(asked), [Some(200); 6]);
    wait_until("their places are free", DEADLINE, || held() == 0);
    app.gate.add_permits(1);
    wait_until("the other one has a place", DEADLINE, || ask(&other).join().unwrap() == Some(200));
    assert_eq!(app.most(), 6);
}

#[test]
fn stores_and_upstreams_that_do_not_count_for_one_fleet_are_warned_of() {
    let shared = "redis://127.0.0.1:6379";
    let elsewhere = "http://app.internal:3000";
    for (upstream, warning) in [
        ("http://127.0.0.1:3000", Some("`http://127.0.0.1:3000`, also for another app")),
        ("http://LOCALHOST:3000", Some("also for another app")),
        ("http://[::1]:3000", Some("also for another app")),
        ("unix:/run/app.sock", Some("also for another app")),
        ("http://10.0.0.7:3000", None),
    ] {
        check_warning(shared, upstream, warning);
    }
    for (store, warning) in [
        (shared, None),
        ("postgres://tidegate@127.0.0.1/limits", None),
        ("memcached://127.0.0.1:11211", Some("memcached may forget places")),
        ("\"memory:\"", Some("counts this process alone")),
        ("{ url: \"redis://127.0.0.1:6379\", nodes: 200 }", None),
        ("{ url: \"redis://127.0.0.1:6379\", nodes: 201 }", Some("is less than `store.nodes`")),
    ] {
        check_warning(store, elsewhere, warning);
    }
}

fn check_warning(store: &str, upstream: &str, warning: Option<&str>) {
    let folder = Folder::new();
    let config = format!(
        "store: {store}\nlisten: {{ proxy: 127.0.0.1:8000 }}\n\
         proxy: {{ upstream: \"{upstream}\", in_flight: {{ max: 200, scope: fleet }} }}\n"
    );
    let output = run(&["validate", &folder.write("tidegate.yaml", config)]);
    let told = format!("{}{}", output.stdout, output.stderr);
    assert_eq!(output.code, Some(0), "{store} {upstream}: {told}");
    let is_told = told.contains("proxy.in_flight.");
    assert_eq!(is_told, warning.is_some(), "{store} {upstream}: {told}");
    assert!(warning.is_none_or(|warning| told.contains(warning)), "{store} {upstream}: {told}");
}
