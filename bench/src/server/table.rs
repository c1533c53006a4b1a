//! The results as tables, with ratios of rounds that ran side by side.

use tidegate_bench::median;
use tidegate_bench::report::{Cell, Figure, Table};

use crate::contender::{Contender, Kind};
use crate::load::Wire;

/// The figures of one contender, one per round.
#[derive(Clone, Default)]
pub(crate) struct Figures {
    rates: Vec<f64>,
    p50_us: Vec<f64>,
    p99_us: Vec<f64>,
    cpu_us: Vec<f64>,
    pub(crate) half_us: Vec<f64>,
}

impl Figures {
    pub(crate) fn add(&mut self, rate: f64, p50_us: f64, p99_us: f64, cpu_us: f64) {
        self.rates.push(rate);
        self.p50_us.push(p50_us);
        self.p99_us.push(p99_us);
        self.cpu_us.push(cpu_us);
    }

    /// Requests per second.
    pub(crate) fn rate(&self) -> f64 {
        median(&self.rates)
    }
}

/// Every contender of one door; the ratios say how tidegate compares with each.
pub(crate) fn of_door(wire: Wire, contenders: &[&Contender], rows: &[Figures]) -> Table {
    let columns = [
        "requests/s",
        "p50",
        "p99",
        "CPU per request",
        "p99 at half of that load",
        "tidegate's requests beside it",
        "tidegate's CPU beside its",
    ];
    let mut table = Table::new(wire.id(), wire.to_string(), columns);
    let ours = find(contenders, rows, Kind::Tidegate);
    for (contender, row) in contenders.iter().zip(rows) {
        let peer = (contender.kind() != Kind::Tidegate).then_some(row);
        let cells = [
            Figure::more("", &row.rates).into(),
            Figure::less("µs", &row.p50_us).into(),
            Figure::less("µs", &row.p99_us).into(),
            Figure::less("µs", &row.cpu_us).into(),
            (!row.half_us.is_empty()).then(|| Figure::less("µs", &row.half_us)).into(),
            beside(ours, peer).into(),
            cpu_beside(ours, peer).into(),
        ];
        table.row(contender.name(), cells);
    }
    table
}

/// tidegate at every door, beside the others.
pub(crate) fn of_doors() -> Table {
    let columns = [
        "requests/s",
        "CPU per request",
        "beside the floor",
        "beside throttlecrab",
        "CPU beside throttlecrab",
    ];
    let now = ["now / before", "CPU now / before"];
    let now = now.into_iter().filter(|_| Contender::all().contains(&Kind::Before));
    Table::new("doors", "door", columns.into_iter().chain(now))
}

pub(crate) fn add_door(table: &mut Table, wire: Wire, contenders: &[&Contender], rows: &[Figures]) {
    let of = |kind| find(contenders, rows, kind);
    let Some(ours) = of(Kind::Tidegate) else { return };
    let [floor, crab] = [of(Kind::Floor(wire.door())), of(Kind::Throttlecrab)];
    let mut cells: Vec<Cell> = vec![
        Figure::more("", &ours.rates).into(),
        Figure::less("µs", &ours.cpu_us).into(),
        beside(Some(ours), floor).into(),
        beside(Some(ours), crab).into(),
        cpu_beside(Some(ours), crab).into(),
    ];
    if Contender::all().contains(&Kind::Before) {
        let before = of(Kind::Before);
        cells.extend([beside(Some(ours), before).into(), cpu_beside(Some(ours), before).into()]);
    }
    table.row(wire.name(), cells);
}

fn find<'a>(contenders: &[&Contender], rows: &'a [Figures], kind: Kind) -> Option<&'a Figures> {
    let at = contenders.iter().position(|it| it.kind() == kind)?;
    rows.get(at)
}

fn beside(ours: Option<&Figures>, peer: Option<&Figures>) -> Option<Figure> {
    Some(Figure::ratio(&ours?.rates, &peer?.rates))
}

fn cpu_beside(ours: Option<&Figures>, peer: Option<&Figures>) -> Option<Figure> {
    Some(Figure::cost_ratio(&ours?.cpu_us, &peer?.cpu_us))
}
