//! Which differences between two trees are more than noise.

use super::measured::Medians;

/// What a benchmark's times say of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Slower by more than noise and tolerance.
    Slower,
    /// Faster by more than noise and tolerance.
    Faster,
    /// The difference may be noise, or is too small to matter.
    Same,
    /// The baseline does not have it.
    New,
    /// Only the baseline has it.
    Gone,
}

/// A benchmark of both trees.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judged {
    pub(super) name: String,
    /// Median of the rounds in nanoseconds, of the baseline and of this tree.
    pub(super) nanoseconds: [Option<f64>; 2],
    /// This tree's time by the baseline's: above 1 is slower.
    pub(super) ratio: Option<f64>,
    /// How far rounds of equal code lie apart: largest by smallest, less 1; of the tree where they lie further apart.
    pub(super) noise: f64,
    pub(super) verdict: Verdict,
}

/// Compares every benchmark, by name. A difference of the medians counts where the slower one is above the faster one by more
/// than the noise and more than `tolerance`, both shares of the faster one.
pub(super) fn judge(baseline: &Medians, present: &Medians, tolerance: f64) -> Vec<Judged> {
    let mut names: Vec<&String> = baseline.keys().chain(present.keys()).collect();
    names.sort();
    names.dedup();
    let one = |name: &String| {
        let rounds = [baseline.get(name), present.get(name)];
        let nanoseconds = rounds.map(|rounds| rounds.and_then(|rounds| median(rounds)));
        let noise = rounds.into_iter().flatten().map(|rounds| spread(rounds)).fold(0.0, f64::max);
        let (ratio, verdict) = match nanoseconds {
            [Some(before), Some(now)] => {
                (Some(now / before), verdict(now / before, noise.max(tolerance)))
            }
            [None, _] => (None, Verdict::New),
            [_, None] => (None, Verdict::Gone),
        };
        Judged { name: name.clone(), nanoseconds, ratio, noise, verdict }
    };
    names.into_iter().map(one).collect()
}

fn verdict(ratio: f64, margin: f64) -> Verdict {
    if ratio > 1.0 + margin {
        Verdict::Slower
    } else if 1.0 / ratio > 1.0 + margin {
        Verdict::Faster
    } else {
        Verdict::Same
    }
}

/// The middle one, or the mean of both; `None` where there is none.
fn median(rounds: &[f64]) -> Option<f64> {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// Largest by smallest, less 1.
fn spread(rounds: &[f64]) -> f64 {
    let smallest = rounds.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = rounds.iter().copied().fold(0.0, f64::max);
    if smallest > 0.0 && smallest.is_finite() { largest / smallest - 1.0 } else { 0.0 }
}

/// Lines for people, and what they come to.
pub(super) fn table(judged: &[Judged]) -> Vec<String> {
    let width = judged.iter().map(|one| one.name.chars().count()).max().unwrap_or(0);
    let head = ["baseline", "now", "ratio", "noise"];
    let [baseline, now, ratio, noise] = head;
    let mut lines =
        vec![format!("{:width$} {baseline:>11} {now:>11} {ratio:>7} {noise:>7}", "benchmark")];
    lines.extend(judged.iter().map(|one| {
        let [before, now] = one.nanoseconds.map(time);
        let ratio = one.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
        let noise = format!("{:.1} %", one.noise * 100.0);
        let name = &one.name;
        let word = word(one.verdict);
        format!("{name:width$} {before:>11} {now:>11} {ratio:>7} {noise:>7} {word}")
            .trim_end()
            .to_owned()
    }));
    let count = |verdict| judged.iter().filter(|one| one.verdict == verdict).count();
    let changed = [Verdict::Slower, Verdict::Faster, Verdict::New, Verdict::Gone]
        .map(|verdict| format!("{} {}", count(verdict), word(verdict)));
    lines.push(format!("{} compared: {}", judged.len(), changed.join(", ")));
    lines
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Slower => "slower",
        Verdict::Faster => "faster",
        Verdict::Same => "",
        Verdict::New => "new",
        Verdict::Gone => "gone",
    }
}

fn time(nanoseconds: Option<f64>) -> String {
    match nanoseconds {
        None => "-".to_owned(),
        Some(found) if found < 1e3 => format!("{found:.2} ns"),
        Some(found) if found < 1e6 => format!("{:.2} µs", found / 1e3),
        Some(found) if found < 1e9 => format!("{:.2} ms", found / 1e6),
        Some(found) => format!("{:.2} s", found / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: f64 = 0.05;

    fn medians(all: &[(&str, &[f64])]) -> Medians {
        all.iter().map(|(name, rounds)| ((*name).to_owned(), rounds.to_vec())).collect()
    }

    fn verdict_of(baseline: &[f64], present: &[f64]) -> Verdict {
        let judged = judge(&medians(&[("a", baseline)]), &medians(&[("a", present)]), TOLERANCE);
        judged[0].verdict
    }

    #[test]
    fn equal_code_is_the_same_however_restless_the_machine() {
        assert_eq!(verdict_of(&[100.0, 100.0, 100.0], &[100.0, 100.0, 100.0]), Verdict::Same);
        // A against A, drawn from the same times.
        assert_eq!(verdict_of(&[100.0, 130.0, 101.0], &[128.0, 129.0, 99.0]), Verdict::Same);
    }

    #[test]
    fn what_is_beyond_noise_and_tolerance_counts() {
        assert_eq!(verdict_of(&[100.0, 101.0, 99.0], &[107.0, 108.0, 106.0]), Verdict::Slower);
        assert_eq!(verdict_of(&[107.0, 108.0, 106.0], &[100.0, 101.0, 99.0]), Verdict::Faster);
    }

    #[test]
    fn what_is_within_the_tolerance_does_not_count_on_a_still_machine() {
        assert_eq!(verdict_of(&[100.0, 100.0], &[104.0, 104.0]), Verdict::Same);
        assert_eq!(verdict_of(&[104.0, 104.0], &[100.0, 100.0]), Verdict::Same);
    }

    #[test]
    fn noise_of_either_tree_widens_the_margin() {
        // 8 % slower by the medians.
        let (before, now) = ([100.0, 100.0, 100.0], [108.0, 108.0, 108.0]);
        assert_eq!(verdict_of(&before, &now), Verdict::Slower);
        assert_eq!(verdict_of(&[95.0, 100.0, 106.0], &now), Verdict::Same);
        assert_eq!(verdict_of(&before, &[104.0, 108.0, 115.0]), Verdict::Same);
        // More than the noise is still told.
        assert_eq!(verdict_of(&[95.0, 100.0, 106.0], &[150.0, 151.0, 149.0]), Verdict::Slower);
    }

    #[test]
    fn one_disturbed_round_does_not_make_code_slower() {
        assert_eq!(verdict_of(&[100.0, 100.0, 100.0], &[100.0, 180.0, 100.0]), Verdict::Same);
    }

    #[test]
    fn what_only_one_tree_has_is_named_and_not_judged() {
        let baseline = medians(&[("a", &[1.0, 1.0]), ("old", &[5.0, 5.0])]);
        let present = medians(&[("a", &[2.0, 2.0]), ("made", &[9.0, 9.0])]);
        let judged = judge(&baseline, &present, TOLERANCE);
        let found: Vec<_> = judged.iter().map(|one| (one.name.as_str(), one.verdict)).collect();
        let expected = [("a", Verdict::Slower), ("made", Verdict::New), ("old", Verdict::Gone)];
        assert_eq!(found, expected);
        assert_eq!((judged[0].ratio, judged[1].ratio), (Some(2.0), None));
    }

    #[test]
    fn tables_are_as_wide_as_the_names() {
        let baseline = medians(&[("kernels/dot", &[100.0, 102.0]), ("b", &[2e6, 2e6])]);
        let present = medians(&[("kernels/dot", &[151.5, 151.5])]);
        let lines = table(&judge(&baseline, &present, TOLERANCE));
        assert_eq!(
            lines,
            [
                "benchmark      baseline         now   ratio   noise",
                "b               2.00 ms           -       -   0.0 % gone",
                "kernels/dot   101.00 ns   151.50 ns   1.500   2.0 % slower",
                "2 compared: 1 slower, 0 faster, 0 new, 1 gone",
            ]
        );
    }
}
