//! [`operating_curve`]: what a threshold buys and costs.

use crate::Caption;
use crate::svg::{COLORS, Svg, WIDTH, draw_names};

const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = WIDTH - 150.0;
const TOP: f64 = 78.0;
const BOTTOM: f64 = HEIGHT - 58.0;

/// What a classifier does at one threshold; shares are in \[0, 1\].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperatingPoint {
    /// The threshold, in \[0, 1\].
    pub threshold: f64,
    /// Share of what it picks that is right; `None` where it picks nothing.
    pub precision: Option<f64>,
    /// Share of what is right that it picks.
    pub recall: f64,
    /// The harmonic mean of both; `None` where it picks nothing.
    pub f1: Option<f64>,
}

/// Picks one share of a point.
type Share = fn(&OperatingPoint) -> Option<f64>;

/// Draws precision, recall and F1 over the threshold, points ascending, and a mark at the threshold `in_use`.
#[must_use]
pub fn operating_curve(caption: &Caption<'_>, points: &[OperatingPoint], in_use: f64) -> String {
    let mut svg = Svg::new(HEIGHT, caption);
    draw_grid(&mut svg, in_use);
    let lines: [(&str, Share); 3] = [
        ("precision", |point| point.precision),
        ("recall", |point| Some(point.recall)),
        ("F1", |point| point.f1),
    ];
    let mut ends = Vec::new();
    for ((name, share), color) in lines.into_iter().zip(COLORS) {
        let known = points.iter().filter_map(|point| Some((point.threshold, share(point)?)));
        let known: Vec<(f64, f64)> = known.map(place).collect();
        let path: Vec<String> = known.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        svg.push(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
            path.join(" ")
        ));
        ends.extend(known.last().map(|&(x, y)| (y, x, name, color)));
    }
    draw_names(&mut svg, RIGHT + 22.0, ends);
    svg.finish()
}

fn place((threshold, share): (f64, f64)) -> (f64, f64) {
    (LEFT + threshold * (RIGHT - LEFT), BOTTOM - share * (BOTTOM - TOP))
}

fn draw_grid(svg: &mut Svg, in_use: f64) {
    for tenths in (0..=10).step_by(2) {
        let value = f64::from(tenths) / 10.0;
        let (x, y) = place((value, value));
        svg.line((LEFT, y), (RIGHT, y));
        svg.text((LEFT - 8.0, y + 4.0), "end", &format!("{value}"));
        svg.line((x, TOP), (x, BOTTOM));
        svg.text((x, BOTTOM + 18.0), "middle", &format!("{value}"));
    }
    svg.text(((LEFT + RIGHT) / 2.0, BOTTOM + 38.0), "middle", "threshold of the score");
    let (x, _) = place((in_use, 0.0));
    svg.push(&format!(
        "<line x1=\"{x:.1}\" y1=\"{TOP:.1}\" x2=\"{x:.1}\" y2=\"{BOTTOM:.1}\" stroke=\"#1a1a1a\" \
         stroke-dasharray=\"4 3\"/>"
    ));
    svg.text((x + 5.0, TOP + 13.0), "start", &format!("in use: {in_use}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTION: Caption<'_> = Caption { title: "a < b", details: "c & d" };

    fn path(svg: &str, position: usize) -> &str {
        let after = svg.split("<polyline points=\"").nth(position + 1).unwrap();
        after.split('"').next().unwrap()
    }

    #[test]
    fn shares_are_as_high_as_they_are() {
        let point =
            |threshold, precision, recall, f1| OperatingPoint { threshold, precision, recall, f1 };
        let points = [point(0.0, Some(0.5), 1.0, Some(2.0 / 3.0)), point(1.0, None, 0.0, None)];
        let svg = operating_curve(&CAPTION, &points, 0.5);
        let middle = (TOP + BOTTOM) / 2.0;
        assert_eq!(path(&svg, 0), format!("{LEFT:.1},{middle:.1}"), "nothing picked, no precision");
        assert_eq!(path(&svg, 1), format!("{LEFT:.1},{TOP:.1} {RIGHT:.1},{BOTTOM:.1}"));
        assert!(svg.contains(">in use: 0.5<") && svg.contains("a &lt; b"), "{svg}");
        assert!(operating_curve(&CAPTION, &[], 0.5).ends_with("</svg>\n"));
    }
}
