//! The elements that all plots are made of.

use std::fmt::Write as _;

pub(crate) const WIDTH: f64 = 760.0;
const TEXT: &str = "#1a1a1a";
const GRID: &str = "#d9d9d9";
pub(crate) const MARKED: &str = "#0b6e4f";
pub(crate) const PLAIN: &str = "#8a8f98";

/// Colours of lines that stand beside each other.
pub(crate) const COLORS: [&str; 9] = [
    MARKED, "#b3261e", "#1f4e9e", "#b26a00", "#6a3d9a", "#00707a", "#8c2d5e", "#5b5b00", "#444c56",
];

/// Height of a line of text.
const LINE_STEP: f64 = 17.0;

/// Title, and the line below it that says what was measured.
#[derive(Debug, Clone, Copy)]
pub struct Caption<'a> {
    /// In bold.
    pub title: &'a str,
    /// Below the title.
    pub details: &'a str,
}

/// A drawing under way.
pub(crate) struct Svg {
    text: String,
    height: f64,
}

impl Svg {
    pub(crate) fn new(height: f64, caption: &Caption<'_>) -> Self {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n"
        );
        let mut svg = Self { text, height };
        svg.push(&format!("<title>{}</title>", escaped(caption.title)));
        svg.push("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>");
        svg.push(&format!(
            "<text x=\"16\" y=\"28\" font-size=\"16\" font-weight=\"bold\" fill=\"{TEXT}\">{}</text>",
            escaped(caption.title)
        ));
        svg.text((16.0, 49.0), "start", caption.details);
        svg
    }

    pub(crate) fn push(&mut self, element: &str) {
        // Writing to a string cannot fail.
        let _written = writeln!(self.text, "{element}");
    }

    pub(crate) fn text(&mut self, at: (f64, f64), anchor: &str, text: &str) {
        self.colored_text(at, anchor, TEXT, text);
    }

    pub(crate) fn colored_text(
        &mut self,
        (x, y): (f64, f64),
        anchor: &str,
        color: &str,
        text: &str,
    ) {
        self.push(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{color}\">{}</text>",
            escaped(text)
        ));
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.push(&format!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{GRID}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    pub(crate) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The end of a line, with its name and colour.
pub(crate) type End<'a> = (f64, f64, &'a str, &'a str);

/// Writes names at `left` from the top, none over another or below the picture, each with a thin line from its end.
pub(crate) fn draw_names(svg: &mut Svg, left: f64, mut ends: Vec<End<'_>>) {
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut baselines: Vec<f64> = Vec::with_capacity(ends.len());
    let mut lowest = f64::MIN;
    for (y, ..) in &ends {
        lowest = (lowest + LINE_STEP).max(y + 4.0);
        baselines.push(lowest);
    }
    // What would stand below the picture moves up, and what is in its way.
    let mut room = svg.height - LINE_STEP / 2.0;
    for baseline in baselines.iter_mut().rev() {
        *baseline = baseline.min(room);
        room = *baseline - LINE_STEP;
    }
    for ((y, x, name, color), baseline) in ends.into_iter().zip(baselines) {
        let (to_x, to_y) = (left - 4.0, baseline - 4.0);
        svg.push(&format!(
            "<line x1=\"{:.1}\" y1=\"{y:.1}\" x2=\"{to_x:.1}\" y2=\"{to_y:.1}\" stroke=\"{color}\" \
             stroke-width=\"0.7\" stroke-dasharray=\"2 3\"/>",
            x + 5.0
        ));
        svg.colored_text((left, baseline), "start", color, name);
    }
}

/// Returns the numbers behind each `before`.
#[cfg(test)]
pub(crate) fn numbers(svg: &str, before: &str) -> Vec<f64> {
    let parts = svg.split(before).skip(1);
    parts.filter_map(|part| part.split('"').next()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_cover_each_other() {
        let mut svg = Svg::new(100.0, &Caption { title: "t", details: "d" });
        let before = svg.text.len();
        draw_names(&mut svg, 9.0, vec![(50.0, 1.0, "b", TEXT), (48.0, 1.0, "a", TEXT)]);
        assert_eq!(numbers(&svg.text[before..], " y=\""), [52.0, 69.0]);
        let before = svg.text.len();
        let ends = [20.0, 88.0, 88.0, 88.0].map(|y| (y, 1.0, "c", TEXT));
        draw_names(&mut svg, 9.0, ends.into());
        assert_eq!(numbers(&svg.text[before..], " y=\""), [24.0, 57.5, 74.5, 91.5]);
    }
}
