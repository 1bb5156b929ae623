//! The curves as a picture: F1, precision and recall over k, one panel for each set.
//!
//! Not here: the figures as text (`report`).

use std::fmt::Write;

use super::{Measured, Set};

const PANEL: (f64, f64) = (420.0, 260.0);
const MARGIN: (f64, f64) = (46.0, 34.0);
const COLOURS: [&str; 8] =
    ["#1f6feb", "#d1242f", "#2da44e", "#bf8700", "#8250df", "#0a7ea4", "#bf3989", "#57606a"];

/// The picture as SVG. A solid line is the F1 of a profile over k ÷ bits, a dotted line its precision, and
/// a dashed line its recall.
pub fn svg(sets: &[Set], measured: &[Vec<Measured>]) -> String {
    let profiles = measured.first().map_or(0, Vec::len);
    let (width, height) =
        (PANEL.0 * 2.0, PANEL.1 * sets.len().div_ceil(2) as f64 + 20.0 + 16.0 * profiles as f64);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (number, (set, measured)) in sets.iter().zip(measured).enumerate() {
        let corner = (PANEL.0 * (number % 2) as f64, PANEL.1 * (number / 2) as f64);
        panel(&mut out, corner, &set.name, measured);
    }
    for (number, one) in measured.first().into_iter().flatten().enumerate() {
        let y = PANEL.1 * sets.len().div_ceil(2) as f64 + 16.0 * (number + 1) as f64;
        let colour = COLOURS[number % COLOURS.len()];
        let id = one.profile.id();
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{y}\" fill=\"{colour}\">{id}: F1 (solid), precision (dotted), recall \
             (dashed)</text>",
            MARGIN.0
        );
    }
    out + "</svg>\n"
}

/// The value of a point that a curve shows, 0 to 1.
type Height = fn(&super::Point) -> f64;

fn panel(out: &mut String, corner: (f64, f64), name: &str, measured: &[Measured]) {
    let (left, top) = (corner.0 + MARGIN.0, corner.1 + MARGIN.1);
    let (width, height) = (PANEL.0 - MARGIN.0 - 16.0, PANEL.1 - 2.0 * MARGIN.1);
    let name = name.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(out, "<text x=\"{left}\" y=\"{}\" font-weight=\"bold\">{name}</text>", top - 10.0);
    for step in 0..=4 {
        let share = f64::from(step) / 4.0;
        let (x, y) = (left + width * share, top + height * (1.0 - share));
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{}\">\
             {share}</text><text x=\"{x}\" y=\"{}\">{:.3}</text>",
            left + width,
            left - 30.0,
            y + 4.0,
            top + height + 14.0,
            share * 0.25
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">k ÷ bits</text>",
        left + width / 2.0,
        top + height + 28.0
    );
    for (number, one) in measured.iter().enumerate() {
        let bits = one.curve.width();
        let last = bits / 4;
        let place = |k: u32, value: f64| {
            (left + width * f64::from(k) / f64::from(last), top + height * (1.0 - value))
        };
        let curves: [(&str, Height); 3] =
            [("", super::Point::f1), ("1 4", |point| point.precision), ("6 3", |point| point.recall)];
        for (dashes, value) in curves {
            let points: Vec<String> = (0..=last)
                .map(|k| place(k, value(&one.curve.at(k))))
                .map(|(x, y)| format!("{x:.1},{y:.1}"))
                .collect();
            let colour = COLOURS[number % COLOURS.len()];
            let _ = writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-dasharray=\"{dashes}\"/>",
                points.join(" ")
            );
        }
    }
}
