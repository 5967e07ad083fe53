//! What memfold itself left in the store.

use crate::brain_db::checkup::facts::{AuditChain, OwnTables, UnfinishedRun};
use crate::brain_db::checkup::finding::{Finding, Severity, counted};
use memfold_model::text::excerpt;

/// Names of runs and plans are cut after so many characters.
const NAME_CHARS: usize = 60;

pub(super) fn judge(own: &OwnTables, store: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(version(own));
    found.extend(incomplete(own));
    found.extend(own.unfinished.iter().map(|run| unfinished(run, store)));
    if own.unfinished.is_empty() {
        found.push(Finding::new(Severity::Ok, "runs_ended", "every run has ended"));
    }
    found.extend(audit(&own.audit, store));
    if own.open_flags > 0 {
        let pairs = counted(own.open_flags, "contradictory pair waits", "contradictory pairs wait");
        let finding = Finding::new(Severity::Info, "flags_open", format!("{pairs} for a person"));
        found.push(finding.count(own.open_flags).command(&["memfold", "flags", store]));
    }
    found.extend(moved(own.moved));
    found
}

/// What an export of the owner's tables alone does not hold.
fn moved(count: u64) -> Option<Finding> {
    if count == 0 {
        return None;
    }
    let what = format!(
        "{} in memfold_archive alone: a backup of the owner's tables, such as the JSON of \
         brain_backup.py, does not hold them",
        counted(count, "memory is", "memories are")
    );
    let advice =
        "back up the file itself (`sqlite3 brain.db '.backup COPY'`); docs/recovery.md says more";
    Some(Finding::new(Severity::Info, "archive_backup", what).count(count).advice(advice))
}

fn version(own: &OwnTables) -> Option<Finding> {
    let (found, here) = (own.version?, own.version_here);
    if found > here {
        let what = format!(
            "memfold's tables are of version {found}, this program knows {here}: it writes nothing"
        );
        let finding = Finding::new(Severity::Warning, "own_tables_newer", what);
        return Some(finding.advice("use the version of memfold that wrote to the store last"));
    }
    let what = format!("memfold's tables are of version {found}; the next write makes them {here}");
    (found < here).then(|| Finding::new(Severity::Info, "own_tables_older", what))
}

fn incomplete(own: &OwnTables) -> Option<Finding> {
    if own.missing.is_empty() && own.version.is_some() {
        return None;
    }
    let what = if own.missing.is_empty() {
        "memfold's tables do not tell their version".to_owned()
    } else {
        format!("memfold's tables are incomplete: no {}", own.missing.join(", "))
    };
    let finding = Finding::new(Severity::Warning, "own_tables_incomplete", what);
    Some(finding.advice("docs/recovery.md says what is lost and how to begin anew"))
}

fn unfinished(run: &UnfinishedRun, store: &str) -> Finding {
    let name = excerpt(&run.run_id, NAME_CHARS);
    let kind = excerpt(&run.kind, NAME_CHARS);
    if run.is_running && run.is_alive {
        let what = format!("run {name} ({kind}) is under way");
        return Finding::new(Severity::Info, "run_under_way", what);
    }
    let units = counted(run.applied, "unit", "units");
    let what = format!("run {name} ({kind}) stopped after {units}; nothing is half done");
    let finding = Finding::new(Severity::Warning, "run_unfinished", what);
    match (run.kind.as_str(), &run.plan_id, &run.target) {
        ("execute", Some(plan), _) => finding
            .advice("go on with it, or take it back:")
            .command(&["memfold", "apply", store, plan, "--execute"])
            .command(&["memfold", "undo", store, &run.run_id, "--execute"]),
        ("execute", None, _) => {
            finding.command(&["memfold", "undo", store, &run.run_id, "--execute"])
        }
        ("undo", _, Some(target)) => {
            finding.command(&["memfold", "undo", store, target, "--execute"])
        }
        _ => finding.command(&["memfold", "runs", store]),
    }
}

fn audit(chain: &AuditChain, store: &str) -> Option<Finding> {
    match chain {
        AuditChain::Unchecked => None,
        AuditChain::Whole => {
            let what = "the record of runs is as it was written";
            Some(Finding::new(Severity::Ok, "audit_chain_whole", what))
        }
        AuditChain::Broken { run_id } => {
            let run = excerpt(run_id, NAME_CHARS);
            let what = format!("the record of runs was changed by another hand before run {run}");
            let finding = Finding::new(Severity::Warning, "audit_chain_broken", what);
            Some(
                finding
                    .advice("find out who wrote to memfold_runs; undo still works by the journal")
                    .command(&["memfold", "runs", store]),
            )
        }
    }
}
