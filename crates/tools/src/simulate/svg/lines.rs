//! Lines over a horizontal axis.

use std::fmt::Write;

use super::{BOTTOM, COLOURS, Chart, Line, RIGHT, Scale, Shape, TOP, WIDTH, text};

const LEFT: f64 = 76.0;
const HEIGHT: f64 = 420.0;

/// The height of the picture, what is drawn, and the names for the legend.
pub(super) fn draw<'a>(chart: &Chart, lines: &'a [Line]) -> (f64, String, Vec<&'a str>) {
    let points = || lines.iter().flat_map(|line| &line.points);
    let marked = chart.mark.as_ref().map_or(0.0, |mark| mark.1);
    let x = Scale::new(points().map(|at| at.0).fold(0.0, f64::max), LEFT, WIDTH - RIGHT);
    let y = Scale::new(points().map(|at| at.1).fold(marked, f64::max), HEIGHT - BOTTOM, TOP);
    let mut svg = String::new();
    axes(&mut svg, chart, &x, &y);
    for (index, line) in lines.iter().enumerate() {
        let colour = index % COLOURS;
        match line.shape {
            Shape::Dots => dots(&mut svg, line, colour, &x, &y),
            shape => {
                let d = path(&line.points, matches!(shape, Shape::Steps), &x, &y);
                let _ = writeln!(svg, "<path class=\"line c{colour}\" d=\"{d}\"/>");
            }
        }
    }
    if let Some((name, value)) = &chart.mark {
        let at = y.place(*value);
        let right = WIDTH - RIGHT;
        let _ = writeln!(svg, "<path class=\"mark\" d=\"M{LEFT} {at:.1}H{right}\"/>");
        text(&mut svg, (right, at - 6.0), "marked", "end", name);
    }
    (HEIGHT, svg, lines.iter().map(|line| line.name.as_str()).collect())
}

fn axes(svg: &mut String, chart: &Chart, x: &Scale, y: &Scale) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for (number, at) in y.ticks() {
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>");
        text(svg, (LEFT - 8.0, at + 4.0), "", "end", &number);
    }
    for (number, at) in x.ticks() {
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{at:.1} {bottom}v5\"/>");
        text(svg, (at, bottom + 20.0), "", "middle", &number);
    }
    text(svg, (right, HEIGHT - 10.0), "", "end", &chart.x);
    text(svg, (LEFT - 8.0, TOP - 12.0), "", "start", &chart.y);
}

fn path(points: &[(f64, f64)], steps: bool, x: &Scale, y: &Scale) -> String {
    let mut d = String::new();
    for (index, &(across, up)) in points.iter().enumerate() {
        let (across, up) = (x.place(across), y.place(up));
        let _ = match (index, steps) {
            (0, _) => write!(d, "M{across:.1} {up:.1}"),
            (_, true) => write!(d, "H{across:.1}V{up:.1}"),
            (_, false) => write!(d, "L{across:.1} {up:.1}"),
        };
    }
    d
}

fn dots(svg: &mut String, line: &Line, colour: usize, x: &Scale, y: &Scale) {
    for &(across, up) in &line.points {
        let (across, up) = (x.place(across), y.place(up));
        let _ = writeln!(
            svg,
            "<circle class=\"c{colour}\" cx=\"{across:.1}\" cy=\"{up:.1}\" r=\"3.5\"/>"
        );
    }
}
