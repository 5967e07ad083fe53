//! [`Metrics`]: the counters of the server, as a page for Prometheus.
//!
//! A writer of our own: a page of counters, gauges and histograms is a hundred lines, and the OpenTelemetry
//! exporter reads the same counters.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use memfold::quick_check::Check;
use memfold_core::lifecycle::Tier;

use crate::service::ServedStore;

/// Upper bounds of durations, in seconds: checks take some 100 µs, runs minutes.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0, 600.0];

/// The kind of a metric, as the text format calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    /// Of seconds.
    Histogram,
    Gauge,
}

/// Every metric, and its meaning.
pub(crate) const METRICS: [(&str, Kind, &str); 15] = [
    ("memfold_http_requests_total", Kind::Counter, "Requests by route and status."),
    (
        "memfold_http_request_seconds",
        Kind::Histogram,
        "Seconds from the head of a request to that of its answer.",
    ),
    ("memfold_decisions_total", Kind::Counter, "Decisions of checks and saves."),
    ("memfold_operation_seconds", Kind::Histogram, "Seconds of checks and saves in the engine."),
    ("memfold_runs_total", Kind::Counter, "Runs by kind and how they ended."),
    ("memfold_run_seconds", Kind::Histogram, "Seconds of runs."),
    ("memfold_schedule_total", Kind::Counter, "Planned times by what became of them."),
    ("memfold_mcp_calls_total", Kind::Counter, "Calls of tools by agents."),
    ("memfold_refused_total", Kind::Counter, "Requests refused before they were read, by why."),
    (ACTIVE_REQUESTS, Kind::Gauge, "Requests that are being answered."),
    (ACTIVE_RUNS, Kind::Gauge, "Runs at work."),
    ("memfold_memories", Kind::Gauge, "Live memories by tier."),
    ("memfold_flags_open", Kind::Gauge, "Contradictory pairs that wait for a person."),
    ("memfold_plans_waiting", Kind::Gauge, "Saved plans with actions that nothing became of."),
    ("memfold_store_up", Kind::Gauge, "Whether the store can be read."),
];
pub(crate) const ACTIVE_REQUESTS: &str = "memfold_requests_active";
pub(crate) const ACTIVE_RUNS: &str = "memfold_runs_active";

/// Names and values of a series.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// A number that goes up and down.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicI64);

impl Gauge {
    /// Adds to it.
    pub(crate) fn add(&self, change: i64) {
        self.0.fetch_add(change, Ordering::Relaxed);
    }

    /// Returns it.
    pub(crate) fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default, Clone)]
struct Histogram {
    buckets: [u64; SECONDS.len()],
    count: u64,
    sum: f64,
}

impl Histogram {
    fn observe(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        for (bucket, bound) in self.buckets.iter_mut().zip(SECONDS) {
            *bucket += u64::from(value <= bound);
        }
    }
}

/// The counters of the server. Names of series begin with `memfold_`.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Requests that are being answered.
    pub(crate) in_flight: Gauge,
    /// Runs at work.
    pub(crate) running: Gauge,
    counters: Mutex<BTreeMap<(&'static str, Labels), u64>>,
    histograms: Mutex<BTreeMap<(&'static str, Labels), Histogram>>,
}

impl Metrics {
    /// Counts a request; `route` is the path as declared, not as requested.
    pub(crate) fn request(&self, route: &str, status: u16, seconds: f64) {
        self.count(
            "memfold_http_requests_total",
            &[("route", route), ("status", &status.to_string())],
        );
        self.observe("memfold_http_request_seconds", &[("route", route)], seconds);
    }

    /// Counts a check or a save.
    pub(crate) fn checked(&self, store: &str, operation: &str, check: &Check) {
        let decision = check.decision.name();
        self.count(
            "memfold_decisions_total",
            &[("store", store), ("operation", operation), ("decision", decision)],
        );
        let seconds = check.elapsed_us.total as f64 / 1e6;
        self.observe("memfold_operation_seconds", &[("operation", operation)], seconds);
    }

    /// Counts a run that ended.
    pub(crate) fn run_ended(&self, store: &str, kind: &str, state: &str, seconds: f64) {
        self.count("memfold_runs_total", &[("store", store), ("kind", kind), ("state", state)]);
        self.observe("memfold_run_seconds", &[("kind", kind)], seconds);
    }

    /// Counts scheduled work: `done`, `failed`, `elsewhere` (another server took it) or `skipped`.
    pub(crate) fn scheduled(&self, store: &str, outcome: &str) {
        self.count("memfold_schedule_total", &[("store", store), ("outcome", outcome)]);
    }

    /// Counts a tool that an agent called.
    pub(crate) fn tool(&self, tool: &str, is_error: bool) {
        let outcome = if is_error { "error" } else { "ok" };
        self.count("memfold_mcp_calls_total", &[("tool", tool), ("outcome", outcome)]);
    }

    /// Counts an attempt with a wrong token.
    pub(crate) fn refused(&self, why: &'static str) {
        self.count("memfold_refused_total", &[("why", why)]);
    }

    fn count(&self, name: &'static str, labels: &[(&'static str, &str)]) {
        if let Ok(mut counters) = self.counters.lock() {
            *counters.entry((name, owned(labels))).or_default() += 1;
        }
    }

    fn observe(&self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        if let Ok(mut histograms) = self.histograms.lock() {
            histograms.entry((name, owned(labels))).or_default().observe(value);
        }
    }

    /// Hands on each series of a counter.
    pub(crate) fn each_count(&self, wanted: &str, mut take: impl FnMut(&Labels, u64)) {
        if let Ok(counters) = self.counters.lock() {
            let series = counters.iter().filter(|((name, _), _)| *name == wanted);
            series.for_each(|((_, labels), count)| take(labels, *count));
        }
    }

    /// Hands on count and sum of each series of a histogram.
    pub(crate) fn each_sum(&self, wanted: &str, mut take: impl FnMut(&Labels, u64, f64)) {
        if let Ok(histograms) = self.histograms.lock() {
            let series = histograms.iter().filter(|((name, _), _)| *name == wanted);
            series.for_each(|((_, labels), found)| take(labels, found.count, found.sum));
        }
    }

    /// Returns the page; `gauges` are read on each request, and stand in the order of their names.
    pub(crate) fn page(&self, gauges: &[(&'static str, Labels, f64)]) -> String {
        let mut page = Page::default();
        if let Ok(counters) = self.counters.lock() {
            for ((name, labels), count) in counters.iter() {
                page.line(name, "", &written(labels), count);
            }
        }
        if let Ok(histograms) = self.histograms.lock() {
            for ((name, labels), found) in histograms.iter() {
                let labels = written(labels);
                for (bound, count) in SECONDS.iter().zip(found.buckets) {
                    page.line(name, "_bucket", &format!("{labels},le=\"{bound}\""), &count);
                }
                page.line(name, "_bucket", &format!("{labels},le=\"+Inf\""), &found.count);
                page.line(name, "_sum", &labels, &found.sum);
                page.line(name, "_count", &labels, &found.count);
            }
        }
        page.line(ACTIVE_REQUESTS, "", "", &self.in_flight.get());
        page.line(ACTIVE_RUNS, "", "", &self.running.get());
        for (name, labels, value) in gauges {
            page.line(name, "", &written(labels), value);
        }
        page.text
    }
}

/// A page in the text format of Prometheus.
#[derive(Default)]
struct Page {
    text: String,
    last: &'static str,
}

impl Page {
    /// Adds a line, and a head before the first one of a metric.
    fn line(&mut self, name: &'static str, end: &str, labels: &str, value: &dyn Display) {
        if self.last != name {
            let (_, kind, words) =
                METRICS.iter().find(|(known, ..)| *known == name).expect("the table has all");
            let kind = format!("{kind:?}").to_lowercase();
            let _ = writeln!(self.text, "# HELP {name} {words}\n# TYPE {name} {kind}");
            self.last = name;
        }
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(self.text, "{name}{end}{labels} {value}");
    }
}

/// Returns gauges of a store: memories by tier, flags, plans. They may be a minute old: the store is read for them.
pub(crate) fn store_gauges(store: &ServedStore) -> Vec<(&'static str, Labels, f64)> {
    let labels = owned(&[("store", &*store.name)]);
    let Ok(survey) = store.survey(false) else { return vec![("memfold_store_up", labels, 0.0)] };
    let tiers = Tier::ALL.map(|tier| {
        let labels = owned(&[("store", &*store.name), ("tier", tier.as_str())]);
        ("memfold_memories", labels, survey.tiers.of(tier) as f64)
    });
    let mut gauges = tiers.to_vec();
    gauges.push(("memfold_flags_open", labels.clone(), survey.open_flags as f64));
    gauges.push(("memfold_plans_waiting", labels.clone(), survey.plans_waiting as f64));
    gauges.push(("memfold_store_up", labels, 1.0));
    gauges
}

fn owned(labels: &[(&'static str, &str)]) -> Labels {
    labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

/// Labels as the text format has them.
fn written(labels: &Labels) -> String {
    let escaped =
        |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    pairs.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_each_head_once_and_buckets_that_add_up() {
        let metrics = Metrics::default();
        metrics.request("/v1/check", 200, 0.0007);
        metrics.request("/v1/check", 422, 0.3);
        metrics.run_ended("a\"b", "undo", "done", 2.0);
        let page = metrics.page(&[("memfold_store_up", owned(&[("store", "a")]), 1.0)]);
        assert_eq!(page.matches("# TYPE memfold_http_requests_total").count(), 1, "{page}");
        for line in [
            "memfold_http_requests_total{route=\"/v1/check\",status=\"422\"} 1",
            "memfold_http_request_seconds_bucket{route=\"/v1/check\",le=\"0.001\"} 1",
            "memfold_http_request_seconds_bucket{route=\"/v1/check\",le=\"+Inf\"} 2",
            "memfold_http_request_seconds_count{route=\"/v1/check\"} 2",
            "memfold_runs_total{store=\"a\\\"b\",kind=\"undo\",state=\"done\"} 1",
            "memfold_store_up{store=\"a\"} 1",
            "memfold_runs_active 0",
        ] {
            assert!(page.contains(&format!("{line}\n")), "{line}\n{page}");
        }
    }
}
