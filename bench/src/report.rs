//! What a benchmark has measured, as tables: printed as Markdown and, if `BENCH_JSON` names a file, written into it for
//! `bench/page.py`, which makes the pages of all benchmarks.

use std::fmt;

use serde_json::{Value, json};

use crate::median;

/// A ratio: printed with its spread, and compared with the last one that was published.
const TIMES: &str = "×";

/// The tables of one benchmark.
pub struct Report {
    name: &'static str,
    tables: Vec<Value>,
}

impl Report {
    pub const fn new(name: &'static str) -> Self {
        Self { name, tables: Vec::new() }
    }

    /// Prints a table, and writes the file again, so that an interrupted benchmark leaves what it has.
    pub fn add(&mut self, table: &Table) {
        println!("{table}");
        self.tables.push(table.json(self.name));
        if let Ok(path) = std::env::var("BENCH_JSON") {
            let text = json!({ "tables": self.tables }).to_string();
            std::fs::write(&path, text).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    }
}

/// Rows of cells. Its columns and rows have names that occur once in it: pages refer to figures by them.
pub struct Table {
    id: String,
    title: String,
    columns: Vec<String>,
    rows: Vec<(String, Vec<Cell>)>,
    curve: Option<Value>,
}

impl Table {
    /// The title is the heading of the rows' names, so it belongs to no column.
    pub fn new<C: Into<String>>(
        id: impl Into<String>,
        title: impl Into<String>,
        columns: impl IntoIterator<Item = C>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Self { id: id.into(), title: title.into(), columns, rows: Vec::new(), curve: None }
    }

    pub fn row(&mut self, name: impl Into<String>, cells: impl IntoIterator<Item = Cell>) {
        let (name, cells): (_, Vec<Cell>) = (name.into(), cells.into_iter().collect());
        assert_eq!(cells.len(), self.columns.len(), "{}: {name}", self.id);
        assert!(self.rows.iter().all(|(known, _)| *known != name), "{}: {name} again", self.id);
        self.rows.push((name, cells));
    }

    /// Its rows are sizes, and a picture shows these columns, which have one unit.
    #[must_use]
    pub fn drawn(self, title: &str, columns: &[&str]) -> Self {
        Self { curve: Some(json!({ "title": title, "columns": columns })), ..self }
    }

    fn json(&self, benchmark: &str) -> Value {
        let row = |(name, cells): &(String, Vec<Cell>)| json!({ "name": name, "cells": cells.iter().map(Cell::json).collect::<Vec<_>>() });
        json!({
            "id": format!("{benchmark}/{}", self.id),
            "title": self.title,
            "columns": self.columns,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "curve": self.curve,
        })
    }
}

/// As Markdown.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| {} | {} |", self.title, self.columns.join(" | "))?;
        writeln!(f, "|---|{}", "--:|".repeat(self.columns.len()))?;
        for (name, cells) in &self.rows {
            let cell = |cell: &Cell| match cell {
                Cell::Empty => " |".to_owned(),
                cell => format!(" {cell} |"),
            };
            let cells: String = cells.iter().map(cell).collect();
            writeln!(f, "| {name} |{cells}")?;
        }
        Ok(())
    }
}

/// What a cell of a table says.
pub enum Cell {
    Empty,
    Text(String),
    Figure(Figure),
}

impl Cell {
    fn json(&self) -> Value {
        match self {
            Self::Empty => Value::Null,
            Self::Text(text) => json!(text),
            Self::Figure(figure) => figure.json(),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => Ok(()),
            Self::Text(text) => f.write_str(text),
            Self::Figure(figure) => figure.fmt(f),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Figure> for Cell {
    fn from(figure: Figure) -> Self {
        Self::Figure(figure)
    }
}

impl From<Option<Figure>> for Cell {
    fn from(figure: Option<Figure>) -> Self {
        figure.map_or(Self::Empty, Self::Figure)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    More,
    Less,
    Neither,
}

/// The rounds of one quantity. An empty unit is one that the table's title or column names.
#[derive(Clone, Debug)]
pub struct Figure {
    pub median: f64,
    lowest: f64,
    highest: f64,
    unit: &'static str,
    better: Better,
    /// How many decimals are printed; of 158,247 with -3, `158,000`.
    decimals: i32,
}

impl Figure {
    /// Three digits count.
    pub fn new(better: Better, unit: &'static str, rounds: &[f64]) -> Self {
        let median = median(rounds);
        let lowest = rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { median, lowest, highest, unit, better, decimals: decimals(median) }
    }

    pub fn more(unit: &'static str, rounds: &[f64]) -> Self {
        Self::new(Better::More, unit, rounds)
    }

    pub fn less(unit: &'static str, rounds: &[f64]) -> Self {
        Self::new(Better::Less, unit, rounds)
    }

    /// Measured, but neither good nor bad.
    pub fn neither(unit: &'static str, rounds: &[f64]) -> Self {
        Self::new(Better::Neither, unit, rounds)
    }

    /// The median of the rounds' ratios `ours / theirs` of a quantity of which more is better.
    pub fn ratio(ours: &[f64], theirs: &[f64]) -> Self {
        Self::times(Better::More, ours, theirs)
    }

    /// The median of the rounds' ratios `ours / theirs` of a quantity of which less is better, such as a cost.
    pub fn cost_ratio(ours: &[f64], theirs: &[f64]) -> Self {
        Self::times(Better::Less, ours, theirs)
    }

    /// How many times lower a cost is: the median of the rounds' ratios `theirs / ours`.
    pub fn saving(ours: &[f64], theirs: &[f64]) -> Self {
        Self::times(Better::More, theirs, ours)
    }

    fn times(better: Better, over: &[f64], under: &[f64]) -> Self {
        let ratios: Vec<f64> = over.iter().zip(under).map(|(a, b)| a / b).collect();
        Self::new(better, TIMES, &ratios)
    }

    /// A whole number, all of whose digits count.
    pub fn count(unit: &'static str, count: u64) -> Self {
        Self::neither(unit, &[count as f64]).decimals(0)
    }

    /// Not of ours, or not beside a peer: neither good nor bad.
    #[must_use]
    pub const fn unjudged(self) -> Self {
        Self { better: Better::Neither, ..self }
    }

    #[must_use]
    pub const fn decimals(self, decimals: i32) -> Self {
        Self { decimals, ..self }
    }

    fn json(&self) -> Value {
        let better = match self.better {
            Better::More => json!("more"),
            Better::Less => json!("less"),
            Better::Neither => Value::Null,
        };
        json!({
            "median": shortened(self.median),
            "lowest": shortened(self.lowest),
            "highest": shortened(self.highest),
            "unit": self.unit,
            "better": better,
            "decimals": self.decimals,
        })
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |figure| number(figure, self.decimals);
        f.write_str(&number(self.median))?;
        match self.unit {
            "" => Ok(()),
            TIMES if self.lowest == self.highest => Ok(()),
            TIMES => write!(f, " ({} – {})", number(self.lowest), number(self.highest)),
            unit => write!(f, " {unit}"),
        }
    }
}

/// So that three digits are printed.
fn decimals(figure: f64) -> i32 {
    let digits = if figure == 0.0 { 0.0 } else { figure.abs().log10().floor() };
    (2 - digits as i32).min(2)
}

/// With commas between thousands.
pub fn number(figure: f64, decimals: i32) -> String {
    let unit = 10_f64.powi((-decimals).max(0));
    let rounded = if unit > 1.0 { (figure / unit).round() * unit } else { figure };
    let text = format!("{rounded:.*}", decimals.max(0) as usize);
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, whole) = whole.split_at(usize::from(whole.starts_with('-')));
    let digits = whole.chars().enumerate().flat_map(|(at, digit)| {
        let comma = at > 0 && (whole.len() - at).is_multiple_of(3);
        comma.then_some(',').into_iter().chain([digit])
    });
    sign.to_owned() + &digits.collect::<String>() + fraction
}

/// Six digits are enough for any ratio. A whole number keeps all of its digits.
fn shortened(figure: f64) -> f64 {
    if figure.fract() == 0.0 { figure } else { format!("{figure:.5e}").parse().unwrap_or(figure) }
}
