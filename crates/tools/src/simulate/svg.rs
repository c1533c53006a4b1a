//! A small picture: lines or bars with axes, labels and a legend, readable in light and in dark.

mod bars;
mod lines;
mod scale;

use std::fmt::Write;

use self::scale::Scale;

const WIDTH: f64 = 760.0;
/// The room around what is drawn: for the title and the legend, and for the numbers and names of the axes.
const TOP: f64 = 92.0;
const RIGHT: f64 = 30.0;
const BOTTOM: f64 = 50.0;
/// Colours, and strokes for those who do not see them; with more series they begin anew.
const COLOURS: usize = 6;

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#33424a}.title{font-weight:600;font-size:15px}\
.paper{fill:#fff}.grid{stroke:#d9e0e4;fill:none}.mark{stroke:#b3261e;stroke-dasharray:6 4;fill:none}\
.marked{fill:#b3261e}.line{fill:none;stroke-width:2}\
.c0{stroke:#0a7a8c;fill:#0a7a8c}.c1{stroke:#b4540a;fill:#b4540a}.c2{stroke:#5b4bb7;fill:#5b4bb7}\
.c3{stroke:#0f7b4f;fill:#0f7b4f}.c4{stroke:#a3236d;fill:#a3236d}.c5{stroke:#5f6b72;fill:#5f6b72}\
.line{fill:none}.c1.line{stroke-dasharray:8 3}.c2.line{stroke-dasharray:3 3}.c3.line{stroke-dasharray:10 3 2 3}\
.c4.line{stroke-dasharray:1 4}.c5.line{stroke-dasharray:14 4}\
@media (prefers-color-scheme:dark){text{fill:#c6d3da}.paper{fill:#12191d}.grid{stroke:#2d3a41}\
.mark{stroke:#ff8a80}.marked{fill:#ff8a80}.c0{stroke:#3fb6c9;fill:#3fb6c9}.c1{stroke:#f0a060;fill:#f0a060}\
.c2{stroke:#a99df5;fill:#a99df5}.c3{stroke:#53c994;fill:#53c994}.c4{stroke:#f07ab8;fill:#f07ab8}\
.c5{stroke:#9fb0b9;fill:#9fb0b9}.line{fill:none}}";

/// What is to be drawn. All axes begin at 0.
pub struct Chart {
    pub title: String,
    /// What the horizontal and the vertical axis count; bars lie, so that they have only the former.
    pub x: String,
    pub y: String,
    /// A value of what is counted that everything is compared with, and its name.
    pub mark: Option<(String, f64)>,
    pub plot: Plot,
}

pub enum Plot {
    Lines(Vec<Line>),
    /// Several bars for each group, one for each series.
    Bars {
        series: Vec<String>,
        groups: Vec<Group>,
    },
}

pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    pub shape: Shape,
}

/// What goes from point to point.
#[derive(Clone, Copy)]
pub enum Shape {
    Straight,
    /// A value holds until the next one.
    Steps,
    Dots,
}

pub struct Group {
    pub name: String,
    pub values: Vec<f64>,
}

impl Chart {
    pub fn to_svg(&self) -> String {
        let (height, drawn, series) = match &self.plot {
            Plot::Lines(drawn) => lines::draw(self, drawn),
            Plot::Bars { series, groups } => bars::draw(self, series, groups),
        };
        let title = escaped(&self.title);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
             aria-label=\"{title}\">\n<style>{STYLE}</style>\n\
             <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height:.0}\"/>\n"
        );
        text(&mut svg, (20.0, 28.0), "title", "start", &self.title);
        legend(&mut svg, &series);
        svg + &drawn + "</svg>\n"
    }
}

/// The names of all series in one line under the title; a single one needs none.
fn legend(svg: &mut String, series: &[&str]) {
    let mut x = 20.0;
    for (index, name) in series.iter().enumerate().filter(|_| series.len() > 1) {
        let colour = index % COLOURS;
        let _ = writeln!(svg, "<path class=\"line c{colour}\" d=\"M{x:.1} 48h24\"/>");
        text(svg, (x + 30.0, 52.0), "", "start", name);
        // About as wide as the letters are: there is nobody here to measure them.
        x += 52.0 + 7.2 * scale::float(name.chars().count());
    }
}

/// Text at a place; `anchor` is the end of it that stands there.
fn text(svg: &mut String, (x, y): (f64, f64), class: &str, anchor: &str, text: &str) {
    let text = escaped(text);
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    );
}

/// Text that XML takes for text.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            char if char.is_control() => out.push(' '),
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests;
