//! Reports of a hand-made run.

use std::path::Path;

use super::{Commands, Executed, Mode, Report, Run, Seconds, markdown, screen, write_report_in};
use crate::plan::Plan;
use crate::plan::fixture::{Fixture, NOW, row};

pub(super) fn report() -> Report {
    let memories = vec![
        row("a", "deploy port 8080", 2),
        row("b", "deploy  port 8080", 3),
        row("c", "tests `pass` <b>now</b>, password: hunter2", 4),
        row("d", "tests pass, password: hunter2", 5),
        row("e", "nothing else", 0),
    ];
    let mut fixture = Fixture::new(memories).cluster(&["a", "b"]).cluster(&["c", "d"]);
    fixture.contradictions = vec![("d", "e", 0.8)];
    let (detection, decided) = (fixture.detection(), fixture.decide());
    Report::from(&Run {
        incremental: None,
        snapshot: &fixture.snapshot,
        detection: &detection,
        decided: &decided,
        policy: &fixture.policy,
        similarity: &|left, right| fixture.similarity_of(left, right),
        now: NOW,
        mode: Mode::DryRun,
        executed: Executed::default(),
        seconds: Seconds::default(),
        peak_rss_bytes: 0,
        peak_anon_bytes: 0,
        threads: 1,
        isa: "scalar",
    })
}

#[test]
fn people_read_it_by_risk() {
    let markdown = markdown(&report());
    assert!(!markdown.contains("hunter2") && !markdown.contains("<b>"));
    insta::assert_snapshot!(markdown);
}

#[test]
fn a_run_ends_with_a_few_narrow_lines() {
    let mut report = report();
    report.loaded.live = 1_783;
    report.stats.live_after = 1_331;
    let commands = Commands { is_wrapped: true, ..Commands::of("brain.db", &report) };
    let screen = screen(&report, &commands);
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    insta::assert_snapshot!(screen);
}

#[test]
fn what_was_not_compared_is_said() {
    let mut report = report();
    let shown = |report: &Report| {
        let screen = screen(report, &Commands::of("brain.db", report));
        let line = screen.lines().find(|line| line.contains("near pair")).unwrap().to_owned();
        let markdown = markdown(report);
        let row = markdown.lines().find(|line| line.contains("recall of pairs")).unwrap();
        [line, row.to_owned()]
    };
    assert!(shown(&report)[1].contains("no pair can be missing"));
    report.detected.series_memories = 1_203;
    let [line, row] = shown(&report);
    assert!(line.ends_with("(exact join), without those of 1,203 memories in series"), "{line}");
    assert!(row.contains("1 without those of 1,203 memories in series"), "{row}");
    report.detected.series_memories = 0;
    report.detected.compared_from = Some(0.97);
    let [line, row] = shown(&report);
    assert!(line.ends_with("(exact join), from a similarity of 0.970 on"), "{line}");
    assert!(row.contains("1 from a similarity of 0.970 on"), "{row}");
}

#[test]
fn reports_are_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let report = report();
    let first = write_report_in(folder.path(), &report).unwrap();
    let second = write_report_in(folder.path(), &report).unwrap();
    assert_ne!(first, second);
    let read: Report = serde_json::from_slice(&std::fs::read(&first.json).unwrap()).unwrap();
    assert_eq!(read, report);
    let error = super::write_report(&first.json, &report).unwrap_err();
    assert!(error.to_string().ends_with("a file is there already"), "{error}");
    assert!(error.hint().is_some());
}

/// `BLESS=1` writes the schemas instead of comparing them.
#[test]
fn published_schemas_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    let schemas =
        [("plan", schemars::schema_for!(Plan)), ("report", schemars::schema_for!(Report))];
    for (name, schema) in schemas {
        let path = folder.join(format!("{name}.schema.json"));
        let expected = serde_json::to_string_pretty(&schema.to_value()).unwrap() + "\n";
        if std::env::var_os("BLESS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &expected).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == expected, "{} is old: run with BLESS=1", path.display());
    }
}
