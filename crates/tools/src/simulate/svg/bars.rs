//! Bars that lie, so that their names have room.

use std::fmt::Write;

use super::scale::{float, number};
use super::{BOTTOM, COLOURS, Chart, Group, RIGHT, Scale, TOP, WIDTH, text};

const LEFT: f64 = 150.0;
/// A bar, and the gap between groups.
const BAR: f64 = 20.0;
const GAP: f64 = 12.0;

/// The height of the picture, what is drawn, and the names for the legend.
pub(super) fn draw<'a>(
    chart: &Chart,
    series: &'a [String],
    groups: &[Group],
) -> (f64, String, Vec<&'a str>) {
    let values = groups.iter().flat_map(|group| &group.values).copied();
    let marked = chart.mark.as_ref().map_or(0.0, |mark| mark.1);
    // Room for the number behind the longest bar.
    let x = Scale::new(values.fold(marked, f64::max), LEFT, WIDTH - RIGHT - 40.0);
    let tall = |group: &Group| GAP + BAR * float(group.values.len());
    let bottom = TOP + groups.iter().map(tall).sum::<f64>() + GAP;
    let mut svg = String::new();
    for (number, at) in x.ticks() {
        let _ = writeln!(svg, "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom:.1}\"/>");
        text(&mut svg, (at, bottom + 18.0), "", "middle", &number);
    }
    let mut top = TOP + GAP;
    for group in groups {
        bars(&mut svg, group, top, &x);
        top += tall(group);
    }
    if let Some((name, value)) = &chart.mark {
        let at = x.place(*value);
        let _ = writeln!(svg, "<path class=\"mark\" d=\"M{at:.1} {TOP}V{bottom:.1}\"/>");
        text(&mut svg, (at, TOP - 6.0), "marked", "middle", name);
    }
    text(&mut svg, (WIDTH - RIGHT, bottom + 38.0), "", "end", &chart.x);
    (bottom + BOTTOM, svg, series.iter().map(String::as_str).collect())
}

fn bars(svg: &mut String, group: &Group, top: f64, x: &Scale) {
    let middle = top + BAR * float(group.values.len()) / 2.0;
    text(svg, (LEFT - 10.0, middle + 4.5), "", "end", &group.name);
    for (index, &value) in group.values.iter().enumerate() {
        let (y, end) = (top + BAR * float(index), x.place(value));
        let (colour, long, high) = (index % COLOURS, end - LEFT, BAR - 3.0);
        let _ = writeln!(
            svg,
            "<rect class=\"c{colour}\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{long:.1}\" height=\"{high}\"/>"
        );
        text(svg, (end + 6.0, y + 13.0), "", "start", &number(value));
    }
}
