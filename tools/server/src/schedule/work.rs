//! [`Schedules`]: reads the clock, takes planned times, and starts the runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use memfold::machine;
use memfold::ops::open_own_tables;
use memfold_core::time::Instant;
use memfold_store::brain_db::{Lease, ScheduleRow};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::settings::{ScheduleSettings, due_slot};
use crate::metrics::Metrics;
use crate::service::{ExecuteMode, Job, Problem, RunRequest, ServedStore};

/// The work's name in the store.
const WORK: &str = "consolidation";
/// How often the clock is read.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often the triggers are checked: that reads the store.
const TRIGGERS_EVERY: i64 = 60;
/// Between two runs of triggers: a dry run changes nothing, and would be due again at once.
const TRIGGERED_EVERY: i64 = 3_600;
/// A working server extends its claim at least this often; a dead one keeps its claim this long.
const LEASE: i64 = 300;
/// Planned times that are displayed.
const NEXT_SHOWN: usize = 5;

/// A schedule as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ScheduleView {
    /// Version of this format.
    pub(crate) schema_version: u32,
    /// Its settings.
    #[serde(flatten)]
    pub(crate) settings: ScheduleSettings,
    /// The expression in words.
    pub(crate) words: String,
    /// The next planned times, in the schedule's zone; none where it is off.
    pub(crate) next_runs: Vec<String>,
    /// The last planned time that was taken.
    pub(crate) last_slot: Option<String>,
    /// Who works on it now.
    pub(crate) at_work: Option<String>,
    /// How the last one ended.
    pub(crate) last_outcome: Option<Value>,
}

/// This server's state of a store's schedule, beside the store's row.
#[derive(Debug, Default)]
struct Local {
    /// The last planned time, where the store may not be written.
    slot: Option<Timestamp>,
    looked_at_triggers: i64,
    at_work: Option<Arc<Job>>,
    outcome: Option<Value>,
}

/// When stores run by themselves.
pub(crate) struct Schedules {
    /// The settings of the command line, for a store without its own.
    settings: Option<ScheduleSettings>,
    started_at: Timestamp,
    metrics: Arc<Metrics>,
    local: Mutex<BTreeMap<String, Local>>,
}

impl std::fmt::Debug for Schedules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schedules").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Schedules {
    /// Takes the settings of the command line; without them a store is left alone until it has some.
    pub(crate) fn new(settings: Option<ScheduleSettings>, metrics: Arc<Metrics>) -> Self {
        Self::at(timestamp(machine::clock()), settings, metrics)
    }

    fn at(
        started_at: Timestamp,
        settings: Option<ScheduleSettings>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { settings, started_at, metrics, local: Mutex::default() }
    }

    /// Reads the clock until the process ends.
    pub(crate) async fn run(self: Arc<Self>, stores: Vec<Arc<ServedStore>>) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for store in &stores {
                let (schedules, store) = (Arc::clone(&self), Arc::clone(store));
                let looked = tokio::task::spawn_blocking(move || {
                    let now = timestamp(store.now());
                    if let Err(problem) = schedules.look(&store, now) {
                        schedules.metrics.scheduled(&store.name, "failed");
                        store.note(&format!("warning: the schedule: {}", problem.detail));
                    }
                });
                // A defect ends one look.
                let _looked = looked.await;
            }
        }
    }

    fn settings_of(&self, row: &ScheduleRow) -> Option<ScheduleSettings> {
        let stored = row.settings.as_deref().and_then(|json| serde_json::from_str(json).ok());
        stored.or_else(|| self.settings.clone())
    }

    /// Looks whether a run has ended or is to begin.
    fn look(&self, store: &Arc<ServedStore>, now: Timestamp) -> Result<(), Problem> {
        self.end_or_go_on(store, now)?;
        let row = store.db.schedule(WORK)?;
        let Some(settings) = self.settings_of(&row) else { return Ok(()) };
        if !settings.enabled || !store.settings.configuration.settings.enabled {
            return Ok(());
        }
        if self.with(store, |local| local.at_work.is_some()) {
            return Ok(());
        }
        let cron = settings.cron(&store.time_zone)?;
        let local = self.with(store, |local| local.slot);
        let taken = row.slot.as_deref().and_then(|slot| slot.parse().ok()).or(local);
        let slot = match due_slot(&cron, taken.unwrap_or(self.started_at), now) {
            Some(slot) => Some((slot, "its time has come".to_owned())),
            None if settings.triggers => {
                // The time when the settings were stored is not a run.
                let last = taken.filter(|_| row.outcome.is_some() || local.is_some());
                self.triggered(store, last, now)?
            }
            None => None,
        };
        let Some((slot, why)) = slot else { return Ok(()) };
        self.begin(store, &settings, slot, now, &why)
    }

    /// Returns the present minute where a trigger wants a run.
    fn triggered(
        &self,
        store: &Arc<ServedStore>,
        last: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Option<(Timestamp, String)>, Problem> {
        let looked = self.with(store, |local| {
            let is_due = now.as_second() - local.looked_at_triggers >= TRIGGERS_EVERY;
            if is_due {
                local.looked_at_triggers = now.as_second();
            }
            is_due
        });
        let since = |last: Timestamp| now.as_second() - last.as_second();
        if !looked || last.is_some_and(|last| since(last) < TRIGGERED_EVERY) {
            return Ok(None);
        }
        let Some(reason) = store.status()?.due else { return Ok(None) };
        let minute = Timestamp::from_second(now.as_second() / 60 * 60).unwrap_or(now);
        Ok(Some((minute, reason.to_string())))
    }

    fn begin(
        &self,
        store: &Arc<ServedStore>,
        settings: &ScheduleSettings,
        slot: Timestamp,
        now: Timestamp,
        why: &str,
    ) -> Result<(), Problem> {
        if store.may_write().is_ok() {
            let until = Timestamp::from_second(now.as_second() + LEASE).unwrap_or(now);
            let (slot, now) = (written(slot), written(now));
            let holder = holder(store);
            let lease = Lease { slot: &slot, holder: &holder, now: &now, until: &written(until) };
            let at = store.now().to_naive_local(&store.time_zone);
            let session = open_own_tables(&store.path, &store.settings)?;
            if !session.take_slot(WORK, lease, &at)? {
                self.metrics.scheduled(&store.name, "elsewhere");
                return Ok(());
            }
        }
        self.with(store, |local| local.slot = Some(slot));
        let may_write = store.may_write().is_ok();
        let request = RunRequest {
            execute: if may_write { settings.execute } else { ExecuteMode::None },
            incremental: settings.incremental,
            ..RunRequest::default()
        };
        store.note(&format!("note: {} runs by itself: {why}", store.name));
        let job = match store.start_run(request) {
            Ok(job) => job,
            Err(problem) => {
                let outcome =
                    json!({ "slot": written(slot), "state": "failed", "error": problem.detail });
                self.ended(store, outcome, "failed")?;
                return Err(problem);
            }
        };
        self.with(store, |local| local.at_work = Some(job));
        Ok(())
    }

    /// Records how a run ended, or that it goes on.
    fn end_or_go_on(&self, store: &Arc<ServedStore>, now: Timestamp) -> Result<(), Problem> {
        let Some(job) = self.with(store, |local| local.at_work.clone()) else { return Ok(()) };
        if !job.state().is_over() {
            if store.may_write().is_ok() {
                let until = Timestamp::from_second(now.as_second() + LEASE).unwrap_or(now);
                let session = open_own_tables(&store.path, &store.settings)?;
                session.extend_slot(WORK, &holder(store), &written(until))?;
            }
            return Ok(());
        }
        let document = job.document();
        let outcome = json!({
            "slot": self.with(store, |local| local.slot).map(written),
            "state": document.state.name(),
            "finished_at": document.finished_at,
            "run_id": document.run_id,
            "plan_id": document.plan_id,
            "error": document.problem.map(|problem| problem.detail),
        });
        self.with(store, |local| local.at_work = None);
        let name = if document.state.name() == "done" { "done" } else { "failed" };
        self.ended(store, outcome, name)
    }

    fn ended(&self, store: &Arc<ServedStore>, outcome: Value, name: &str) -> Result<(), Problem> {
        self.metrics.scheduled(&store.name, name);
        let text = outcome.to_string();
        self.with(store, |local| local.outcome = Some(outcome));
        if store.may_write().is_ok() {
            let session = open_own_tables(&store.path, &store.settings)?;
            session.end_slot(WORK, &holder(store), &text)?;
        }
        Ok(())
    }

    fn with<T>(&self, store: &ServedStore, look: impl FnOnce(&mut Local) -> T) -> T {
        let mut local = self.local.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        look(local.entry(store.name.clone()).or_default())
    }

    /// Shows the schedule of a store.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn view(&self, store: &ServedStore) -> Result<ScheduleView, Problem> {
        let row = store.db.schedule(WORK)?;
        let settings = self
            .settings_of(&row)
            .unwrap_or_else(|| ScheduleSettings { enabled: false, ..ScheduleSettings::default() });
        let cron = settings.cron(&store.time_zone)?;
        let is_on = settings.enabled && store.settings.configuration.settings.enabled;
        let next = if is_on { cron.next(timestamp(store.now()), NEXT_SHOWN) } else { Vec::new() };
        let (slot, outcome) = self.with(store, |local| (local.slot, local.outcome.clone()));
        let stored = row.outcome.as_deref().and_then(|json| serde_json::from_str(json).ok());
        Ok(ScheduleView {
            schema_version: 1,
            words: cron.words(),
            settings,
            next_runs: next.iter().map(ToString::to_string).collect(),
            last_slot: row.slot.or_else(|| slot.map(written)),
            at_work: row.holder,
            last_outcome: stored.or(outcome),
        })
    }

    /// Sets the schedule of a store. Earlier missed runs are not made up for.
    ///
    /// # Errors
    /// When writing is not allowed, or the settings make no sense.
    pub(crate) fn set(
        &self,
        store: &ServedStore,
        settings: ScheduleSettings,
    ) -> Result<ScheduleView, Problem> {
        store.may_write()?;
        settings.cron(&store.time_zone)?;
        let json = serde_json::to_string(&settings).expect("settings hold strings and flags only");
        let now = store.now();
        let session = open_own_tables(&store.path, &store.settings)?;
        let slot = written(timestamp(now));
        session.set_schedule(WORK, &json, &slot, &now.to_naive_local(&store.time_zone))?;
        self.view(store)
    }
}

/// Identifies the worker: the machine, the process, and its name of the store.
fn holder(store: &ServedStore) -> String {
    format!("{} {}", machine::holder(), store.name)
}

fn timestamp(at: Instant) -> Timestamp {
    Timestamp::from_microsecond(at.0).unwrap_or_default()
}

/// A time as text that sorts in the order of time.
fn written(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use memfold::ops::{Settings, Sources, open_session};
    use memfold_terminal::printer::Printer;
    use memfold_tests::{StoreStyle, brain_db, memory, unit_vector};

    use super::*;
    use crate::service::{JobState, Service, Serving};

    const NIGHT: &str = "2026-03-29T01:00:00Z";

    fn service(path: &Path, name: &str) -> Service {
        let set = vec!["time_zone=Europe/Berlin".to_owned()];
        let sources = Sources { config: None, set };
        let serving = Serving { sources, threads: None };
        let printer = Printer::new(true, false, true);
        let stores = vec![(name.to_owned(), path.to_owned())];
        Service::open(stores, serving, printer, true, 1).unwrap()
    }

    fn store_with_pair(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("brain.db");
        let row = |number| memory(number, "The deploy runs on Friday", &unit_vector(4, 0));
        brain_db(&path, &[row(1), row(2)], StoreStyle::Plain);
        path
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// Checks each minute, and waits for started jobs.
    fn look(schedules: &Schedules, store: &Arc<ServedStore>, from: &str, minutes: i64) {
        for minute in 0..minutes {
            let now = at(from) + jiff::SignedDuration::from_mins(minute);
            // A run that cannot begin is reported in the outcome.
            let _looked = schedules.look(store, now);
            while store.jobs().iter().any(|job| !job.state().is_over()) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    fn settings(json: &str) -> Option<ScheduleSettings> {
        Some(serde_json::from_str(json).unwrap())
    }

    /// Berlin has no 02:00 on this night: the run comes at 03:00, and once though two servers look.
    #[test]
    fn two_servers_run_a_night_once_through_a_change_of_the_clock() {
        let folder = tempfile::tempdir().unwrap();
        let path = store_with_pair(folder.path());
        let servers = ["one", "two"].map(|name| service(&path, name));
        let schedules = [0, 1].map(|server: usize| {
            let metrics = Arc::clone(&servers[server].metrics);
            Schedules::at(
                at("2026-03-28T12:00:00Z"),
                settings(r#"{"execute":"identical"}"#),
                metrics,
            )
        });
        let stores = [0, 1].map(|server: usize| servers[server].store(None).unwrap());
        for minute in 0..90 {
            let from = at("2026-03-29T00:00:00Z") + jiff::SignedDuration::from_mins(minute);
            for (schedules, store) in schedules.iter().zip(&stores) {
                look(schedules, store, &from.to_string(), 1);
            }
        }
        let ran: usize = stores.iter().map(|store| store.past_runs().len()).sum();
        assert_eq!(ran, 1);
        let view = schedules[0].view(&stores[0]).unwrap();
        assert_eq!(view.last_slot.as_deref(), Some(NIGHT));
        assert_eq!(view.last_outcome.unwrap()["state"], "done");
        assert!(stores[0].runs().unwrap().runs.len() == 1);
    }

    #[test]
    fn a_run_that_fails_is_seen_and_what_is_off_stays_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = store_with_pair(folder.path());
        let server = service(&path, "brain");
        let store = server.store(None).unwrap();
        let metrics = Arc::clone(&server.metrics);
        let start = at("2026-03-28T12:00:00Z");
        let off = Schedules::at(start, settings(r#"{"enabled":false,"triggers":true}"#), metrics);
        look(&off, &store, "2026-03-29T00:00:00Z", 90);
        assert!(store.past_runs().is_empty() && off.view(&store).unwrap().next_runs.is_empty());

        let metrics = Arc::clone(&server.metrics);
        let on = Schedules::at(start, settings(r#"{"execute":"all"}"#), metrics);
        let other: &Settings = &store.settings;
        let held = open_session(&path, other).unwrap();
        look(&on, &store, "2026-03-29T00:58:00Z", 5);
        drop(held);
        assert_eq!(store.jobs()[0].state(), JobState::Failed);
        let report = store.past_runs().pop().unwrap().report.clone();
        assert!(report.error.unwrap().contains("locked"));
        let outcome = on.view(&store).unwrap().last_outcome.unwrap();
        assert_eq!(outcome["state"], "failed", "{outcome}");
        let page = server.metrics.page(&[]);
        assert!(page.contains("memfold_schedule_total{store=\"brain\",outcome=\"failed\"} 1"));
        // The next night is another try.
        look(&on, &store, "2026-03-29T23:58:00Z", 5);
        assert_eq!(store.past_runs().len(), 2);
        assert_eq!(on.view(&store).unwrap().last_outcome.unwrap()["state"], "done");
    }

    /// A store without any run is due; a dry run changes nothing, and would be due again at once.
    #[test]
    fn triggers_start_a_run_at_most_once_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("brain.db");
        let rows: Vec<_> = (0..60)
            .map(|number| memory(number, format!("Fact number {number}"), &unit_vector(4, 0)))
            .collect();
        brain_db(&path, &rows, StoreStyle::Plain);
        let server = service(&path, "brain");
        let store = server.store(None).unwrap();
        assert!(store.status().unwrap().due.is_some());
        let metrics = Arc::clone(&server.metrics);
        let rare = r#"{"schedule":"0 2 1 1 *","triggers":true}"#;
        let on = Schedules::at(at("2026-06-01T00:00:00Z"), settings(rare), metrics);
        look(&on, &store, "2026-06-01T00:00:00Z", 50);
        assert_eq!(store.past_runs().len(), 1);
        look(&on, &store, "2026-06-01T00:50:00Z", 40);
        assert_eq!(store.past_runs().len(), 2);
        assert!(store.past_runs().iter().all(|run| run.report.dry_run));
    }
}
