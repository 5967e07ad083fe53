//! [`bars`]: one number for each of several things.

use crate::Caption;
use crate::svg::{MARKED, PLAIN, Svg, WIDTH};

/// Height of a bar with its gap.
const BAR_STEP: f64 = 30.0;

/// One bar.
#[derive(Debug, Clone)]
pub struct Bar {
    /// Written before the bar.
    pub label: String,
    /// Its length.
    pub value: f64,
    /// Written behind the bar.
    pub note: String,
    /// Drawn in the colour that catches the eye.
    pub marked: bool,
}

/// Draws horizontal bars from zero.
#[must_use]
pub fn bars(caption: &Caption<'_>, bars: &[Bar]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::numbers;

    const CAPTION: Caption<'_> = Caption { title: "a < b", details: "c & d" };

    #[test]
    fn bars_are_as_long_as_their_values() {
        let bar = |value| Bar { label: "x".into(), value, note: "n".into(), marked: false };
        let svg = bars(&CAPTION, &[bar(10.0), bar(5.0), bar(0.0)]);
        let widths = numbers(&svg, " width=\"").split_off(1);
        assert_eq!(widths, [400.0, 200.0, 1.5]);
        assert!(svg.contains("a &lt; b") && svg.contains("c &amp; d"), "{svg}");
        assert!(svg.ends_with("</svg>\n"));
    }
}
