//! How a report leaves: a table for people, JSON for programs, a picture in a file.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use super::svg::Chart;
use crate::{Failure, OK, print};

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Output {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a picture (SVG) to FILE as well
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl Output {
    /// The picture first: whoever asked for one and cannot have it should not think that all went well.
    pub(super) fn write<R: Serialize>(
        &self,
        report: &R,
        chart: impl FnOnce(&R) -> Chart,
        text: impl FnOnce(&R, &mut Vec<u8>) -> io::Result<()>,
    ) -> Result<ExitCode, Failure> {
        if let Some(file) = &self.svg {
            let cannot = |error| Failure::new(format!("cannot write {}: {error}", file.display()));
            fs::write(file, chart(report).to_svg()).map_err(cannot)?;
        }
        let mut said = Vec::new();
        let made = if self.json { json(report, &mut said) } else { text(report, &mut said) };
        made.map_err(|error| Failure::new(error.to_string()))?;
        print(&said)?;
        Ok(ExitCode::from(OK))
    }
}

fn json<R: Serialize>(report: &R, out: &mut Vec<u8>) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    out.write_all(b"\n")
}
