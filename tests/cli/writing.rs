//! Files that a run writes when asked: plans and reports.

use memfold_core::report::{Report, read_plan};

use crate::support::{Place, consolidate};

#[test]
fn plan_and_report_are_written_where_asked() {
    let place = Place::with_sample();
    let flags = ["--plan", "plan.json", "--report", "report.json"];
    let answer = place.run(&consolidate(&flags));
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(
        answer.err.contains("wrote plan.json\nwrote report.json\nwrote report.md"),
        "{answer:?}"
    );
    let plan = read_plan(&place.path("plan.json")).unwrap();
    let text = std::fs::read_to_string(place.path("report.json")).unwrap();
    let report: Report = serde_json::from_str(&text).unwrap();
    assert_eq!(report.actions, plan.actions);
    let page = std::fs::read_to_string(place.path("report.md")).unwrap();
    assert!(page.starts_with("# ") && page.contains(&report.run_id), "{page}");
}

#[test]
fn a_report_folder_is_made() {
    let place = Place::with_pair();
    place.succeed(&consolidate(&["--report-dir", "reports/nightly"]));
    let names: Vec<_> = std::fs::read_dir(place.path("reports/nightly")).unwrap().collect();
    assert_eq!(names.len(), 2);
}

#[test]
fn an_existing_report_is_never_overwritten() {
    let place = Place::with_pair();
    place.write("report.json", "mine");
    let answer = place.run(&consolidate(&["--report", "report.json"]));
    answer.fails(2, "report.json exists", "reports are never overwritten: name another file");
    assert_eq!(std::fs::read(place.path("report.json")).unwrap(), b"mine");
    place.succeed(&consolidate(&["--report-dir", "reports"]));
    let before = place.files();
    let again = place.run(&consolidate(&["--report-dir", "reports"]));
    assert!(before.iter().all(|(path, bytes)| place.files().get(path) == Some(bytes)), "{again:?}");
}

#[test]
fn a_folder_that_is_not_there_or_is_a_file_is_named() {
    let place = Place::with_pair();
    place.write("file", "");
    let answer = place.run(&consolidate(&["--report", "file/r.json"]));
    answer.fails_with(1, &["failed to write the report", "file"]);
    let answer = place.run(&consolidate(&["--report-dir", "file"]));
    answer.fails_with(1, &["failed to write the report", "file"]);
    let answer = place.run(&consolidate(&["--plan", "nowhere/p.json"]));
    answer.fails_with(1, &["failed to find the folder of nowhere/p.json", "make the folder first"]);
}

#[cfg(unix)]
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn a_folder_that_may_not_be_written_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::with_pair();
    let folder = place.path("sealed");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o555)).unwrap();
    if std::fs::write(folder.join("probe"), "").is_ok() {
        eprintln!("skipped: this user may write everywhere");
        return;
    }
    for flag in ["--report", "--plan"] {
        let answer = place.run(&consolidate(&[flag, "sealed/x.json"]));
        answer.fails_with(1, &["sealed/x.json", "ermission denied"]);
    }
}
