//! The full-text index.

use crate::brain_db::checkup::facts::{FullText, FullTextKind, MemoryFacts};
use crate::brain_db::checkup::finding::{Finding, Severity, counted};

/// Puts into the index what is not in it.
const FILL: &str = "INSERT INTO stm_fts(rowid, content) SELECT rowid, content FROM stm \
                    WHERE typeof(content) = 'text' AND rowid NOT IN (SELECT id FROM stm_fts_docsize);";

/// Makes an index without a copy of the texts anew.
const RENEW: &str = "BEGIN IMMEDIATE; INSERT INTO stm_fts(stm_fts) VALUES ('delete-all'); \
                     INSERT INTO stm_fts(rowid, content) SELECT rowid, content FROM stm \
                     WHERE typeof(content) = 'text'; COMMIT;";

/// Makes an index over another table anew.
const REBUILD: &str = "INSERT INTO stm_fts(stm_fts) VALUES ('rebuild');";

const DROP_ORPHANS: &str = "DELETE FROM stm_fts WHERE rowid NOT IN (SELECT rowid FROM stm);";

pub(super) fn judge(index: &FullText, memories: Option<&MemoryFacts>) -> Vec<Finding> {
    match index.kind {
        FullTextKind::Absent => {
            let what = "there is no full-text index stm_fts: a search for words finds nothing";
            let advice = "the store's owner makes it when it opens the store";
            return vec![Finding::new(Severity::Info, "full_text_absent", what).advice(advice)];
        }
        FullTextKind::Opaque => {
            let what = "the full-text index keeps no list of its rows; it was not compared";
            return vec![Finding::new(Severity::Info, "full_text_opaque", what)];
        }
        FullTextKind::Contentless | FullTextKind::Stored | FullTextKind::External => {}
    }
    let mut found = Vec::new();
    found.extend(missing(index));
    found.extend(orphans(index));
    if found.is_empty() && memories.is_some() {
        let what = "the full-text index holds every live memory and nothing else";
        found.push(Finding::new(Severity::Ok, "full_text_complete", what));
    }
    found
}

fn missing(index: &FullText) -> Option<Finding> {
    if index.missing.is_empty() {
        return None;
    }
    let count = counted(index.missing.count, "live memory is", "live memories are");
    let what = format!("{count} not in the full-text index: no search for words finds them");
    let mend = if index.kind == FullTextKind::External { REBUILD } else { FILL };
    let finding = Finding::new(Severity::Warning, "full_text_missing", what);
    Some(finding.cases(&index.missing).sql(mend))
}

fn orphans(index: &FullText) -> Option<Finding> {
    if index.orphans == 0 {
        return None;
    }
    let count = counted(index.orphans, "full-text entry has", "full-text entries have");
    let what = if index.orphans_ahead > 0 {
        format!("{count} no row; the next new memories will be found by these old words")
    } else {
        format!("{count} no row")
    };
    let severity = if index.orphans_ahead > 0 { Severity::Warning } else { Severity::Info };
    let mend = match index.kind {
        FullTextKind::External => REBUILD,
        FullTextKind::Stored => DROP_ORPHANS,
        _ => RENEW,
    };
    Some(Finding::new(severity, "full_text_orphans", what).count(index.orphans).sql(mend))
}
