//! [`Schedules`]: looks at the clock, takes planned times, and starts the runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use memfold::machine;
use memfold_cli::open_own_tables;
use memfold_model::time::Instant;
use memfold_store::brain_db::{Lease, ScheduleRow};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::settings::{ScheduleSettings, due_slot};
use crate::metrics::Metrics;
use crate::service::{ExecuteMode, Job, Problem, RunRequest, ServedStore};

/// The work's name in the store.
const WORK: &str = "consolidation";
/// How often the clock is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often the triggers are looked at: that reads the store.
const TRIGGERS_EVERY: i64 = 60;
/// Between two runs of triggers: a dry run changes nothing, and would be due again at once.
const TRIGGERED_EVERY: i64 = 3_600;
/// A server that works says so at least this often; one that died is believed to work so long.
const LEASE: i64 = 300;
/// Planned times that are shown.
const NEXT_SHOWN: usize = 5;

/// A schedule as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ScheduleView {
    /// Version of this format.
    pub schema_version: u32,
    /// Its settings.
    #[serde(flatten)]
    pub settings: ScheduleSettings,
    /// The expression in words.
    pub words: String,
    /// The next planned times, in the schedule's zone; none where it is off.
    pub next_runs: Vec<String>,
    /// The last planned time that was taken.
    pub last_slot: Option<String>,
    /// Who works on it now.
    pub at_work: Option<String>,
    /// How the last one ended.
    pub last_outcome: Option<Value>,
}

/// What this server knows of a store's schedule beside the store's row.
#[derive(Debug, Default)]
struct Local {
    /// The last planned time, where the store may not be written.
    slot: Option<Timestamp>,
    looked_at_triggers: i64,
    at_work: Option<Arc<Job>>,
    outcome: Option<Value>,
}

/// When stores run by themselves.
pub struct Schedules {
    /// Where a store holds no settings: what the command line says.
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
    #[must_use]
    pub fn new(settings: Option<ScheduleSettings>, metrics: Arc<Metrics>) -> Self {
        let started_at = timestamp(machine::clock());
        Self { settings, started_at, metrics, local: Mutex::default() }
    }

    /// Looks at the clock until the process ends.
    pub async fn run(self: Arc<Self>, stores: Vec<Arc<ServedStore>>) {
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
        let taken = row.slot.as_deref().and_then(|slot| slot.parse().ok());
        let taken = taken.or_else(|| self.with(store, |local| local.slot));
        let taken: Timestamp = taken.unwrap_or(self.started_at);
        let slot = match due_slot(&cron, taken, now) {
            Some(slot) => Some((slot, "schedule".to_owned())),
            None if settings.triggers => self.triggered(store, (taken, now))?,
            None => None,
        };
        let Some((slot, why)) = slot else { return Ok(()) };
        self.begin(store, &settings, (slot, now, &why))
    }

    /// Returns the present minute where a trigger wants a run.
    fn triggered(
        &self,
        store: &Arc<ServedStore>,
        (taken, now): (Timestamp, Timestamp),
    ) -> Result<Option<(Timestamp, String)>, Problem> {
        let looked = self.with(store, |local| {
            let is_due = now.as_second() - local.looked_at_triggers >= TRIGGERS_EVERY;
            if is_due {
                local.looked_at_triggers = now.as_second();
            }
            is_due
        });
        if !looked || now.as_second() - taken.as_second() < TRIGGERED_EVERY {
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
        (slot, now, why): (Timestamp, Timestamp, &str),
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

    /// Writes down how a run ended, or that it goes on.
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
    pub fn view(&self, store: &ServedStore) -> Result<ScheduleView, Problem> {
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

    /// Sets the schedule of a store. What was missed before is not made up for.
    ///
    /// # Errors
    /// When writing is not allowed, or the settings make no sense.
    pub fn set(
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
        session.set_schedule(WORK, (&json, &slot), &now.to_naive_local(&store.time_zone))?;
        self.view(store)
    }
}

/// Who works: the machine and the process.
fn holder(store: &ServedStore) -> String {
    format!("{} {}", machine::holder(), store.name)
}

fn timestamp(at: Instant) -> Timestamp {
    Timestamp::from_microsecond(at.0).unwrap_or_default()
}

/// A time whose order is that of its text.
fn written(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
