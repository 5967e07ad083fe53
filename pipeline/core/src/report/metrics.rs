//! Metrics of the last run, as Prometheus' text exposition format, for node_exporter's textfile collector.
//!
//! All are gauges: they describe one run, and the next run replaces the file.
use std::fmt::Write as _;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::{AppliedReport, Executed, MergedByRisk, Mode, Planned, Report};

/// Counts over the whole memory table, as the owner's monitor makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreFigures {
    /// Rows.
    pub memories: u64,
    /// Rows with a source that begins with `consolidation`.
    pub consolidated: u64,
    /// Rows that have an embedding, whether usable or not.
    pub embedded: u64,
}

impl StoreFigures {
    /// Returns the share of consolidated rows, from 0 to 1.
    #[must_use]
    pub(crate) fn consolidated_share(&self) -> f64 {
        share(self.consolidated, self.memories)
    }

    /// Returns the share of rows that have an embedding, from 0 to 1.
    #[must_use]
    pub fn embedded_share(&self) -> f64 {
        share(self.embedded, self.memories)
    }
}

/// Returns the metrics of a run. Without `figures` of the store, the shares of the store are left
/// out.
#[must_use]
pub fn metrics(report: &Report, figures: Option<&StoreFigures>) -> String {
    let mut page = Page::default();
    store(&mut page, report.loaded.memories, figures);
    let is_whole = report.executed.stale == 0 && report.executed.failed == 0;
    last_run(&mut page, &report.run_id, report.mode, &report.isa, is_whole);
    let stages = report.seconds.stages();
    page.by("memfold_run_seconds", RUN_SECONDS, "stage", &stages);
    let memory =
        [("resident", report.peak_rss_bytes as f64), ("anonymous", report.peak_anon_bytes as f64)];
    page.by("memfold_peak_memory_bytes", "Largest memory of the last run.", "kind", &memory);
    page.one("memfold_threads", "Worker threads of the last run.", report.threads as f64);
    found(&mut page, report);
    planned_and_done(&mut page, &report.planned, &report.stats.merged, &report.executed);
    let help = "Live memories once the plan is applied.";
    page.one("memfold_live_after", help, report.stats.live_after as f64);
    page.0
}

/// Returns the metrics of a run that applied a saved plan. Searches that this run does not make are left out.
#[must_use]
pub fn applied_metrics(
    report: &AppliedReport,
    figures: Option<&StoreFigures>,
    isa: &str,
) -> String {
    let mut page = Page::default();
    if let Some(figures) = figures {
        store(&mut page, figures.memories, Some(figures));
    }
    last_run(&mut page, &report.run_id, report.mode, isa, report.is_whole());
    let stages = [("execute", report.seconds_execute)];
    page.by("memfold_run_seconds", RUN_SECONDS, "stage", &stages);
    planned_and_done(&mut page, &report.planned, &report.merged, &report.executed);
    page.0
}

const RUN_SECONDS: &str = "Wall time of the last run by stage.";

fn store(page: &mut Page, memories: u64, figures: Option<&StoreFigures>) {
    let shares = figures.map(|figures| (figures.consolidated_share(), figures.embedded_share()));
    let help = "Memories in the store.";
    page.one("memfold_memories", help, memories as f64);
    let Some((consolidated, embedded)) = shares else { return };
    let help = "Share of memories whose source begins with consolidation, from 0 to 1.";
    page.one("memfold_consolidated_share", help, consolidated);
    let help = "Share of memories that have an embedding, from 0 to 1.";
    page.one("memfold_embedded_share", help, embedded);
}

fn last_run(page: &mut Page, run_id: &str, mode: Mode, isa: &str, is_whole: bool) {
    let labels = [("mode", mode.name()), ("isa", isa)];
    let info = [(labels.as_slice(), 1.0)];
    page.family("memfold_last_run_info", "How the last run ran; always 1.", &info);
    if let Some(seconds) = time_of(run_id) {
        let help = "When the last run was, in seconds since 1970.";
        page.one("memfold_last_run_timestamp_seconds", help, seconds as f64);
    }
    page.one(
        "memfold_last_run_success",
        "1 where nothing that the last run wanted to write was skipped or rolled back, else 0.",
        f64::from(u8::from(is_whole)),
    );
}

fn found(page: &mut Page, report: &Report) {
    let (loaded, detected) = (&report.loaded, &report.detected);
    page.one("memfold_live", "Memories that may take part.", loaded.live as f64);
    let help = "Memories that may take part and have a valid vector.";
    page.one("memfold_live_with_embedding", help, loaded.with_embedding as f64);
    let skipped: Vec<_> =
        loaded.skipped.iter().map(|(reason, &count)| (reason.as_str(), count as f64)).collect();
    page.by("memfold_skipped", "Rows and embeddings left out, by reason.", "reason", &skipped);
    page.one("memfold_clusters", "Clusters of two or more.", detected.clusters as f64);
    let help = "Groups of memories with equal text.";
    page.one("memfold_duplicate_groups", help, detected.duplicate_groups as f64);
    page.one("memfold_pairs", "Pairs at or above the merge threshold.", detected.pairs as f64);
    let help = "Share of those pairs that were found, or its estimate.";
    page.one("memfold_pair_recall", help, detected.pair_recall.value);
    let help = "Contradictory pairs.";
    page.one("memfold_contradiction_pairs", help, detected.contradiction_pairs as f64);
    let help = "Contradictory pairs that the caps on flags left out.";
    page.one("memfold_flags_deferred", help, detected.flags_deferred as f64);
    page.one("memfold_protected", "Protected memories.", report.protected.total as f64);
}

fn planned_and_done(
    page: &mut Page,
    planned: &Planned,
    merged: &MergedByRisk,
    executed: &Executed,
) {
    let planned = planned.by_type().map(|(name, count)| (name, count as f64));
    page.by("memfold_planned", "Actions that the last run planned, by type.", "type", &planned);
    let merged = merged.by_risk().map(|(risk, count)| (risk, count as f64));
    let help = "Memories that the plan merges into others, by risk.";
    page.by("memfold_planned_absorbed", help, "risk", &merged);
    let executed = [
        ("applied", executed.applied as f64),
        ("stale", executed.stale as f64),
        ("failed", executed.failed as f64),
    ];
    page.by("memfold_executed", "Units of the last run by outcome.", "outcome", &executed);
}

/// The time in a run's id, in seconds since 1970.
fn time_of(run_id: &str) -> Option<i64> {
    let (time, _) = run_id.split_once('-')?;
    let time = DateTime::strptime("%Y%m%dT%H%M%SZ", time).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}

/// Families of metrics, as text.
#[derive(Default)]
struct Page(String);

type Labels<'a> = &'a [(&'a str, &'a str)];

impl Page {
    fn one(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, help, &[(&[], value)]);
    }

    /// A family of one label. Without samples nothing is written.
    fn by(&mut self, name: &str, help: &str, label: &str, samples: &[(&str, f64)]) {
        let labelled: Vec<_> =
            samples.iter().map(|(word, value)| ([(label, *word)], *value)).collect();
        let samples: Vec<(Labels<'_>, f64)> =
            labelled.iter().map(|(labels, value)| (labels.as_slice(), *value)).collect();
        self.family(name, help, &samples);
    }

    fn family(&mut self, name: &str, help: &str, samples: &[(Labels<'_>, f64)]) {
        if samples.is_empty() {
            return;
        }
        let page = &mut self.0;
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        writeln!(page, "# HELP {name} {help}\n# TYPE {name} gauge").expect(ENDLESS);
        for (labels, value) in samples {
            page.push_str(name);
            for (position, (label, word)) in labels.iter().enumerate() {
                let before = if position == 0 { '{' } else { ',' };
                write!(page, "{before}{label}=\"{}\"", escaped(word)).expect(ENDLESS);
            }
            page.push_str(if labels.is_empty() { "" } else { "}" });
            writeln!(page, " {}", number(*value)).expect(ENDLESS);
        }
    }
}

const ENDLESS: &str = "a String takes every character";

fn escaped(word: &str) -> String {
    word.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn number(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    match value {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        _ => value.to_string(),
    }
}

/// 0 where there is nothing to take a share of.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::tests::report;
    use super::super::write_metrics;
    use super::*;

    /// Reads the format as a scraper does: HELP, TYPE, then the samples of the family and of no other.
    fn parse(page: &str) -> BTreeMap<String, f64> {
        let mut samples = BTreeMap::new();
        let mut family = String::new();
        let mut helped = String::new();
        assert!(page.ends_with('\n'));
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                helped = rest.split_once(' ').unwrap().0.to_owned();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert_eq!((name, kind), (&*helped, "gauge"));
                family = name.to_owned();
            } else {
                let (key, value) = line.rsplit_once(' ').unwrap();
                let name = key.split('{').next().unwrap();
                assert_eq!(name, family, "{line}");
                assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{line}");
                assert_eq!(key.ends_with('}'), key.contains('{'), "{line}");
                let repeated = samples.insert(key.to_owned(), value.parse().unwrap());
                assert!(repeated.is_none(), "{line}");
            }
        }
        samples
    }

    #[test]
    fn a_run_is_told_in_numbers() {
        let mut report = report();
        report.run_id = "20260630T120000Z-00112233".to_owned();
        report.seconds.total = 1.5;
        report.executed.applied = 3;
        let figures = StoreFigures { memories: 8, consolidated: 2, embedded: 6 };
        let page = metrics(&report, Some(&figures));
        let samples = parse(&page);
        for (key, value) in [
            ("memfold_memories", 5.0),
            ("memfold_consolidated_share", 0.25),
            ("memfold_embedded_share", 0.75),
            ("memfold_last_run_timestamp_seconds", 1_782_820_800.0),
            ("memfold_last_run_success", 1.0),
            ("memfold_last_run_info{mode=\"dry_run\",isa=\"scalar\"}", 1.0),
            ("memfold_run_seconds{stage=\"total\"}", 1.5),
            ("memfold_planned{type=\"merge\"}", report.planned.merge as f64),
            ("memfold_executed{outcome=\"applied\"}", 3.0),
            ("memfold_pair_recall", 1.0),
        ] {
            assert_eq!(
                samples.get(key).map(|found| found.to_bits()),
                Some(value.to_bits()),
                "{key}\n{page}"
            );
        }
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let mut report = report();
        report.run_id = "odd".to_owned();
        report.executed.stale = 1;
        let samples = parse(&metrics(&report, None));
        assert!(samples.keys().all(|key| !key.ends_with("_share")));
        assert!(!samples.contains_key("memfold_last_run_timestamp_seconds"));
        assert!(samples["memfold_last_run_success"] < 0.5);
    }

    #[test]
    fn labels_cannot_break_out() {
        let mut report = report();
        report.loaded.skipped = BTreeMap::from([("a\\\"b\nmemfold_live 7".to_owned(), 1)]);
        let page = metrics(&report, None);
        assert!(page.contains(r#"memfold_skipped{reason="a\\\"b\nmemfold_live 7"} 1"#), "{page}");
        parse(&page);
        assert_eq!([f64::NAN, f64::INFINITY, 2.0, 0.1].map(number), ["NaN", "+Inf", "2", "0.1"]);
    }

    #[test]
    fn the_file_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memfold.prom");
        std::fs::write(&path, "stale file".repeat(10_000)).unwrap();
        write_metrics(&path, &metrics(&report(), None)).unwrap();
        let page = std::fs::read_to_string(&path).unwrap();
        assert!(page.starts_with("# HELP memfold_memories ") && !page.contains("stale file"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o600, 0o600);
        }
        let nowhere = folder.path().join("no/such/folder.prom");
        let error = write_metrics(&nowhere, "").unwrap_err();
        assert_eq!(error.hint().as_deref(), Some("create its folder first"));
    }
}
