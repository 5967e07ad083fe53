//! [`Metrics`]: the counters of the server, as a page for Prometheus.
//!
//! A writer of our own: a page of counters, gauges and histograms is a hundred lines, and the OpenTelemetry
//! exporter reads the same counters.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use memfold::quick_check::Check;

use crate::service::ServedStore;

/// Upper bounds of durations, in seconds: checks take some 100 µs, runs minutes.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0, 600.0];

/// Counters, by their names.
pub(crate) const COUNTERS: [&str; 6] = [
    "memfold_http_requests_total",
    "memfold_decisions_total",
    "memfold_runs_total",
    "memfold_schedule_total",
    "memfold_mcp_calls_total",
    "memfold_refused_total",
];
/// Histograms of seconds, by their names.
pub(crate) const HISTOGRAMS: [&str; 3] =
    ["memfold_http_request_seconds", "memfold_operation_seconds", "memfold_run_seconds"];

/// Names and values of a series.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Adds to it.
    pub fn add(&self, change: i64) {
        self.0.fetch_add(change, Ordering::Relaxed);
    }

    /// Returns it.
    pub fn get(&self) -> i64 {
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
pub struct Metrics {
    /// Requests that are being answered.
    pub in_flight: Gauge,
    /// Runs at work.
    pub running: Gauge,
    counters: Mutex<BTreeMap<(&'static str, Labels), u64>>,
    histograms: Mutex<BTreeMap<(&'static str, Labels), Histogram>>,
}

impl Metrics {
    /// Counts a request; `route` is the path as declared, not as requested.
    pub fn request(&self, route: &str, status: u16, seconds: f64) {
        self.count(
            "memfold_http_requests_total",
            &[("route", route), ("status", &status.to_string())],
        );
        self.observe("memfold_http_request_seconds", &[("route", route)], seconds);
    }

    /// Counts a check or a save.
    pub fn checked(&self, store: &str, operation: &str, check: &Check) {
        let decision = check.decision.name();
        self.count(
            "memfold_decisions_total",
            &[("store", store), ("operation", operation), ("decision", decision)],
        );
        let seconds = check.elapsed_us.total as f64 / 1e6;
        self.observe("memfold_operation_seconds", &[("operation", operation)], seconds);
    }

    /// Counts a run that ended.
    pub fn run_ended(&self, store: &str, kind: &str, state: &str, seconds: f64) {
        self.count("memfold_runs_total", &[("store", store), ("kind", kind), ("state", state)]);
        self.observe("memfold_run_seconds", &[("kind", kind)], seconds);
    }

    /// Counts scheduled work: `done`, `failed`, `elsewhere` (another server took it) or `skipped`.
    pub fn scheduled(&self, store: &str, outcome: &str) {
        self.count("memfold_schedule_total", &[("store", store), ("outcome", outcome)]);
    }

    /// Counts a tool that an agent called.
    pub fn tool(&self, tool: &str, is_error: bool) {
        let outcome = if is_error { "error" } else { "ok" };
        self.count("memfold_mcp_calls_total", &[("tool", tool), ("outcome", outcome)]);
    }

    /// Counts an attempt with a wrong token.
    pub fn refused(&self, why: &'static str) {
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

    /// Returns the page; `gauges` are read on each request.
    pub fn page(&self, gauges: &[(&'static str, String, f64)]) -> String {
        let mut page = String::new();
        let mut last = "";
        let mut head = |page: &mut String, name: &'static str, kind: &str| {
            if last != name {
                let _ = writeln!(page, "# HELP {name} {}\n# TYPE {name} {kind}", help(name));
                last = name;
            }
        };
        if let Ok(counters) = self.counters.lock() {
            for ((name, labels), value) in counters.iter() {
                let labels = written(labels);
                head(&mut page, name, "counter");
                let _ = writeln!(page, "{name}{{{labels}}} {value}");
            }
        }
        if let Ok(histograms) = self.histograms.lock() {
            for ((name, labels), found) in histograms.iter() {
                let labels = written(labels);
                head(&mut page, name, "histogram");
                for (bound, count) in SECONDS.iter().zip(found.buckets) {
                    let _ = writeln!(page, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
                }
                let Histogram { count, sum, .. } = found;
                let _ = writeln!(page, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
                let _ = writeln!(page, "{name}_sum{{{labels}}} {sum}");
                let _ = writeln!(page, "{name}_count{{{labels}}} {count}");
            }
        }
        let own = [
            ("memfold_requests_active", String::new(), self.in_flight.get() as f64),
            ("memfold_runs_active", String::new(), self.running.get() as f64),
        ];
        for (name, labels, value) in own.iter().chain(gauges) {
            head(&mut page, name, "gauge");
            match labels.is_empty() {
                true => {
                    let _ = writeln!(page, "{name} {value}");
                }
                false => {
                    let _ = writeln!(page, "{name}{{{labels}}} {value}");
                }
            }
        }
        page
    }
}

/// Returns gauges of a store: memories by tier, flags, plans. They may be a minute old: the store is read for them.
#[must_use]
pub fn store_gauges(store: &ServedStore) -> Vec<(&'static str, String, f64)> {
    let labels = |more: &[(&'static str, &str)]| {
        written(&owned(&[&[("store", &*store.name)], more].concat()))
    };
    let mut gauges = Vec::new();
    match store.survey(false) {
        Ok(survey) => {
            for tier in memfold_core::lifecycle::Tier::ALL {
                let name = tier.to_string().to_lowercase();
                gauges.push((
                    "memfold_memories",
                    labels(&[("tier", &name)]),
                    survey.tiers.of(tier) as f64,
                ));
            }
            gauges.push(("memfold_flags_open", labels(&[]), survey.open_flags as f64));
            gauges.push(("memfold_plans_waiting", labels(&[]), survey.plans_waiting as f64));
            gauges.push(("memfold_store_up", labels(&[]), 1.0));
        }
        Err(_) => gauges.push(("memfold_store_up", labels(&[]), 0.0)),
    }
    gauges.sort_by(|a, b| a.0.cmp(b.0));
    gauges
}

pub(crate) fn help(name: &str) -> &'static str {
    match name {
        "memfold_http_requests_total" => "Requests by route and status.",
        "memfold_http_request_seconds" => {
            "Seconds from the head of a request to that of its answer."
        }
        "memfold_decisions_total" => "Decisions of checks and saves.",
        "memfold_operation_seconds" => "Seconds of checks and saves in the engine.",
        "memfold_runs_total" => "Runs by kind and how they ended.",
        "memfold_run_seconds" => "Seconds of runs.",
        "memfold_schedule_total" => "Planned times by what became of them.",
        "memfold_mcp_calls_total" => "Calls of tools by agents.",
        "memfold_refused_total" => "Requests refused before they were read, by why.",
        "memfold_requests_active" => "Requests that are being answered.",
        "memfold_runs_active" => "Runs at work.",
        "memfold_memories" => "Live memories by tier.",
        "memfold_flags_open" => "Contradictory pairs that wait for a person.",
        "memfold_plans_waiting" => "Saved plans with actions that nothing became of.",
        "memfold_store_up" => "Whether the store can be read.",
        _ => "",
    }
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
        let page = metrics.page(&[("memfold_store_up", "store=\"a\"".to_owned(), 1.0)]);
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
