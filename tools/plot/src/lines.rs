//! [`lines`]: growth.

use crate::Caption;
use crate::svg::{COLORS, Svg, WIDTH, draw_names};

/// One line of points, ascending in x.
#[derive(Debug, Clone)]
pub struct Series {
    /// Written at the line's end.
    pub name: String,
    /// x and y; both axes are logarithmic.
    pub points: Vec<(f64, f64)>,
}

/// Draws lines over two logarithmic axes, named x first; each line is named at its end.
#[must_use]
pub fn lines(caption: &Caption<'_>, axes: (&str, &str), series: &[Series]) -> String {
    let height = 470.0;
    let mut svg = Svg::new(height, caption);
    let Some(frame) = Frame::around(series, height) else { return svg.finish() };
    frame.draw_grid(&mut svg);
    svg.text((frame.left, frame.top - 10.0), "start", axes.1);
    svg.text(((frame.left + frame.right) / 2.0, frame.bottom + 38.0), "middle", axes.0);
    let mut ends = Vec::new();
    for (series, color) in series.iter().zip(COLORS.iter().cycle()) {
        let points: Vec<(f64, f64)> =
            series.points.iter().map(|&point| frame.place(point)).collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        svg.push(&format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
            path.join(" ")
        ));
        for (x, y) in &points {
            svg.push(&format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{color}\"/>"));
        }
        ends.extend(points.last().map(|&(x, y)| (y, x, series.name.as_str(), *color)));
    }
    draw_names(&mut svg, frame.right + 22.0, ends);
    svg.finish()
}

/// Where the axes stand, and which decades they span.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    decades_x: (f64, f64),
    decades_y: (f64, f64),
}

impl Frame {
    /// Spans whole decades in y and what there is in x; `None` without points.
    fn around(series: &[Series], height: f64) -> Option<Self> {
        let logs = |pick: fn(&(f64, f64)) -> f64| {
            let values = series.iter().flat_map(|series| &series.points).map(pick);
            let logs = values.map(|value| value.max(f64::MIN_POSITIVE).log10());
            logs.fold((f64::MAX, f64::MIN), |(low, high), log| (low.min(log), high.max(log)))
        };
        let (x, y) = (logs(|point| point.0), logs(|point| point.1));
        (x.0 <= x.1).then(|| Self {
            left: 70.0,
            right: WIDTH - 170.0,
            top: 92.0,
            bottom: height - 58.0,
            decades_x: (x.0, x.1.max(x.0 + 0.1)),
            decades_y: (y.0.floor(), y.1.ceil().max(y.0.floor() + 1.0)),
        })
    }

    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let share = |value: f64, (low, high): (f64, f64)| {
            (value.max(f64::MIN_POSITIVE).log10() - low) / (high - low)
        };
        (
            self.left + share(x, self.decades_x) * (self.right - self.left),
            self.bottom - share(y, self.decades_y) * (self.bottom - self.top),
        )
    }

    fn draw_grid(&self, svg: &mut Svg) {
        for exponent in self.decades_y.0 as i32..=self.decades_y.1 as i32 {
            let value = 10_f64.powi(exponent);
            let (_, y) = self.place((1.0, value));
            svg.line((self.left, y), (self.right, y));
            svg.text((self.left - 8.0, y + 4.0), "end", &format!("{value}"));
        }
        let steps = (self.decades_x.0.floor() as i32..=self.decades_x.1.ceil() as i32)
            .flat_map(|exponent| [1.0, 3.0].map(|step| step * 10_f64.powi(exponent)));
        for value in steps {
            let (x, _) = self.place((value, 1.0));
            if x >= self.left - 0.5 && x <= self.right + 0.5 {
                svg.line((x, self.top), (x, self.bottom));
                svg.text((x, self.bottom + 18.0), "middle", &count(value));
            }
        }
    }
}

/// `30_000` is `30k`.
fn count(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e3 => format!("{}k", value / 1e3),
        value if value >= 1.0 => format!("{value}"),
        // 0.003 is not 0.0030000000000000001.
        value => format!("{value:.6}").trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::numbers;

    const CAPTION: Caption<'_> = Caption { title: "a < b", details: "c & d" };

    #[test]
    fn a_decade_is_a_decade() {
        let series = |name: &str, points: &[(f64, f64)]| Series {
            name: name.into(),
            points: points.to_vec(),
        };
        let all =
            [series("a", &[(1e4, 0.1), (1e5, 1.0), (1e6, 10.0)]), series("b", &[(1e5, 100.0)])];
        let svg = lines(&CAPTION, ("rows", "seconds"), &all);
        let (x, y) = (numbers(&svg, "cx=\""), numbers(&svg, "cy=\""));
        assert!((x[1] - x[0] - (x[2] - x[1])).abs() < 0.2, "{x:?}");
        assert!((y[0] - y[1] - (y[1] - y[2])).abs() < 0.2, "{y:?}");
        assert!(["10k", "100k", "1M"].iter().all(|label| svg.contains(&format!(">{label}<"))));
        let shares =
            lines(&CAPTION, ("share", "1/s"), &[series("a", &[(0.0002, 1.0), (0.1, 2.0)])]);
        assert!([">0.0003<", ">0.001<", ">0.03<"].iter().all(|label| shares.contains(label)));
        assert!(lines(&CAPTION, ("rows", "seconds"), &[]).ends_with("</svg>\n"));
    }
}
