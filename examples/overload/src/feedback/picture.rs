//! A picture of the loads, second by second: goodput above, latency below. For light and dark backgrounds.

use std::fmt::Write;

use super::report::Report;
use crate::load::{CLIENT_TIMEOUT, Figures};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 520.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = WIDTH - 30.0;

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#33424a}.title{font-weight:600;font-size:15px}.paper{fill:#fff}\
path{fill:none}.grid{stroke:#d9e0e4}.mark{stroke:#b3261e;stroke-dasharray:6 4}.marked{fill:#b3261e}\
.line{stroke-width:2}.c0{stroke:#0a7a8c}.c1{stroke:#b4540a;stroke-dasharray:8 3}\
.c2{stroke:#5b4bb7;stroke-dasharray:3 3}.c3{stroke:#0f7b4f;stroke-dasharray:10 3 2 3}\
@media (prefers-color-scheme:dark){text{fill:#c6d3da}.paper{fill:#12191d}.grid{stroke:#2d3a41}\
.mark{stroke:#ff8a80}.marked{fill:#ff8a80}.c0{stroke:#3fb6c9}.c1{stroke:#f0a060}.c2{stroke:#a99df5}\
.c3{stroke:#53c994}}";

/// One chart, from its top to its bottom edge, with values from 0 to `most`.
struct Panel {
    name: &'static str,
    top: f64,
    bottom: f64,
    most: f64,
    step: f64,
    mark: (&'static str, f64),
}

pub(super) fn svg(report: &Report) -> String {
    let lines = [
        ("with the loop", &report.with_loop.figures),
        ("without tidegate", &report.direct),
        ("a static limit", &report.static_limit),
        ("only a limit that follows", &report.limit_alone.figures),
    ];
    let best = report.verdict.best_per_s;
    let timeout_ms = CLIENT_TIMEOUT.as_secs_f64() * 1e3;
    let goodput = Panel {
        name: "answers in time, per second",
        top: 92.0,
        bottom: 270.0,
        most: 500.0_f64.max(best),
        step: 100.0,
        mark: ("the best without overload", best),
    };
    let latency = Panel {
        name: "99th percentile of what was not refused, ms",
        top: 320.0,
        bottom: 470.0,
        most: timeout_ms * 1.1,
        step: 250.0,
        mark: ("clients give up", timeout_ms),
    };
    let title = "A Fastify app and its database under three times their load";
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{title}\">\n<style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n"
    );
    text(&mut svg, (20.0, 28.0), "title", "start", title);
    legend(&mut svg, lines.map(|(name, _)| name));
    let seconds = lines.iter().map(|(_, it)| it.good_by_second.len()).max().unwrap_or(0);
    goodput.draw(&mut svg, seconds, lines.map(|(_, it)| goods(it)));
    latency.draw(&mut svg, seconds, lines.map(|(_, it)| it.p99_ms_by_second.clone()));
    text(&mut svg, (RIGHT, HEIGHT - 10.0), "", "end", "seconds of overload");
    svg + "</svg>\n"
}

fn goods(figures: &Figures) -> Vec<f64> {
    figures.good_by_second.iter().map(|good| *good as f64).collect()
}

impl Panel {
    fn draw(&self, svg: &mut String, seconds: usize, lines: [Vec<f64>; 4]) {
        let Self { name, top, bottom, most, step, mark } = self;
        let x = |second: usize| LEFT + (RIGHT - LEFT) * second as f64 / seconds.max(1) as f64;
        let y = |value: f64| bottom - (bottom - top) * (value / most).min(1.0);
        text(svg, (20.0, top - 12.0), "", "start", name);
        for tick in 0..=(most / step) as u32 {
            let (value, at) = (f64::from(tick) * step, y(f64::from(tick) * step));
            let _ = writeln!(svg, "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/>");
            text(svg, (LEFT - 8.0, at + 4.0), "", "end", &value.to_string());
        }
        for second in (0..=seconds).step_by(2) {
            text(svg, (x(second), bottom + 18.0), "", "middle", &second.to_string());
        }
        // The value of a second stands at its end.
        for (index, values) in lines.iter().enumerate() {
            let points: Vec<String> = (1..)
                .zip(values)
                .map(|(second, value)| format!("{:.1} {:.1}", x(second), y(*value)))
                .collect();
            let _ = writeln!(svg, "<path class=\"line c{index}\" d=\"M{}\"/>", points.join("L"));
        }
        let at = y(mark.1);
        let _ = writeln!(svg, "<path class=\"mark\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/>");
        text(svg, (RIGHT, at - 6.0), "marked", "end", mark.0);
    }
}

fn legend(svg: &mut String, names: [&str; 4]) {
    let mut x = 20.0;
    for (index, name) in names.into_iter().enumerate() {
        let _ = writeln!(svg, "<path class=\"line c{index}\" d=\"M{x:.1} 48h24\"/>");
        text(svg, (x + 30.0, 52.0), "", "start", name);
        // An estimate of the width of the name.
        x += 52.0 + 7.2 * name.len() as f64;
    }
}

fn text(svg: &mut String, (x, y): (f64, f64), class: &str, anchor: &str, text: &str) {
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    );
}
