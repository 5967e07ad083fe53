//! [`histogram`]: how often something took how long.

use crate::Caption;
use crate::svg::{COLORS, Svg, WIDTH, draw_names};

/// One distribution.
#[derive(Debug, Clone)]
pub struct Distribution {
    /// Written beside its highest bar.
    pub name: String,
    /// Microseconds, above zero, in any order.
    pub microseconds: Vec<f64>,
}

/// Bars to a decade.
const BARS: f64 = 16.0;

/// Draws the share of values over a logarithmic axis of time, one outline for each distribution, with a mark at its
/// 99th percentile.
#[must_use]
pub fn histogram(caption: &Caption<'_>, distributions: &[Distribution]) -> String {
    let height = 430.0;
    let mut svg = Svg::new(height, caption);
    let logs = |value: &f64| value.max(1.0).log10();
    let all = || distributions.iter().flat_map(|one| &one.microseconds).map(logs);
    let (low, high) = all().fold((f64::MAX, f64::MIN), |(l, h), x| (l.min(x), h.max(x)));
    if low > high {
        return svg.finish();
    }
    let first = (low * BARS).floor();
    let count = ((high * BARS).floor() - first) as usize + 1;
    let frame = Frame { left: 60.0, right: WIDTH - 190.0, top: 80.0, bottom: height - 60.0 };
    let shares: Vec<Vec<f64>> =
        distributions.iter().map(|one| shares(&one.microseconds, first, count)).collect();
    let most = shares.iter().flatten().fold(0.0_f64, |most, share| most.max(*share));
    let x = |at: f64| frame.left + (at * BARS - first) / count as f64 * (frame.right - frame.left);
    let y = |share: f64| frame.bottom - share / most * (frame.bottom - frame.top);
    svg.line((frame.left, frame.bottom), (frame.right, frame.bottom));
    for decade in low.floor() as i32..=high.ceil() as i32 {
        for step in [1.0, 2.0, 5.0] {
            let value = step * 10_f64.powi(decade);
            let at = x(value.log10());
            if (frame.left..=frame.right).contains(&at) {
                svg.line((at, frame.top), (at, frame.bottom));
                svg.text((at, frame.bottom + 18.0), "middle", &time(value));
            }
        }
    }
    let mut names = Vec::new();
    for ((one, shares), color) in distributions.iter().zip(&shares).zip(COLORS.iter().cycle()) {
        let mut path = vec![format!("{:.1},{:.1}", frame.left, frame.bottom)];
        for (bar, share) in shares.iter().enumerate() {
            for edge in [bar, bar + 1] {
                let at = x((first + edge as f64) / BARS);
                path.push(format!("{at:.1},{:.1}", y(*share)));
            }
        }
        path.push(format!("{:.1},{:.1}", frame.right, frame.bottom));
        svg.push(&format!(
            "<polyline points=\"{}\" fill=\"{color}\" fill-opacity=\"0.12\" stroke=\"{color}\" \
             stroke-width=\"1.6\"/>",
            path.join(" ")
        ));
        let p99 = x(logs(&percentile(&one.microseconds, 0.99)));
        svg.push(&format!(
            "<line x1=\"{p99:.1}\" y1=\"{:.1}\" x2=\"{p99:.1}\" y2=\"{:.1}\" stroke=\"{color}\" \
             stroke-width=\"1.6\" stroke-dasharray=\"5 4\"/>",
            frame.top, frame.bottom
        ));
        let peak = (0..count).max_by(|a, b| shares[*a].total_cmp(&shares[*b])).unwrap_or(0);
        names.push((y(shares[peak]), x((first + peak as f64 + 1.0) / BARS), &*one.name, *color));
    }
    draw_names(&mut svg, frame.right + 22.0, names);
    let middle = (frame.left + frame.right) / 2.0;
    svg.text((middle, frame.bottom + 40.0), "middle", "time of one check; dashed: 99th percentile");
    svg.finish()
}

struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// Returns the value that the share of values does not exceed; 0 of none.
#[must_use]
pub fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

fn shares(values: &[f64], first: f64, count: usize) -> Vec<f64> {
    let mut shares = vec![0.0; count];
    for value in values {
        let bar = (value.max(1.0).log10() * BARS).floor() - first;
        shares[(bar as usize).min(count - 1)] += 1.0 / values.len() as f64;
    }
    shares
}

fn time(microseconds: f64) -> String {
    match microseconds {
        value if value >= 1e6 => format!("{} s", value / 1e6),
        value if value >= 1e3 => format!("{} ms", value / 1e3),
        value => format!("{value} \u{b5}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::numbers;

    #[test]
    fn slower_stands_farther_to_the_right() {
        let of = |name: &str, scale: f64| Distribution {
            name: name.to_owned(),
            microseconds: (1..=200).map(|value| scale * f64::from(value)).collect(),
        };
        let caption = Caption { title: "t", details: "d" };
        let svg = histogram(&caption, &[of("fast", 1.0), of("slow", 50.0)]);
        let dashed: Vec<&str> = svg.split("stroke-dasharray=\"5 4\"").collect();
        let p99 =
            |part: &str| *numbers(&part[part.rfind("<line").unwrap()..], "x1=\"").first().unwrap();
        assert!(p99(dashed[0]) < p99(dashed[1]));
        assert!(svg.contains(">fast<") && svg.contains(">slow<") && svg.contains(">5 ms<"));
        assert!(histogram(&caption, &[]).ends_with("</svg>\n"));
    }

    #[test]
    fn percentiles_are_values() {
        let values: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        let found = [0.5, 0.99, 0.999, 1.0].map(|share| percentile(&values, share));
        assert_eq!(found.map(|value| value as u32), [500, 990, 999, 1000]);
        assert_eq!(percentile(&[], 0.5).to_bits(), 0.0_f64.to_bits());
    }
}
