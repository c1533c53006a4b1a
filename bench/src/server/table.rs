//! The results as a table, with ratios of rounds that ran side by side.

use tidegate_bench::median;

use crate::contender::Contender;

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

pub(crate) fn print(contenders: &[&Contender], rows: &[Figures]) {
    println!(
        "| | requests/s | p50, µs | p99, µs | CPU per request, µs | p99 at half of that load, µs |"
    );
    println!("|---|--:|--:|--:|--:|--:|");
    for (contender, row) in contenders.iter().zip(rows) {
        let half = match &row.half_us[..] {
            [] => "–".to_owned(),
            half => format!("{:.0}", median(half)),
        };
        let (p50, p99, cpu) = (median(&row.p50_us), median(&row.p99_us), median(&row.cpu_us));
        println!(
            "| {} | {:.0} | {p50:.0} | {p99:.0} | {cpu:.2} | {half} |",
            contender.name(),
            row.rate()
        );
    }
    let Some(ours) = contenders.iter().position(|it| it.is_ours()) else { return };
    for (index, other) in contenders.iter().enumerate().filter(|(index, _)| *index != ours) {
        let ratio = |of: fn(&Figures) -> &Vec<f64>| {
            let pairs = of(&rows[ours]).iter().zip(of(&rows[index]));
            median(&pairs.map(|(a, b)| a / b).collect::<Vec<_>>())
        };
        let (rate, cpu) = (ratio(|row| &row.rates), ratio(|row| &row.cpu_us));
        println!(
            "\nBeside {}: {rate:.2} × the requests, {cpu:.2} × the CPU for each",
            other.name()
        );
    }
}
