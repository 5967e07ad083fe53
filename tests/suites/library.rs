//! The library's entry for programs: one way in, with the rules that bind the command line.

use memfold::execute::ExecuteError;
use memfold::{ApplyOptions, Memfold, MemfoldError, Options};
use memfold_core::policy::ConfigLoader;
use memfold_tests::{StoreStyle, TestStore, sample_rows};

fn db() -> TestStore {
    TestStore::of(&sample_rows(), StoreStyle::Plain)
}

/// Opens the store with some settings, independent of this machine's configuration.
fn open(db: &TestStore, settings: &[&str]) -> Memfold {
    let loader = settings.iter().fold(ConfigLoader::new(), |loader, text| loader.set(*text));
    let mut options = Options::default();
    options.configuration = Some(loader.load().unwrap());
    options.now = Some(db.now());
    Memfold::open_with(db.path(), options).unwrap()
}

fn refusal(memfold: &Memfold, options: &ApplyOptions) -> ExecuteError {
    match memfold.plan().unwrap().apply_with(options) {
        Err(MemfoldError::Execute(error)) => *error,
        other => panic!("not refused: {other:?}"),
    }
}

fn everything() -> ApplyOptions {
    let mut options = ApplyOptions::default();
    options.change_share_max = 1.0;
    options
}

#[test]
fn a_plan_is_made_and_applied_in_one_line() {
    let db = db();
    let memfold = open(&db, &[]);
    let planned = memfold.plan().unwrap();
    assert_eq!(planned.plan().actions, db.plan().plan.actions);
    let before = db.image();
    let run = planned.apply_with(&everything()).unwrap();
    assert_eq!(run.executed.applied, u64::try_from(run.outcomes.len()).unwrap());
    assert!(run.executed.applied > 10);
    assert_ne!(db.image(), before);
    assert_eq!(memfold.plan().unwrap().report().planned.merge, 0);
}

/// The limit of changes, the guard that is off and `read_only` bound the command line alone: a program that called
/// `execute` had none of them.
#[test]
fn write_rules_bind_library_callers() {
    let db = db();
    let before = db.image();
    let mut strict = ApplyOptions::default();
    strict.change_share_max = 0.01;

    let memfold = open(&db, &[]);
    let ExecuteError::TooManyChanges { share, digest, .. } = refusal(&memfold, &strict) else {
        panic!("another error");
    };
    assert!(share > 0.01);

    let mut other = ApplyOptions::default();
    other.expect = Some("0000".to_owned());
    assert!(matches!(refusal(&memfold, &other), ExecuteError::AnotherPlan { .. }));

    for setting in ["read_only=true", "enabled=false"] {
        let memfold = open(&db, &[setting]);
        assert!(matches!(refusal(&memfold, &everything()), ExecuteError::Forbidden { .. }));
    }
    for setting in ["guard.enabled=false", "protection.enabled=false"] {
        let memfold = open(&db, &[setting]);
        let error = refusal(&memfold, &everything());
        assert!(matches!(error, ExecuteError::Unguarded { .. }), "{setting}");
        assert!(error.hint().is_some());
    }
    assert_eq!(db.image(), before);

    let mut reviewed = ApplyOptions::default();
    reviewed.expect = Some(digest);
    memfold.plan().unwrap().apply_with(&reviewed).unwrap();
    assert_ne!(db.image(), before);
}

#[test]
fn missing_store_and_wrong_configuration_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Memfold::open(folder.path().join("brain.db")).err().unwrap();
    assert!(matches!(missing, MemfoldError::Store(_)) && missing.hint().is_some());
    let db = db();
    std::fs::write(db.path().with_file_name("memfold.yaml"), "no_such_key: 1\n").unwrap();
    let wrong = Memfold::open(db.path()).err().unwrap();
    assert!(matches!(wrong, MemfoldError::Configuration(_)) && wrong.hint().is_some());
}
