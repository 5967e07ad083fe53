//! Plots as SVG: dark text on white, numbers written beside what they measure.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const TEXT: &str = "#1a1a1a";
const GRID: &str = "#d9d9d9";
const MARKED: &str = "#0b6e4f";
const PLAIN: &str = "#8a8f98";
const COLORS: [&str; 9] = [
    MARKED, "#b3261e", "#1f4e9e", "#b26a00", "#6a3d9a", "#00707a", "#8c2d5e", "#5b5b00", "#444c56",
];

/// Height of a bar with its gap, and of a line of text.
const BAR_STEP: f64 = 30.0;
const LINE_STEP: f64 = 17.0;

/// One bar.
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    /// Written behind the bar.
    pub(crate) note: String,
    /// Drawn in the colour that catches the eye.
    pub(crate) marked: bool,
}

/// One line of points, ascending in x.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Title, and the line below it that says what was measured.
pub(crate) struct Caption<'a> {
    pub(crate) title: &'a str,
    pub(crate) details: &'a str,
}

/// Draws horizontal bars from zero.
pub(crate) fn bars(caption: &Caption<'_>, bars: &[Bar]) -> String {
    const LEFT: f64 = 190.0;
    const TOP: f64 = 72.0;
    const NOTE_WIDTH: f64 = 170.0;
    let largest = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let mut svg = Svg::new(TOP + BAR_STEP * bars.len() as f64 + 14.0, caption);
    for (position, bar) in bars.iter().enumerate() {
        let top = TOP + BAR_STEP * position as f64;
        let width = (bar.value / largest * (WIDTH - LEFT - NOTE_WIDTH)).max(1.5);
        let color = if bar.marked { MARKED } else { PLAIN };
        svg.push(&format!(
            "<rect x=\"{LEFT}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"18\" fill=\"{color}\"/>"
        ));
        svg.text((LEFT - 8.0, top + 14.0), "end", &bar.label);
        svg.text((LEFT + width + 7.0, top + 14.0), "start", &bar.note);
    }
    svg.finish()
}

/// Draws lines over two logarithmic axes; each line is named at its end.
pub(crate) fn lines(caption: &Caption<'_>, axes: (&str, &str), series: &[Series]) -> String {
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

/// The end of a line, with its name and colour.
type End<'a> = (f64, f64, &'a str, &'a str);

/// Writes names at `left` from the top, none over another, each with a thin line from its end.
fn draw_names(svg: &mut Svg, left: f64, mut ends: Vec<End<'_>>) {
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut lowest = f64::MIN;
    for (y, x, name, color) in ends {
        lowest = (lowest + LINE_STEP).max(y + 4.0);
        let (to_x, to_y) = (left - 4.0, lowest - 4.0);
        svg.push(&format!(
            "<line x1=\"{:.1}\" y1=\"{y:.1}\" x2=\"{to_x:.1}\" y2=\"{to_y:.1}\" stroke=\"{color}\" \
             stroke-width=\"0.7\" stroke-dasharray=\"2 3\"/>",
            x + 5.0
        ));
        svg.colored_text((left, lowest), "start", color, name);
    }
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
        value => format!("{value}"),
    }
}

/// A drawing under way.
struct Svg(String);

impl Svg {
    fn new(height: f64, caption: &Caption<'_>) -> Self {
        let mut svg = Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n"
        ));
        svg.push(&format!("<title>{}</title>", escaped(caption.title)));
        svg.push("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>");
        svg.push(&format!(
            "<text x=\"16\" y=\"28\" font-size=\"16\" font-weight=\"bold\" fill=\"{TEXT}\">{}</text>",
            escaped(caption.title)
        ));
        svg.text((16.0, 49.0), "start", caption.details);
        svg
    }

    fn push(&mut self, element: &str) {
        // Writing to a string cannot fail.
        let _written = writeln!(self.0, "{element}");
    }

    fn text(&mut self, at: (f64, f64), anchor: &str, text: &str) {
        self.colored_text(at, anchor, TEXT, text);
    }

    fn colored_text(&mut self, (x, y): (f64, f64), anchor: &str, color: &str, text: &str) {
        self.push(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{color}\">{}</text>",
            escaped(text)
        ));
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.push(&format!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{GRID}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTION: Caption<'_> = Caption { title: "a < b", details: "c & d" };

    /// The numbers of an attribute.
    fn numbers(svg: &str, before: &str) -> Vec<f64> {
        let parts = svg.split(before).skip(1);
        parts.filter_map(|part| part.split('"').next()?.parse().ok()).collect()
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let bar = |value| Bar { label: "x".into(), value, note: "n".into(), marked: false };
        let svg = bars(&CAPTION, &[bar(10.0), bar(5.0), bar(0.0)]);
        let widths = numbers(&svg, " width=\"").split_off(1);
        assert_eq!(widths, [400.0, 200.0, 1.5]);
        assert!(svg.contains("a &lt; b") && svg.contains("c &amp; d"), "{svg}");
        assert!(svg.ends_with("</svg>\n"));
    }

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
        assert!(lines(&CAPTION, ("rows", "seconds"), &[]).ends_with("</svg>\n"));
    }

    #[test]
    fn names_do_not_cover_each_other() {
        let mut svg = Svg::new(100.0, &CAPTION);
        let before = svg.0.len();
        draw_names(&mut svg, 9.0, vec![(50.0, 1.0, "b", TEXT), (48.0, 1.0, "a", TEXT)]);
        assert_eq!(numbers(&svg.0[before..], " y=\""), [52.0, 69.0]);
    }
}
