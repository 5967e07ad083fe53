//! Plots of measurements as SVG, drawn by `plotters`.
//!
//! Equal data give equal bytes. The names of lines stand beside the chart, so that none covers the
//! drawing.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::Deserialize;

const WIDTH: u32 = 760;
const HEIGHT: u32 = 470;
/// Title and details.
const HEAD: u32 = 66;
/// Room for the names of lines.
const NAMES: u32 = 200;
/// Height of a bar with its gap.
const BAR_STEP: i32 = 30;
/// Bars of a histogram to a decade.
const HISTOGRAM_BARS: f64 = 16.0;

const TEXT: RGBColor = RGBColor(26, 26, 26);
const GRID: RGBColor = RGBColor(217, 217, 217);
const MARKED: RGBColor = RGBColor(11, 110, 79);
const PLAIN: RGBColor = RGBColor(138, 143, 152);
/// Colours of lines that stand beside each other.
const COLORS: [RGBColor; 9] = [
    MARKED,
    RGBColor(179, 38, 30),
    RGBColor(31, 78, 158),
    RGBColor(217, 130, 0),
    RGBColor(106, 61, 154),
    RGBColor(0, 151, 167),
    RGBColor(224, 86, 155),
    RGBColor(122, 122, 0),
    RGBColor(68, 76, 86),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Title, and the line below it that names the measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caption<'a> {
    /// In bold.
    pub(crate) title: &'a str,
    /// Below the title.
    pub(crate) details: &'a str,
}

/// How an axis is divided and labelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Even steps, ten at most.
    Linear,
    /// Logarithmic; `30k` is 30,000.
    Log,
    /// Logarithmic, from microseconds: `20 µs`, `5 ms`, `1 s`.
    Time,
}

/// One axis; values beyond it are drawn at its end.
#[derive(Debug, Clone)]
pub(crate) struct Axis<'a> {
    name: &'a str,
    scale: Scale,
    range: Range<f64>,
}

/// One line of points, ascending in x.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Line {
    /// Written beside the chart; a line without a name belongs to the one before it.
    pub(crate) name: String,
    /// x and y.
    pub(crate) points: Vec<(f64, f64)>,
    /// Lines of equal number have the same colour.
    #[serde(skip)]
    pub(crate) color: usize,
    /// Drawn in dashes.
    #[serde(skip)]
    pub(crate) dashed: bool,
    /// Its points are drawn as well.
    #[serde(skip)]
    pub(crate) dots: bool,
}

impl<'a> Axis<'a> {
    /// An axis from one number to another, in even steps.
    pub(crate) fn linear(name: &'a str, from: f64, to: f64) -> Self {
        Self { name, scale: Scale::Linear, range: from..to.max(from + f64::EPSILON) }
    }

    /// A logarithmic axis around values above zero.
    pub(crate) fn around(name: &'a str, scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let logs = values.map(|value| value.max(1e-9).log10());
        let (low, high) =
            logs.fold((f64::MAX, f64::MIN), |(low, high), log| (low.min(log), high.max(log)));
        let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
        Self { name, scale, range: low - 0.05..high.max(low + 0.3) + 0.05 }
    }

    fn place(&self, value: f64) -> f64 {
        let value = if self.scale == Scale::Linear { value } else { value.max(1e-9).log10() };
        value.clamp(self.range.start, self.range.end)
    }

    /// Where lines of the grid and labels are.
    fn ticks(&self) -> Vec<f64> {
        let Range { start, end } = self.range;
        if self.scale == Scale::Linear {
            let rough = (end - start) / 10.0;
            let decade = 10_f64.powf(rough.log10().floor());
            let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
            let step = steps.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(rough);
            let numbers =
                (start / step - 0.001).ceil() as i64..=(end / step + 0.001).floor() as i64;
            return numbers.map(|number| number as f64 * step).collect();
        }
        let steps: &[f64] = match self.scale {
            Scale::Time => &[1.0, 2.0, 5.0],
            _ if end - start > 3.0 => &[1.0],
            _ => &[1.0, 3.0],
        };
        let decades = start.floor() as i32..=end.ceil() as i32;
        let ticks =
            decades.flat_map(|decade| steps.iter().map(move |x| x.log10() + f64::from(decade)));
        ticks.filter(|tick| (start..=end).contains(tick)).collect()
    }

    fn label(&self, place: f64) -> String {
        match self.scale {
            Scale::Linear => trimmed(place),
            Scale::Log => count(10_f64.powf(place)),
            Scale::Time => time(10_f64.powf(place)),
        }
    }
}

impl Ranged for Axis<'_> {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (low, high): (i32, i32)) -> i32 {
        let share = (place - self.range.start) / (self.range.end - self.range.start);
        low + (share * f64::from(high - low)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// Draws lines over two axes, with their names beside the chart.
pub(crate) fn lines(caption: &Caption<'_>, x: &Axis<'_>, y: &Axis<'_>, lines: &[Line]) -> String {
    drawn(HEIGHT, caption, |root| {
        let (left, right) = root.split_horizontally(WIDTH - NAMES);
        let mut chart = ChartBuilder::on(&left)
            .margin_top(HEAD)
            .margin_right(14)
            .margin_bottom(8)
            .margin_left(12)
            .x_label_area_size(46)
            .y_label_area_size(62)
            .build_cartesian_2d(x.clone(), y.clone())?;
        chart
            .configure_mesh()
            .x_desc(x.name)
            .y_desc(y.name)
            .x_label_formatter(&|place| x.label(*place))
            .y_label_formatter(&|place| y.label(*place))
            .label_style(text())
            .axis_style(GRID)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()?;
        for line in lines {
            let color = COLORS[line.color % COLORS.len()];
            let places = line.points.iter().map(|&(a, b)| (x.place(a), y.place(b)));
            let places: Vec<(f64, f64)> = places.collect();
            let stroke = color.stroke_width(2);
            if line.dots {
                let dots = places.iter().map(|&place| Circle::new(place, 3, color.filled()));
                chart.draw_series(dots)?;
            }
            if line.dashed {
                chart.draw_series(DashedLineSeries::new(places, 5, 4, stroke))?;
            } else {
                chart.draw_series(LineSeries::new(places, stroke))?;
            }
        }
        draw_names(&right, lines.iter().filter(|line| !line.name.is_empty()))
    })
}

/// Writes names from the top, each behind a piece of its line.
fn draw_names<'a>(area: &Area<'_>, lines: impl Iterator<Item = &'a Line>) -> Drawn {
    for (line, y) in lines.zip((HEAD as i32 + 14..).step_by(20)) {
        let stroke = COLORS[line.color % COLORS.len()].stroke_width(2);
        let ends = [(4, y), (28, y)];
        if line.dashed {
            area.draw(&DashedPathElement::new(ends, 5, 4, stroke))?;
        } else {
            area.draw(&PathElement::new(ends, stroke))?;
        }
        let style = text().pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new(line.name.clone(), (34, y), style))?;
    }
    Ok(())
}

/// How long something took.
#[derive(Debug, Clone)]
pub(crate) struct Distribution {
    /// Written beside the chart.
    pub(crate) name: String,
    /// In any order.
    pub(crate) microseconds: Vec<f64>,
}

/// Draws the share of values over a logarithmic axis of time, and a mark at each 99th percentile.
pub(crate) fn histogram(caption: &Caption<'_>, distributions: &[Distribution]) -> String {
    let bar_of = |value: f64| (value.max(1.0).log10() * HISTOGRAM_BARS).floor() as i32;
    let all = || distributions.iter().flat_map(|one| one.microseconds.iter().map(|x| x.max(1.0)));
    let outlines: Vec<Vec<(f64, f64)>> = distributions
        .iter()
        .map(|one| {
            let bars = one.microseconds.iter().map(|value| bar_of(*value));
            let (first, last) =
                bars.clone().fold((i32::MAX, i32::MIN), |(a, b), bar| (a.min(bar), b.max(bar)));
            let edge = |bar: i32| 10_f64.powf(f64::from(bar) / HISTOGRAM_BARS);
            let mut points = Vec::new();
            for bar in first..=last {
                let share = bars.clone().filter(|found| *found == bar).count() as f64
                    / one.microseconds.len() as f64;
                points.extend([(edge(bar), share), (edge(bar + 1), share)]);
            }
            if let (Some(&(from, _)), Some(&(to, _))) = (points.first(), points.last()) {
                points.insert(0, (from, 0.0));
                points.push((to, 0.0));
            }
            points
        })
        .collect();
    let most = outlines.iter().flatten().fold(0.01_f64, |most, point| most.max(point.1));
    let drawn =
        distributions.iter().zip(outlines).enumerate().flat_map(|(color, (one, points))| {
            let p99 = memfold_bench::percentile(&one.microseconds, 0.99);
            let outline = Line { name: one.name.clone(), points, color, ..Line::default() };
            let mark = vec![(p99, 0.0), (p99, most)];
            [outline, Line { points: mark, color, dashed: true, ..Line::default() }]
        });
    lines(
        caption,
        &Axis::around("time of one check; dashed: 99th percentile", Scale::Time, all()),
        &Axis::linear("share of the checks", 0.0, most),
        &drawn.collect::<Vec<_>>(),
    )
}

/// One bar.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Bar {
    /// Written before the bar.
    pub(crate) label: String,
    /// Its length.
    pub(crate) value: f64,
    /// Written behind the bar.
    pub(crate) note: String,
    /// Drawn in the colour that catches the eye.
    pub(crate) marked: bool,
}

/// Draws horizontal bars from zero.
pub(crate) fn bars(caption: &Caption<'_>, bars: &[Bar]) -> String {
    const LEFT: i32 = 190;
    const NOTE: i32 = 180;
    let largest = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let height = HEAD + BAR_STEP as u32 * bars.len() as u32 + 14;
    drawn(height, caption, |root| {
        for (bar, top) in bars.iter().zip((HEAD as i32..).step_by(BAR_STEP as usize)) {
            let width = bar.value / largest * f64::from(WIDTH as i32 - LEFT - NOTE);
            let right = LEFT + (width.round() as i32).max(2);
            let color = if bar.marked { MARKED } else { PLAIN };
            root.draw(&Rectangle::new([(LEFT, top), (right, top + 18)], color.filled()))?;
            let style = |side| text().pos(Pos::new(side, VPos::Center));
            let middle = top + 9;
            root.draw(&Text::new(&*bar.label, (LEFT - 8, middle), style(HPos::Right)))?;
            root.draw(&Text::new(&*bar.note, (right + 7, middle), style(HPos::Left)))?;
        }
        Ok(())
    })
}

/// Draws on a white ground, below a caption.
fn drawn(height: u32, caption: &Caption<'_>, draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    let done = root.fill(&WHITE).map_err(Into::into).and_then(|()| {
        let title = FontDesc::new(FontFamily::SansSerif, 16.0, FontStyle::Bold).color(&TEXT);
        root.draw(&Text::new(caption.title, (16, 14), title))?;
        root.draw(&Text::new(caption.details, (16, 38), text()))?;
        draw(&root)
    });
    drop(root);
    // Writing to a string does not fail, and no chart is narrower than its margins.
    debug_assert!(done.is_ok(), "{done:?}");
    svg
}

fn text() -> TextStyle<'static> {
    FontDesc::new(FontFamily::SansSerif, 13.0, FontStyle::Normal).color(&TEXT)
}

/// At most three decimals, without zeros at the end.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// `30_000` is `30k`.
fn count(value: f64) -> String {
    match value {
        value if value >= 0.999e6 => format!("{}M", trimmed(value / 1e6)),
        value if value >= 999.0 => format!("{}k", trimmed(value / 1e3)),
        value if value >= 0.999 => trimmed(value),
        value => format!("{value:.6}").trim_end_matches('0').to_owned(),
    }
}

/// Microseconds in words.
fn time(value: f64) -> String {
    match value {
        value if value >= 0.999e6 => format!("{} s", trimmed(value / 1e6)),
        value if value >= 999.0 => format!("{} ms", trimmed(value / 1e3)),
        value => format!("{} µs", trimmed(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTION: Caption<'_> = Caption { title: "a < b", details: "c & d" };

    #[test]
    fn a_decade_is_a_decade() {
        let points = vec![(1e4, 0.1), (1e5, 1.0), (1e6, 10.0)];
        let xs = points.iter().map(|point| point.0);
        let x = Axis::around("rows", Scale::Log, xs);
        let y = Axis::around("seconds", Scale::Log, [0.1, 100.0].into_iter());
        let line = Line { name: "a".into(), points: points.clone(), ..Line::default() };
        let svg = lines(&CAPTION, &x, &y, &[line]);
        assert!(["10k", "100k", "1M", "a &lt; b"].iter().all(|label| svg.contains(label)), "{svg}");
        let drawn = points.iter().map(|&(a, b)| (x.place(a), y.place(b)));
        let drawn: Vec<_> = drawn.collect();
        assert!((drawn[1].0 - drawn[0].0 - (drawn[2].0 - drawn[1].0)).abs() < 1e-9, "{drawn:?}");
        assert!((drawn[1].1 - drawn[0].1 - (drawn[2].1 - drawn[1].1)).abs() < 1e-9, "{drawn:?}");
        assert!(lines(&CAPTION, &x, &y, &[]).ends_with("</svg>\n"));
    }

    #[test]
    fn numbers_of_an_axis_are_short() {
        let shown = [1e6, 3e4, 10.0, 0.003].map(count);
        assert_eq!(shown, ["1M", "30k", "10", "0.003"]);
        assert_eq!([2.0, 5e3, 1e6].map(time), ["2 µs", "5 ms", "1 s"]);
        assert_eq!([0.1 + 0.2, 0.0, -0.0].map(trimmed), ["0.3", "0", "0"]);
        let labels =
            |axis: Axis<'_>| axis.ticks().iter().map(|x| axis.label(*x)).collect::<Vec<_>>();
        assert_eq!(
            labels(Axis::linear("", 0.0, 96.0)),
            ["0", "10", "20", "30", "40", "50", "60", "70", "80", "90"]
        );
        assert_eq!(
            labels(Axis::linear("", -0.2, 1.0)),
            ["-0.2", "0", "0.2", "0.4", "0.6", "0.8", "1"]
        );
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let bar = |value, marked| Bar { label: "x".into(), value, note: "n".into(), marked };
        let svg = bars(&CAPTION, &[bar(1.0, true), bar(2.0, false)]);
        let widths = svg.split("<rect").skip(2).map(|rest| {
            let width = rest.split("width=\"").nth(1).unwrap().split('"').next().unwrap();
            width.parse::<f64>().unwrap()
        });
        let widths: Vec<f64> = widths.collect();
        assert!((widths[1] - 2.0 * widths[0]).abs() <= 1.0, "{widths:?}");
    }

    #[test]
    fn a_histogram_names_what_it_shows() {
        let one = Distribution { name: "alone".into(), microseconds: vec![100.0, 110.0, 5_000.0] };
        let svg = histogram(&CAPTION, &[one]);
        assert!(["alone", "100 µs", "5 ms"].iter().all(|text| svg.contains(text)), "{svg}");
        assert!(histogram(&CAPTION, &[]).ends_with("</svg>\n"));
    }
}
