//! A small chart: lines or bars with axes, labels and a legend, for light and dark backgrounds.

mod scale;

use std::fmt::Write;

use self::scale::{Scale, number};
use tidegate_simulation::float;

const WIDTH: f64 = 760.0;
const LINES_HEIGHT: f64 = 420.0;
const LINES_LEFT: f64 = 76.0;
const BARS_LEFT: f64 = 150.0;
/// A bar, and the gap between groups.
const BAR: f64 = 20.0;
const GAP: f64 = 12.0;
/// Margins: for the title and the legend, and for the numbers and names of the axes.
const TOP: f64 = 92.0;
const RIGHT: f64 = 30.0;
const BOTTOM: f64 = 50.0;
/// Colours, each with its own stroke; with more series they repeat.
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

/// All axes begin at 0.
pub(super) struct Chart {
    pub(super) title: String,
    /// The names of the horizontal and the vertical axis; bars are horizontal, and have only the former.
    pub(super) x: String,
    pub(super) y: String,
    /// The name and the value of a reference line.
    pub(super) mark: Option<(String, f64)>,
    pub(super) plot: Plot,
}

pub(super) enum Plot {
    Lines(Vec<Line>),
    /// Several bars for each group, one for each series.
    Bars {
        series: Vec<String>,
        groups: Vec<Group>,
    },
}

pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
    pub(super) shape: Shape,
}

/// How points are connected.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    Straight,
    /// A value holds until the next one.
    Steps,
    Dots,
}

pub(super) struct Group {
    pub(super) name: String,
    pub(super) values: Vec<f64>,
}

impl Chart {
    pub(super) fn to_svg(&self) -> String {
        let (height, drawn, series) = match &self.plot {
            Plot::Lines(lines) => draw_lines(self, lines),
            Plot::Bars { series, groups } => draw_bars(self, series, groups),
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

/// The height of the chart, its elements, and the names for the legend.
fn draw_lines<'a>(chart: &Chart, lines: &'a [Line]) -> (f64, String, Vec<&'a str>) {
    let points = || lines.iter().flat_map(|line| &line.points);
    let marked = chart.mark.as_ref().map_or(0.0, |mark| mark.1);
    let x = Scale::new(points().map(|at| at.0).fold(0.0, f64::max), LINES_LEFT, WIDTH - RIGHT);
    let y = Scale::new(points().map(|at| at.1).fold(marked, f64::max), LINES_HEIGHT - BOTTOM, TOP);
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
        let at = y.position(*value);
        let right = WIDTH - RIGHT;
        let _ = writeln!(svg, "<path class=\"mark\" d=\"M{LINES_LEFT} {at:.1}H{right}\"/>");
        text(&mut svg, (right, at - 6.0), "marked", "end", name);
    }
    (LINES_HEIGHT, svg, lines.iter().map(|line| line.name.as_str()).collect())
}

fn axes(svg: &mut String, chart: &Chart, x: &Scale, y: &Scale) {
    let (bottom, right) = (LINES_HEIGHT - BOTTOM, WIDTH - RIGHT);
    for (number, at) in y.ticks() {
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{LINES_LEFT} {at:.1}H{right}\"/>");
        text(svg, (LINES_LEFT - 8.0, at + 4.0), "", "end", &number);
    }
    for (number, at) in x.ticks() {
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{at:.1} {bottom}v5\"/>");
        text(svg, (at, bottom + 20.0), "", "middle", &number);
    }
    text(svg, (right, LINES_HEIGHT - 10.0), "", "end", &chart.x);
    text(svg, (LINES_LEFT - 8.0, TOP - 12.0), "", "start", &chart.y);
}

fn path(points: &[(f64, f64)], steps: bool, x: &Scale, y: &Scale) -> String {
    let mut d = String::new();
    for (index, &(across, up)) in points.iter().enumerate() {
        let (across, up) = (x.position(across), y.position(up));
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
        let (across, up) = (x.position(across), y.position(up));
        let _ = writeln!(
            svg,
            "<circle class=\"c{colour}\" cx=\"{across:.1}\" cy=\"{up:.1}\" r=\"3.5\"/>"
        );
    }
}

fn draw_bars<'a>(
    chart: &Chart,
    series: &'a [String],
    groups: &[Group],
) -> (f64, String, Vec<&'a str>) {
    let values = groups.iter().flat_map(|group| &group.values).copied();
    let marked = chart.mark.as_ref().map_or(0.0, |mark| mark.1);
    // Room for the number behind the longest bar.
    let x = Scale::new(values.fold(marked, f64::max), BARS_LEFT, WIDTH - RIGHT - 40.0);
    let tall = |group: &Group| GAP + BAR * float(group.values.len() as u64);
    let bottom = TOP + groups.iter().map(tall).sum::<f64>() + GAP;
    let mut svg = String::new();
    for (number, at) in x.ticks() {
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom:.1}\"/>");
        text(&mut svg, (at, bottom + 18.0), "", "middle", &number);
    }
    let mut top = TOP + GAP;
    for group in groups {
        draw_group(&mut svg, group, top, &x);
        top += tall(group);
    }
    if let Some((name, value)) = &chart.mark {
        let at = x.position(*value);
        let _ = writeln!(svg, "<path class=\"mark\" d=\"M{at:.1} {TOP}V{bottom:.1}\"/>");
        text(&mut svg, (at, TOP - 6.0), "marked", "middle", name);
    }
    text(&mut svg, (WIDTH - RIGHT, bottom + 38.0), "", "end", &chart.x);
    (bottom + BOTTOM, svg, series.iter().map(String::as_str).collect())
}

fn draw_group(svg: &mut String, group: &Group, top: f64, x: &Scale) {
    let middle = top + BAR * float(group.values.len() as u64) / 2.0;
    text(svg, (BARS_LEFT - 10.0, middle + 4.5), "", "end", &group.name);
    for (index, &value) in group.values.iter().enumerate() {
        let (y, end) = (top + BAR * float(index as u64), x.position(value));
        let (colour, long, high) = (index % COLOURS, end - BARS_LEFT, BAR - 3.0);
        let _ = writeln!(
            svg,
            "<rect class=\"c{colour}\" x=\"{BARS_LEFT}\" y=\"{y:.1}\" width=\"{long:.1}\" height=\"{high}\"/>"
        );
        text(svg, (end + 6.0, y + 13.0), "", "start", &number(value));
    }
}

/// The names of all series in one line under the title; a single one needs none.
fn legend(svg: &mut String, series: &[&str]) {
    let mut x = 20.0;
    for (index, name) in series.iter().enumerate().filter(|_| series.len() > 1) {
        let colour = index % COLOURS;
        let _ = writeln!(svg, "<path class=\"line c{colour}\" d=\"M{x:.1} 48h24\"/>");
        text(svg, (x + 30.0, 52.0), "", "start", name);
        // An estimate of the width of the name.
        x += 52.0 + 7.2 * float(name.chars().count() as u64);
    }
}

/// Text at a position; `anchor` is the end of the text that is there.
fn text(svg: &mut String, (x, y): (f64, f64), class: &str, anchor: &str, text: &str) {
    let text = escaped(text);
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    );
}

/// Escapes text for XML.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Chart {
        let line = |name: &str, shape| Line {
            name: name.to_owned(),
            points: vec![(0.0, 60.0), (400.0, 108.0), (1000.0, 200.0)],
            shape,
        };
        Chart {
            title: "what <\"naive\"> & others admit\u{7}".to_owned(),
            x: "interval, ms".to_owned(),
            y: "admitted".to_owned(),
            mark: Some(("limit".to_owned(), 60.0)),
            plot: Plot::Lines(vec![
                line("formula", Shape::Straight),
                line("simulated", Shape::Dots),
                line("store", Shape::Steps),
            ]),
        }
    }

    #[test]
    fn markup_in_text_is_escaped() {
        let svg = lines().to_svg();
        assert!(svg.contains("what &lt;&quot;naive&quot;&gt; &amp; others admit </text>"), "{svg}");
        assert!(!svg.contains('\u{7}'));
    }

    #[test]
    fn lines_are_straight_and_steps_go_over_and_up() {
        let svg = lines().to_svg();
        // 200 of 200 stands at the top, 1000 of 1000 at the right.
        assert!(svg.contains("L730.0 92.0\""), "{svg}");
        assert!(svg.contains("H730.0V92.0\""), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains(">limit</text>") && svg.contains(">simulated</text>"));
    }

    #[test]
    fn a_chart_grows_with_its_bars() {
        let height = |count: usize| {
            let group = |n: usize| Group { name: format!("g{n}"), values: vec![1.0, 2.0] };
            let groups = (0..count).map(group).collect();
            let series = vec!["own clocks".to_owned(), "the store's clock".to_owned()];
            let (title, x, y) = (String::new(), String::new(), String::new());
            let svg =
                Chart { title, x, y, mark: None, plot: Plot::Bars { series, groups } }.to_svg();
            assert_eq!(svg.matches("<rect class=\"c").count(), 2 * count);
            assert!(svg.contains(">own clocks</text>"), "{svg}");
            let (_, rest) = svg.split_once("viewBox=\"0 0 760 ").unwrap();
            rest.split_once('"').unwrap().0.parse::<u32>().unwrap()
        };
        assert_eq!(height(3) - height(2), 52);
    }

    #[test]
    fn a_chart_may_be_empty() {
        let empty = Chart { plot: Plot::Lines(vec![]), ..lines() };
        assert!(empty.to_svg().ends_with("</svg>\n"));
    }
}
