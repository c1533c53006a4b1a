//! A table for people: columns as wide as what stands in them.

use std::io::{self, Write};

/// Rows of text under a head.
pub struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new() }
    }

    /// A cell for each column; what is missing stays empty.
    pub fn row(&mut self, cells: &[&dyn ToString]) {
        self.rows.push(cells.iter().map(|cell| cell.to_string()).collect());
    }

    /// The first column to the left, since it is a name, and the others to the right, since they are numbers.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let head = self.head.iter().map(ToString::to_string).collect();
        let rows: Vec<&Vec<String>> = std::iter::once(&head).chain(&self.rows).collect();
        let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
        let wide = |column| rows.iter().map(|row| cell(row, column).chars().count()).max();
        let widths: Vec<usize> = (0..self.head.len()).filter_map(wide).collect();
        for row in &rows {
            let cells = widths.iter().enumerate().map(|(column, width)| match column {
                0 => format!("{:<width$}", cell(row, column)),
                _ => format!("  {:>width$}", cell(row, column)),
            });
            writeln!(out, "{}", cells.collect::<String>().trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_to_the_left_and_numbers_to_the_right() {
        let mut table = Table::new(&["way", "admitted"]);
        table.row(&[&"naïve", &108]);
        table.row(&[&"atomic store", &60]);
        table.row(&[&"none"]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        let expected = "way           admitted\n\
                        naïve              108\n\
                        atomic store        60\n\
                        none\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
