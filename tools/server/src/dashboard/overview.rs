//! The first page: where the store stands, in numbers and plots.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use memfold_core::lifecycle::{Tier, TierCounts};
use memfold_core::plan::ActionType;

use super::plan::words;
use super::runs::{is_bad, outcome, tokens_saved};
use super::shell::{Page, Shell};
use crate::http::On;
use crate::schedule::{ScheduleView, Schedules};
use crate::service::{JobDocument, Problem, ServedStore};

/// Points of the plot of memories over time.
const POINTS: usize = 60;
/// The inside of a plot, in its own units.
const PLOT: (f64, f64) = (600.0, 140.0);
/// A few plans do not fill the width.
const COLUMNS_MIN: usize = 4;
/// Plans with actions that are drawn.
const PLANS_SHOWN: usize = 12;
/// Kinds of actions that are drawn, in the order of the colours.
const KINDS: [ActionType; 6] = [
    ActionType::Merge,
    ActionType::ProposeMerge,
    ActionType::FlagContradiction,
    ActionType::Promote,
    ActionType::Archive,
    ActionType::Rewrite,
];
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// A line of a plot.
struct Growth {
    /// `x,y x,y …` of an SVG polyline.
    points: String,
    /// The first day, one in the middle, the last.
    days: [String; 3],
}

struct Bar {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    colour: usize,
    title: String,
}

struct TierShare {
    name: &'static str,
    count: u64,
    percent: f64,
    x: f64,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    shell: Shell,
    live: u64,
    open_flags: u64,
    unflagged: usize,
    proposals: usize,
    waiting: usize,
    due: Option<String>,
    tiers: [TierShare; 4],
    growth: Option<Growth>,
    bars: Vec<Bar>,
    bars_max: u64,
    bar_ends: Vec<String>,
    legend: Vec<(usize, &'static str)>,
    last_run: Option<(String, String, String)>,
    latest_job: Option<(JobDocument, bool)>,
    tokens_saved: Option<u64>,
    schedule: ScheduleView,
    schedule_outcome: Option<(String, String)>,
}

pub(super) async fn page(on: On) -> Page {
    let schedules = Arc::clone(&on.app.schedules);
    let make = move |store: &Arc<ServedStore>, shell| overview(&schedules, store, shell);
    on.page("Overview", make).await
}

fn overview(
    schedules: &Schedules,
    store: &ServedStore,
    mut shell: Shell,
) -> Result<OverviewPage, Problem> {
    let survey = store.survey(true)?;
    let plans = store.plans()?;
    let drawn = &plans[..plans.len().min(PLANS_SHOWN)];
    let proposed: Vec<[u64; KINDS.len()]> =
        drawn.iter().rev().map(|plan| counts_by_kind(&plan.types)).collect();
    let ends = [drawn.last(), drawn.first()];
    let schedule = schedules.view(store)?;
    let jobs = store.jobs();
    let latest_job = jobs.last().map(|job| job.document());
    if latest_job.as_ref().is_some_and(|job| !job.state.is_over()) {
        shell.refresh = 5;
    }
    Ok(OverviewPage {
        shell,
        live: survey.tiers.total(),
        open_flags: survey.open_flags,
        unflagged: store.unflagged()?,
        proposals: store.proposals()?.proposals.len(),
        waiting: survey.plans_waiting,
        due: survey.due.clone(),
        tiers: tiers(survey.tiers),
        growth: growth(&survey.created),
        bars: bars(&proposed),
        bars_max: most(&proposed),
        bar_ends: ends[usize::from(drawn.len() == 1)..]
            .iter()
            .filter_map(|plan| Some(plan.as_ref()?.saved_at.clone()))
            .collect(),
        legend: KINDS.iter().enumerate().map(|(colour, kind)| (colour, words(*kind))).collect(),
        last_run: survey.last_run.as_ref().map(|run| {
            let at = run.finished_at.as_ref().unwrap_or(&run.started_at);
            (run.run_id.clone(), format!("{} {}", run.kind, run.state), at.clone())
        }),
        latest_job: latest_job.map(|job| {
            let is_bad = is_bad(job.state);
            (job, is_bad)
        }),
        tokens_saved: tokens_saved(store),
        schedule_outcome: outcome(&schedule),
        schedule,
    })
}

/// How many of the memories that live now had been created by each of some moments.
fn growth(created: &[i64]) -> Option<Growth> {
    let (first, last) = (*created.first()?, *created.last()?);
    let (width, height) = PLOT;
    let span = (last - first).max(1) as f64;
    let total = created.len() as f64;
    let point = |step: usize| {
        let share = step as f64 / (POINTS - 1) as f64;
        let until = first + (span * share) as i64;
        let count = created.partition_point(|at| *at <= until);
        format!("{:.1},{:.1}", width * share, height - height * count as f64 / total)
    };
    let day = |at: i64| memfold_core::time::Instant(at).to_rfc3339().chars().take(10).collect();
    let points = (0..POINTS).map(point).collect::<Vec<_>>().join(" ");
    let is_line = last - first >= MICROS_PER_DAY;
    is_line.then(|| Growth { points, days: [first, first + (last - first) / 2, last].map(day) })
}

fn counts_by_kind(types: &BTreeMap<ActionType, u64>) -> [u64; KINDS.len()] {
    KINDS.map(|kind| types.get(&kind).copied().unwrap_or(0))
}

/// The most actions of a plan, at least one.
fn most(plans: &[[u64; KINDS.len()]]) -> u64 {
    plans.iter().map(|counts| counts.iter().sum()).max().unwrap_or(0).max(1)
}

/// One column for each plan, in their order; a plan that does nothing has none.
fn bars(plans: &[[u64; KINDS.len()]]) -> Vec<Bar> {
    let (width, height) = PLOT;
    let most = most(plans);
    let step = width / plans.len().max(COLUMNS_MIN) as f64;
    let mut bars = Vec::new();
    for (column, counts) in plans.iter().enumerate() {
        let mut y = height;
        for (colour, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let tall = height * *count as f64 / most as f64;
            y -= tall;
            let x = step * column as f64 + step * 0.15;
            let title = format!("{}: {count}", words(KINDS[colour]));
            bars.push(Bar { x, y, width: step * 0.7, height: tall, colour, title });
        }
    }
    bars
}

fn tiers(counts: TierCounts) -> [TierShare; 4] {
    let total = counts.total().max(1) as f64;
    let mut x = 0.0;
    Tier::ALL.map(|tier| {
        let (name, count) = (tier.as_str(), counts.of(tier));
        let percent = count as f64 * 100.0 / total;
        let share = TierShare { name, count, percent, x };
        x += percent;
        share
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_ends_at_all_memories() {
        assert!(growth(&[]).is_none());
        assert!(growth(&[5, 5, 5]).is_none());
        let growth = growth(&[0, MICROS_PER_DAY, MICROS_PER_DAY * 2]).unwrap();
        assert!(growth.points.starts_with("0.0,93.3 "), "{}", growth.points);
        assert!(growth.points.ends_with(" 600.0,0.0"), "{}", growth.points);
        assert_eq!(growth.days, ["1970-01-01", "1970-01-02", "1970-01-03"]);
    }

    #[test]
    fn columns_stay_inside_and_stack() {
        let types = BTreeMap::from([(ActionType::Merge, 3), (ActionType::Archive, 1)]);
        let bars = bars(&[counts_by_kind(&types), [0; KINDS.len()]]);
        assert_eq!(bars.len(), 2);
        let top = bars.last().unwrap();
        assert!(top.y.abs() < 1e-9 && bars.iter().all(|bar| bar.x + bar.width <= PLOT.0));
    }
}
