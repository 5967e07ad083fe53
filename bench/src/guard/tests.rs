use std::io::{self, BufReader, Read};

use memfold_core::policy::Policy;
use memfold_guard::{Guard, Verdict};

use super::pairs::{Label, LabelledPair, LabelledPairs};
use super::run::{ContradictionCurve, CurvePoint, GuardBench, PairOutcome, VerdictCounts};

fn parse(text: &str) -> Vec<Result<LabelledPair, String>> {
    let pairs = LabelledPairs::new(text.as_bytes());
    pairs.map(|pair| pair.map_err(|error| error.to_string())).collect()
}

fn line(a: &str, b: &str, label: &str) -> String {
    serde_json::json!({ "a": a, "b": b, "label": label }).to_string() + "\n"
}

/// Scores of labelled pairs, and of others.
fn curve(wanted: &[f64], others: &[f64]) -> ContradictionCurve {
    let mut curve = ContradictionCurve::default();
    wanted.iter().for_each(|score| curve.push(*score, true));
    others.iter().for_each(|score| curve.push(*score, false));
    curve
}

#[test]
fn pairs_are_read_line_by_line() {
    let text = "\u{feff}{\"a\": \"x\", \"b\": \"\\u00e9\", \"label\": \"neutral\", \"more\": [1]}\r\n\n  \n\
                {\"label\": 4.5, \"b\": \"\", \"a\": \"y\"}";
    let pair = |line, a: &str, b: &str, label| LabelledPair {
        line,
        a: a.into(),
        b: b.into(),
        label,
        similarity: None,
    };
    let band = Label::of(4.75).unwrap();
    let expected = [pair(1, "x", "é", Label::Word("neutral".into())), pair(4, "y", "", band)];
    assert_eq!(parse(text), expected.map(Ok));
    assert_eq!(parse(""), []);
}

#[test]
fn what_is_wrong_is_said_with_its_line_and_ends_the_reading() {
    let good = line("x", "y", "neutral");
    for (bad, expected) in [
        ("{\"a\": \"x\"", "line 2: EOF while parsing an object, in column 9"),
        ("{\"a\": \"\u{0}\"}", "line 2: control character"),
        ("1", "line 2: invalid type: integer `1`, expected an object"),
        ("{\"a\": \"x\", \"label\": \"neutral\"}", "line 2: missing field `b`"),
        ("{\"a\": \"x\", \"b\": \"y\"}", "line 2: missing field `label`"),
        (
            "{\"a\": null, \"b\": \"y\", \"label\": \"neutral\"}",
            "line 2: invalid type: null, expected a string",
        ),
        (
            "{\"a\": \"x\", \"b\": \"y\", \"label\": true}",
            "line 2: the label is neither a text nor a number",
        ),
        (
            "{\"a\": \"x\", \"b\": \"y\", \"label\": 5.01}",
            "line 2: the label 5.01 is outside 0 to 5",
        ),
        ("{\"a\": \"x\", \"b\": \"y\", \"label\": -1}", "line 2: the label -1 is outside 0 to 5"),
    ] {
        let found = parse(&[&good, bad, "\n", &good].concat());
        let message = found[1].as_ref().unwrap_err();
        assert!(message.starts_with(expected), "{bad}: {message}");
        assert_eq!(found.len(), 2, "{bad}");
    }
}

#[test]
fn bytes_that_are_no_text_and_endless_lines_are_refused() {
    let mut pairs = LabelledPairs::new(&b"{\"a\": \"\xff\", \"b\": \"\", \"label\": 1}"[..]);
    let message = pairs.next().unwrap().unwrap_err().to_string();
    assert!(message.starts_with("line 1: invalid unicode code point"), "{message}");
    let mut pairs = LabelledPairs::new(BufReader::new(io::repeat(b' ')));
    let message = pairs.next().unwrap().unwrap_err().to_string();
    assert_eq!(message, "line 1: longer than 67108864 bytes");
    assert!(pairs.next().is_none());
}

/// Gives one byte, then fails.
struct Broken(bool);

impl Read for Broken {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if std::mem::replace(&mut self.0, true) {
            return Err(io::Error::other("the disk is gone"));
        }
        into[0] = b'\n';
        Ok(1)
    }
}

#[test]
fn a_failing_disk_is_told_of() {
    let mut pairs = LabelledPairs::new(BufReader::new(Broken(false)));
    let error = pairs.next().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "line 2: the disk is gone");
    assert!(error.hint.is_none());
}

#[test]
fn a_band_holds_its_lower_bound() {
    let name = |similarity| Label::of(similarity).map(|band| band.to_string());
    for (similarity, expected) in [
        (0.0, "0-1"),
        (-0.0, "0-1"),
        (0.999, "0-1"),
        (1.0, "1-2"),
        (3.999, "3-4"),
        (4.0, "4-4.5"),
        (4.499, "4-4.5"),
        (4.5, "4.5-5"),
        (5.0, "4.5-5"),
    ] {
        assert_eq!(name(similarity).as_deref(), Some(expected), "{similarity}");
    }
    for outside in [-0.001, 5.001, f64::NAN, f64::INFINITY] {
        assert_eq!(name(outside), None, "{outside}");
    }
}

#[test]
fn a_threshold_finds_what_scores_as_much() {
    // Five labelled pairs, two of them without any sign; four others, one without.
    let curve = curve(&[0.9, 0.6, 0.6, 0.0, 0.0], &[0.7, 0.5, 0.2, 0.0]).sorted();
    let point = |threshold, found, right, f1| CurvePoint {
        threshold,
        found,
        right,
        precision: Some(right as f64 / found as f64),
        recall: right as f64 / 5.0,
        f1: Some(f1),
    };
    // F1 is twice the right ones over the sum of found and labelled: 6 of 9, 6 of 10, 2 of 6.
    assert_eq!(curve.at(0.5), point(0.5, 5, 3, 0.6));
    assert_eq!(curve.at(0.6), point(0.6, 4, 3, 6.0 / 9.0));
    assert_eq!(curve.at(0.600_001), point(0.600_001, 2, 1, 2.0 / 7.0));
    assert_eq!(curve.at(0.9), point(0.9, 1, 1, 2.0 / 6.0));
    assert_eq!(curve.best(), Some(curve.at(0.6)));
    let none =
        CurvePoint { threshold: 1.0, found: 0, right: 0, precision: None, recall: 0.0, f1: None };
    assert_eq!(curve.at(1.0), none);
    let points = curve.points();
    assert_eq!((points.len(), points[49], points[99]), (100, curve.at(0.5), none));
}

#[test]
fn of_equally_good_thresholds_the_highest_is_best() {
    // At 0.8: 1 right of 1, F1 2/3. At 0.4: 2 right of 4, F1 2/3.
    let sorted = curve(&[0.8, 0.4], &[0.7, 0.5]).sorted();
    assert_eq!(sorted.best(), Some(sorted.at(0.8)));
    assert_eq!(sorted.at(0.4).f1, sorted.at(0.8).f1);
    assert_eq!(curve(&[0.0], &[0.9]).sorted().best(), None);
}

#[test]
fn pairs_are_counted_by_label() {
    let guard = Guard::new(&Policy::builtin().guard).unwrap();
    let mut bench = GuardBench::new(&guard, &|| 0.0);
    let text = [
        line("The door is purple", "The door is cyan", "contradiction"),
        line("The kiln stands in the yard", "Tea comes from the harbour", "contradiction"),
        line("The door is purple", "the  door is purple.", "entailment"),
        line("The door is purple", "The door is purple because oak was too dear", "entailment"),
        line("The timeout is 30 seconds", "The timeout is 45 seconds", "entailment"),
    ];
    let outcomes: Vec<PairOutcome> = LabelledPairs::new(text.concat().as_bytes())
        .map(|pair| bench.judge(&pair.unwrap()).unwrap())
        .collect();
    let verdicts: Vec<Verdict> = outcomes.iter().map(|outcome| outcome.verdict).collect();
    use Verdict::{Conflict, Extends, Same, Undecided};
    assert_eq!(verdicts, [Conflict, Undecided, Same, Extends, Conflict]);
    assert_eq!(outcomes.iter().map(|outcome| outcome.index).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    let report = bench.report();
    let counts = |same, extends, undecided, conflict| VerdictCounts {
        same,
        extends,
        undecided,
        different: 0,
        conflict,
    };
    let labels: Vec<_> = report
        .labels
        .iter()
        .map(|one| (one.label.as_str(), one.pairs, one.verdicts, one.mergeable))
        .collect();
    assert_eq!(
        labels,
        [("contradiction", 2, counts(0, 0, 1, 1), 0), ("entailment", 3, counts(1, 1, 0, 1), 2)]
    );
    assert!((report.labels[1].mergeable_share - 2.0 / 3.0).abs() < 1e-12);
    let found = report.contradiction.unwrap();
    assert_eq!((found.labelled, found.in_use.found, found.in_use.right), (2, 2, 1));
    assert_eq!((found.in_use.threshold, found.in_use.f1), (0.5, Some(0.5)));
    assert_eq!(found.curve.len(), 100);
}

#[test]
fn what_says_less_is_not_mergeable() {
    let guard = Guard::new(&Policy::builtin().guard).unwrap();
    let mut bench = GuardBench::new(&guard, &|| 0.0);
    let text = line("The door is purple because oak was too dear", "The door is purple", "neutral");
    let pair = LabelledPairs::new(text.as_bytes()).next().unwrap().unwrap();
    let outcome = bench.judge(&pair).unwrap();
    assert_eq!((outcome.verdict, outcome.mergeable), (Verdict::Extends, false));
    assert_eq!(bench.report().contradiction, None);
}

#[test]
fn time_is_that_of_the_clock() {
    let guard = Guard::new(&Policy::builtin().guard).unwrap();
    // Pairs of 2, 8 and 40 µs.
    let ticks = std::cell::Cell::new(0_usize);
    let clock = || {
        let tick = ticks.replace(ticks.get() + 1);
        [0.0, 2e-6, 10e-6, 18e-6, 20e-6, 60e-6][tick]
    };
    let mut bench = GuardBench::new(&guard, &clock);
    for pair in LabelledPairs::new(line("x", "y", "neutral").repeat(3).as_bytes()) {
        bench.judge(&pair.unwrap()).unwrap();
    }
    let time = bench.report().microseconds_per_pair.unwrap();
    assert!((time.median - 8.0).abs() < 1e-3, "{time:?}");
    assert!((time.mean - 50.0 / 3.0).abs() < 1e-3, "{time:?}");
    assert_eq!(GuardBench::new(&guard, &clock).report().microseconds_per_pair, None);
}

#[test]
fn labels_that_are_no_labels_are_refused() {
    let guard = Guard::new(&Policy::builtin().guard).unwrap();
    let mut bench = GuardBench::new(&guard, &|| 0.0);
    let text: String = (0..65).map(|label| line("x", "x", &format!("word {label}"))).collect();
    let mut judged = LabelledPairs::new(text.as_bytes()).map(|pair| bench.judge(&pair.unwrap()));
    assert!(judged.by_ref().take(64).all(|outcome| outcome.is_ok()));
    let error = judged.next().unwrap().unwrap_err().to_string();
    assert_eq!(error, "line 65: yet another label, after 64");
}
