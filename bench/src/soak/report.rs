//! The results as tables, and which marks they keep.

use tidegate_bench::report::{Better, Cell, Figure, Report, Table};

use crate::fleet::Fleet;
use crate::load::Door;
use crate::trend::Trend;
use crate::watch::{Run, Sample};
use crate::{P99_MARK_MS, RATE_MARK, SIDECAR_MARK_MB, traffic};

/// The steps of the search.
pub(crate) fn search() -> Table {
    let columns = [
        "answered/s",
        "p99, ms",
        "errors",
        "decided without Redis",
        "other programs, cores",
        "kept",
    ];
    Table::new("search", "requests/s", columns)
}

pub(crate) fn add_step(table: &mut Table, run: &Run, (rate, how): (f64, &str), is_kept: bool) {
    let tally = &run.tally;
    let others = run.cpu.others() / tally.took.as_secs_f64();
    let cells = [
        Figure::neither("", &[tally.rate()]).into(),
        Figure::less("", &[tally.p99_ms()]).into(),
        Figure::count("", tally.errors()).into(),
        Figure::count("", run.without_redis()).into(),
        Figure::neither("", &[others]).into(),
        kept(is_kept),
    ];
    table.row(format!("{rate:.0}{how}"), cells);
}

fn kept(is_kept: bool) -> Cell {
    if is_kept { "yes" } else { "no" }.into()
}

pub(crate) fn add(report: &mut Report, run: &Run, fleet: &Fleet) {
    for table in [doors(run), sources(run), processors(run), memory(run), marks(run, fleet)] {
        report.add(&table);
    }
    if let Some(error) = &run.tally.first_error {
        println!("The first error: {error}");
    }
}

fn doors(run: &Run) -> Table {
    let columns = ["requests/s", "p50, ms", "p99, ms", "p99.9, ms", "allowed", "denied", "errors"];
    let mut table = Table::new("doors", "door", columns);
    for door in Door::ALL {
        let name = match door {
            Door::Http => "HTTP",
            Door::Resp => "RESP, pipeline 16",
            Door::Grpc => "gRPC",
        };
        let tally = &run.tally.doors[door as usize];
        let rate = tally.answers() as f64 / run.tally.took.as_secs_f64();
        let ms = |permille| Figure::less("", &[tally.ms(permille)]).into();
        let cells = [
            Figure::neither("", &[rate]).into(),
            ms(500),
            ms(990),
            ms(999),
            Figure::count("", tally.allowed).into(),
            Figure::count("", tally.denied).into(),
            Figure::count("", tally.errors).into(),
        ];
        table.row(name, cells);
    }
    table
}

fn sources(run: &Run) -> Table {
    let mut table = Table::new("sources", "decided by", ["decisions", "share"]);
    let all: u64 = run.sources.iter().map(|(_, count)| count).sum();
    for (source, count) in &run.sources {
        let share = *count as f64 / all as f64 * 100.0;
        let share = Figure::neither("%", &[share]).decimals(1).into();
        table.row(source.clone(), [Figure::count("", *count).into(), share]);
    }
    table
}

fn processors(run: &Run) -> Table {
    let (cpu, count) = (&run.cpu, std::thread::available_parallelism().map_or(1, usize::from));
    let columns = [format!("cores, of {count}"), "share".to_owned(), "µs per request".to_owned()];
    let mut table = Table::new("processors", "processor time", columns);
    for (name, seconds) in [
        ("three nodes", cpu.nodes),
        ("three Redis primaries", cpu.primaries),
        ("three Redis replicas", cpu.replicas),
        ("the load", cpu.generator),
        ("an idle sidecar", cpu.sidecar),
        ("other programs, the host, interrupts", cpu.others()),
    ] {
        let cores = seconds / run.tally.took.as_secs_f64();
        let (share, us) = (cores / count as f64, seconds * 1e6 / run.tally.answers() as f64);
        let cells = [
            Figure::less("", &[cores]).decimals(3).into(),
            Figure::less("%", &[share * 100.0]).decimals(1).into(),
            Figure::less("", &[us]).into(),
        ];
        table.row(name, cells);
    }
    table
}

/// The resident memory of the nodes. The first third is left out of the slope: until then caches fill.
fn memory(run: &Run) -> Table {
    let settled = &run.samples[run.samples.len() / 3..];
    let columns =
        ["first", "lowest", "highest", "last", "slope per minute", "… its standard error"];
    let mut table = Table::new("memory", "memory, MB", columns);
    for node in 0..run.samples.first().map_or(0, |first| first.resident_mb.len()) {
        let of = |sample: &Sample| sample.resident_mb[node];
        let all: Vec<f64> = run.samples.iter().map(of).collect();
        let (lowest, highest) = all
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(low, high), mb| (low.min(*mb), high.max(*mb)));
        let points: Vec<_> = settled.iter().map(|it| (it.at_s / 60.0, of(it))).collect();
        let trend = Trend::through(&points);
        let slope = |of: fn(&Trend) -> f64| -> Cell {
            trend.as_ref().map(|trend| Figure::less("", &[of(trend)]).decimals(3)).into()
        };
        let mb = |mb| Figure::less("", &[mb]).into();
        let cells = [
            mb(all[0]),
            mb(lowest),
            mb(highest),
            mb(all[all.len() - 1]),
            slope(|trend| trend.slope),
            slope(|trend| trend.standard_error),
        ];
        table.row(format!("node {}", node + 1), cells);
    }
    table
}

fn marks(run: &Run, fleet: &Fleet) -> Table {
    let (tally, idle_mb) = (&run.tally, fleet.sidecar.resident_mb());
    let (mut most, mut least, mut over) = (0.0_f64, f64::INFINITY, 0);
    for (abused, admitted) in tally.admitted.iter().enumerate() {
        let allowed = traffic::allowed_in(abused, tally.took);
        let used = *admitted as f64 / allowed as f64 * 100.0;
        (most, least) = (most.max(used), least.min(used));
        over += admitted.saturating_sub(allowed);
    }
    let mut table = Table::new("marks", "", ["measured", "mark", "kept"]);
    let mut row = |name: &str, better, figure: f64, mark: f64| {
        let (sign, is_kept) = match better {
            Better::More => ("≥ ", figure >= mark),
            _ => ("≤ ", figure <= mark),
        };
        let sign = if mark == 0.0 { "" } else { sign };
        let cells = [
            Figure::new(better, "", &[figure]).into(),
            format!("{sign}{mark}").into(),
            kept(is_kept),
        ];
        table.row(name, cells);
    };
    row("requests/s", Better::More, tally.rate(), RATE_MARK);
    row("… in the lowest ten seconds", Better::More, run.lowest_window(), RATE_MARK);
    row("p99 of the slowest door, ms", Better::Less, tally.p99_ms(), P99_MARK_MS);
    row("errors, 5xx included", Better::Less, tally.errors() as f64, 0.0);
    row("decided without Redis", Better::Less, run.without_redis() as f64, 0.0);
    row("admitted of abused keys above their limits", Better::Less, over as f64, 0.0);
    row("refused to ordinary keys", Better::Less, tally.ordinary_denied as f64, 0.0);
    row("an idle sidecar, MB", Better::Less, idle_mb, SIDECAR_MARK_MB);
    let unmarked = |cell: Cell| [cell, Cell::Empty, Cell::Empty];
    let own_mb = Figure::less("", &[fleet.sidecar.anonymous_mb()]);
    table.row("… without the pages of the program file", unmarked(own_mb.into()));
    let shares = format!("{least:.1} – {most:.1} %");
    table.row("abused keys, of what their limits allow", unmarked(shares.into()));
    table
}
