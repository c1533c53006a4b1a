//! Our client beside the clients of the redis crate, which send one `EVALSHA` per check: on one server, and on a cluster
//! of three masters. They show what the queue that batches checks gains, and what our own slot map costs.

use redis::aio::ConnectionLike;
use redis::cluster::ClusterClient;
use tidegate_bench::own_cpu_s;
use tidegate_bench::report::Cell;
use tidegate_testkit::processes::{ClusterShape, RedisCluster, RedisServer};

use super::*;

pub(crate) async fn compare(report: &mut Report) {
    let columns = ["decisions/s", "ratio", "client's CPU per decision", "ratio of CPU"];
    let mut table = Table::new("library", "beside the redis crate", columns);
    let server = RedisServer::start();
    let client = redis::Client::open(server.url()).expect("a URL");
    let connection = client.get_multiplexed_async_connection().await.expect("a connection");
    rows(&mut table, "one server", server.url(), &[&server], connection).await;
    drop(server);
    let cluster = RedisCluster::start_with(ClusterShape { masters: 3, replicas_each: 0 });
    let nodes: Vec<_> = cluster.nodes().iter().collect();
    let urls = nodes.iter().map(|node| format!("redis://{}", node.address()));
    let client = ClusterClient::new(urls).expect("URLs");
    let connection = client.get_async_connection().await.expect("a connection");
    rows(&mut table, "cluster of 3", cluster.url(), &nodes, connection).await;
    report.add(&table);
}

async fn rows(
    table: &mut Table,
    name: &str,
    url: String,
    nodes: &[&RedisServer],
    connection: impl ConnectionLike + Clone + Send + Sync + 'static,
) {
    let store = Arc::new(store(url));
    let script = include_str!("bare.lua");
    let loaded = nodes.iter().map(|node| node.command(&["SCRIPT", "LOAD", script]).text());
    let sha = loaded.last().expect("a node");
    for tasks in [CLIENTS, 256] {
        let (mut ours, mut theirs) = (vec![], vec![]);
        for round in 0..=ROUNDS {
            let bare = with_cpu(bare(&connection, &sha, tasks)).await;
            let rate = with_cpu(hammer(&store, tasks, LASTING)).await;
            // The first round is a warm-up.
            if round > 0 {
                theirs.push(bare);
                ours.push(rate);
            }
        }
        let parts = |row: &[Figures]| [rounds(row, |it| it.0), rounds(row, |it| it.1)];
        let ([rates, cpu], [their_rates, their_cpu]) = (parts(&ours), parts(&theirs));
        let theirs = [
            Figure::more("", &their_rates).into(),
            Cell::Empty,
            Figure::less("µs", &their_cpu).into(),
            Cell::Empty,
        ];
        let ours = [
            Figure::more("", &rates).into(),
            Figure::ratio(&rates, &their_rates).into(),
            Figure::less("µs", &cpu).into(),
            Figure::saving(&cpu, &their_cpu).into(),
        ];
        table.row(format!("{name}, the redis crate, {tasks} tasks"), theirs);
        table.row(format!("{name}, tidegate, {tasks} tasks"), ours);
    }
}

/// Decisions per second, and CPU microseconds of this process per decision.
type Figures = (f64, f64);

async fn with_cpu(round: impl Future<Output = f64>) -> Figures {
    let (cpu, start) = (own_cpu_s(), Instant::now());
    let rate = round.await;
    (rate, (own_cpu_s() - cpu) * 1e6 / (rate * start.elapsed().as_secs_f64()))
}

/// One `EVALSHA` per check. All tasks share one connection, which pipelines them.
async fn bare(
    connection: &(impl ConnectionLike + Clone + Send + Sync + 'static),
    sha: &str,
    tasks: usize,
) -> f64 {
    let (connection, sha) = (connection.clone(), sha.to_owned());
    rate(tasks, move |number| {
        let (mut connection, mut cmd) = (connection.clone(), redis::cmd("EVALSHA"));
        let key = key(scatter(number) % KEYS);
        cmd.arg(&sha).arg(1).arg(key).arg(&LASTING_BARE[..]);
        async move {
            let _: Vec<i64> = cmd.query_async(&mut connection).await.expect("a reply");
        }
    })
    .await
}
