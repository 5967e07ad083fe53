//! The store's files and their disk.

use crate::brain_db::checkup::facts::Files;
use crate::brain_db::checkup::finding::{Finding, Severity};

const MEBIBYTE: u64 = 1 << 20;

/// SQLite empties its log at about 4 MiB; one so much larger is being held back.
const LOG_BYTES_MAX: u64 = 64 * MEBIBYTE;

/// A larger share of free pages is worth a remark, if it is more than a MiB or so.
const FREE_PAGES_PERCENT_MAX: u64 = 25;
const FREE_PAGES_MIN: u64 = 256;

pub(super) fn judge(files: &Files, store: &str) -> Vec<Finding> {
    [disk(files), log(files, store), mode(files, store), pages(files, store), lock(files)]
        .into_iter()
        .flatten()
        .collect()
}

fn disk(files: &Files) -> Option<Finding> {
    let free = files.free_bytes?;
    let copied = files.store_bytes + files.log_bytes;
    // A copy is made only where as much room is left afterwards.
    if free >= copied.saturating_mul(2) {
        let what = "the disk has room for a backup beside the store";
        return Some(Finding::new(Severity::Ok, "disk_free", what));
    }
    let what = format!(
        "the disk has {} left, less than twice the {} of the store: no backup will be made",
        size(free),
        size(copied)
    );
    Some(Finding::new(Severity::Warning, "disk_low", what).advice("make room first"))
}

fn log(files: &Files, store: &str) -> Option<Finding> {
    if files.log_bytes <= LOG_BYTES_MAX {
        return None;
    }
    let what = format!(
        "the write-ahead log has grown to {}: some reader never ends its transaction",
        size(files.log_bytes)
    );
    let finding = Finding::new(Severity::Warning, "log_large", what);
    Some(finding.advice("restart the programs that keep the store open for long, then").command(&[
        "sqlite3",
        store,
        "PRAGMA wal_checkpoint(TRUNCATE)",
    ]))
}

fn mode(files: &Files, store: &str) -> Option<Finding> {
    if files.in_wal_mode || files.store_bytes == 0 {
        return None;
    }
    let what = "the store keeps a rollback journal: its readers wait while anybody writes";
    let finding = Finding::new(Severity::Info, "rollback_journal", what);
    let advice = "memfold never changes the mode; the owner may:";
    Some(finding.advice(advice).command(&["sqlite3", store, "PRAGMA journal_mode = WAL"]))
}

fn pages(files: &Files, store: &str) -> Option<Finding> {
    let is_much = files.free_pages * 100 > files.pages * FREE_PAGES_PERCENT_MAX;
    if files.free_pages < FREE_PAGES_MIN || !is_much {
        return None;
    }
    let percent = files.free_pages * 100 / files.pages.max(1);
    let what = format!("{percent} % of the file are free pages; SQLite will use them again");
    let finding = Finding::new(Severity::Info, "pages_free", what).count(files.free_pages);
    let advice = "or, with every other program stopped, shrink it (rows may get new numbers: run \
                  doctor again to see whether the full-text index still fits)";
    Some(finding.advice(advice).command(&["sqlite3", store, "VACUUM"]))
}

fn lock(files: &Files) -> Option<Finding> {
    let name = memfold_model::text::excerpt(files.lock_file.as_ref()?, 100);
    let what = format!("{name} lies beside the store; the file alone locks nothing");
    Some(Finding::new(Severity::Ok, "lock_file", what))
}

/// A size for people.
pub(in crate::brain_db::checkup) fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value < 10.0 {
        format!("{value:.1} {}", units[unit])
    } else {
        format!("{value:.0} {}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::{Files, judge, size};

    #[test]
    fn a_disk_without_room_for_two_copies_is_told() {
        let codes = |free_bytes: u64| -> Vec<&str> {
            let (store_bytes, log_bytes) = (90 << 20, 10 << 20);
            let files = Files {
                store_bytes,
                log_bytes,
                in_wal_mode: true,
                free_bytes: Some(free_bytes),
                ..Files::default()
            };
            judge(&files, "brain.db").iter().map(|finding| finding.code).collect()
        };
        assert_eq!(codes(200 << 20), ["disk_free"]);
        assert_eq!(codes((200 << 20) - 1), ["disk_low"]);
    }

    #[test]
    fn sizes_are_short() {
        let shown = [0, 1536, 900 << 10, 5 << 20, 3 << 40].map(size);
        assert_eq!(shown, ["0.0 KiB", "1.5 KiB", "900 KiB", "5.0 MiB", "3.0 TiB"]);
    }
}
