//! [`curves`]: what two things have in common.

use crate::Caption;
use crate::svg::{COLORS, Svg, WIDTH, draw_names};

const HEIGHT: f64 = 470.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = WIDTH - 190.0;
const TOP: f64 = 92.0;
const BOTTOM: f64 = HEIGHT - 58.0;
/// Parts that an axis is cut into.
const STEPS: i32 = 10;

/// One line of points, ascending in x.
#[derive(Debug, Clone)]
pub struct Curve {
    /// Written at its end.
    pub name: String,
    /// x and y.
    pub points: Vec<(f64, f64)>,
    /// Curves of equal number have the same colour.
    pub pair: usize,
    /// Drawn in dashes.
    pub dashed: bool,
}

/// An axis from one number to another.
#[derive(Debug, Clone, Copy)]
pub struct Axis<'a> {
    /// Written beside it.
    pub name: &'a str,
    /// At its begin.
    pub from: f64,
    /// At its end.
    pub to: f64,
}

impl Axis<'_> {
    fn share(self, value: f64) -> f64 {
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    fn steps(self) -> impl Iterator<Item = f64> {
        (0..=STEPS)
            .map(move |step| self.from + (self.to - self.from) * f64::from(step) / f64::from(STEPS))
    }
}

/// Draws curves over two even axes; what is beyond an axis is drawn at its end.
#[must_use]
pub fn curves(caption: &Caption<'_>, x: Axis<'_>, y: Axis<'_>, curves: &[Curve]) -> String {
    let mut svg = Svg::new(HEIGHT, caption);
    let place_x = |value| LEFT + x.share(value) * (RIGHT - LEFT);
    let place_y = |value| BOTTOM - y.share(value) * (BOTTOM - TOP);
    for value in y.steps() {
        svg.line((LEFT, place_y(value)), (RIGHT, place_y(value)));
        svg.text((LEFT - 8.0, place_y(value) + 4.0), "end", &short(value));
    }
    for value in x.steps() {
        svg.line((place_x(value), TOP), (place_x(value), BOTTOM));
        svg.text((place_x(value), BOTTOM + 18.0), "middle", &short(value));
    }
    svg.text((LEFT, TOP - 10.0), "start", y.name);
    svg.text(((LEFT + RIGHT) / 2.0, BOTTOM + 38.0), "middle", x.name);
    let mut ends = Vec::new();
    for curve in curves {
        let color = COLORS[curve.pair % COLORS.len()];
        let points = curve.points.iter().map(|&(x, y)| (place_x(x), place_y(y)));
        let points: Vec<(f64, f64)> = points.collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dashes = if curve.dashed { " stroke-dasharray=\"6 4\"" } else { "" };
        svg.push(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"{dashes}/>",
            path.join(" ")
        ));
        ends.extend(points.last().map(|&(x, y)| (y, x, curve.name.as_str(), color)));
    }
    draw_names(&mut svg, RIGHT + 22.0, ends);
    svg.finish()
}

/// Two decimals at most.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_stand_where_the_axes_say() {
        let axis = |name, from, to| Axis { name, from, to };
        let curve = |dashed, points: &[(f64, f64)]| Curve {
            name: "c".into(),
            points: points.to_vec(),
            pair: 0,
            dashed,
        };
        let both = [curve(false, &[(0.0, -1.0), (2.0, 1.0)]), curve(true, &[(1.0, 7.0)])];
        let caption = Caption { title: "t", details: "d" };
        let svg = curves(&caption, axis("x", 0.0, 2.0), axis("y", -1.0, 1.0), &both);
        assert!(svg.contains(&format!("\"{LEFT:.1},{BOTTOM:.1} {RIGHT:.1},{TOP:.1}\"")), "{svg}");
        assert!(svg.contains(&format!("\"{:.1},{TOP:.1}\"", (LEFT + RIGHT) / 2.0)), "{svg}");
        assert_eq!(svg.matches("stroke-dasharray=\"6 4\"").count(), 1);
        assert_eq!([0.25, -0.0, 1.0, 0.1 + 0.2].map(short), ["0.25", "0", "1", "0.3"]);
    }
}
