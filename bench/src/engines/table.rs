//! Figures of rounds, as tables ready to paste into a page.

use tidegate_bench::median;

/// What was measured in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Decisions per second.
    pub(crate) rate: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// CPU time of the servers per decision.
    pub(crate) server_us: f64,
    /// CPU time of the askers' process per decision.
    pub(crate) own_us: f64,
    /// Decisions made again, per decision.
    pub(crate) conflicts: f64,
}

/// The rounds of one engine or peer.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) rounds: Vec<Figures>,
}

impl Row {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), rounds: Vec::new() }
    }

    pub(crate) fn median(&self, of: impl Fn(&Figures) -> f64) -> f64 {
        median(&self.rounds.iter().map(of).collect::<Vec<_>>())
    }

    /// The median of the rounds' ratios of rates.
    pub(crate) fn ratio(&self, other: &Self) -> f64 {
        let rounds = self.rounds.iter().zip(&other.rounds);
        median(&rounds.map(|(own, other)| own.rate / other.rate).collect::<Vec<_>>())
    }

    fn print(&self, beside: Option<&Self>) {
        let rates = || self.rounds.iter().map(|round| round.rate);
        println!(
            "| {} | {} ({} – {}) | {} | {} | {} | {} | {} | {} |",
            self.name,
            thousands(self.median(|it| it.rate)),
            thousands(rates().fold(f64::INFINITY, f64::min)),
            thousands(rates().fold(0.0, f64::max)),
            beside.map_or_else(String::new, |beside| short(self.ratio(beside))),
            time(self.median(|it| it.p50_us)),
            time(self.median(|it| it.p99_us)),
            time(self.median(|it| it.server_us)),
            time(self.median(|it| it.own_us)),
            percent(self.median(|it| it.conflicts)),
        );
    }
}

/// Prints the rows of a scenario. Ratios are to the row of this name.
pub(crate) fn print(title: &str, rows: &[Row], beside: &str) {
    println!(
        "\n| {title} | decisions/s (spread) | ratio to {beside} | p50 | p99 | servers' CPU | our CPU | decided again |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    let base = find(rows, beside);
    rows.iter().for_each(|row| row.print(base));
}

pub(crate) fn find<'a>(rows: &'a [Row], name: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.name == name)
}

/// `12,300`: three digits count.
pub(crate) fn thousands(figure: f64) -> String {
    let unit = 10_f64.powf((figure.max(1.0).log10().floor() - 2.0).max(0.0));
    let digits = format!("{:.0}", (figure / unit).round() * unit);
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(crate) fn short(figure: f64) -> String {
    match figure {
        figure if figure >= 100.0 => format!("{figure:.0}"),
        figure if figure >= 10.0 => format!("{figure:.1}"),
        figure => format!("{figure:.2}"),
    }
}

fn time(us: f64) -> String {
    match us {
        us if us >= 1000.0 => format!("{} ms", short(us / 1000.0)),
        us => format!("{} µs", short(us)),
    }
}

fn percent(share: f64) -> String {
    if share == 0.0 { "0".to_owned() } else { format!("{} %", short(share * 100.0)) }
}
