//! `memfold-bench recall`: recalls in this process.
//!
//! Each question is a vector of the store with the first six words of its memory.

use std::sync::Arc;

use jiff::tz::TimeZone;
use memfold::lookup::KeptIndex;
use memfold::recall::{RecallMode, RecallOptions, RecallQuery, Recaller};
use memfold_bench::percentile;
use memfold_core::policy::Policy;
use memfold_index::Row;
use memfold_store::BrainDb;
use memfold_store::brain_db::OpenOptions;
use memfold_terminal::failure::{Exit, Failure};
use memfold_terminal::printer::Printer;
use serde_json::{Value, json};

use crate::args::RecallArgs;
use crate::common::{instant, timed};

const QUESTIONS: usize = 1_000;
const WORDS: usize = 6;

pub(crate) fn run(args: &RecallArgs, printer: Printer) -> Result<Exit, Failure> {
    let db = &*args.db;
    let failed = |error: &(dyn std::error::Error + 'static)| Failure::new("measure", error, None);
    let now = instant(&args.now)?;
    let mut folder = db.as_os_str().to_owned();
    folder.push(".memfold");
    let kept = Arc::new(KeptIndex::new(folder.into()));
    let index = kept.live().map_err(|error| failed(&error))?;
    let hint = "run memfold index build";
    let index = index.ok_or_else(|| Failure::plain("there is no index", hint))?;
    let vectors: Vec<Vec<f32>> = {
        let all = index.files().columns().vectors();
        let step = (all.len() / QUESTIONS).max(1);
        let rows = (0..all.len()).step_by(step).take(QUESTIONS);
        rows.map(|row| all.vector(Row(row as u32)).to_vec()).collect()
    };
    let (rows, tier) = (index.files().columns().len(), index.files().tier().name());
    let options = RecallOptions {
        policy: Policy::builtin(),
        retention: Default::default(),
        time_zone: TimeZone::UTC,
        read_only: false,
    };
    let store = BrainDb::at(db, OpenOptions::default());
    let recaller = Recaller::new(store, kept, options);
    let query = RecallQuery {
        text: "",
        vector: None,
        mode: RecallMode::Exhaustive,
        limit: 1,
        include_summaries: false,
        counts: false,
        now,
    };
    let mut questions = Vec::new();
    for vector in &vectors {
        let asked = RecallQuery { vector: Some(vector), ..query };
        let found = recaller.recall(&asked).map_err(|error| failed(&error))?;
        let text = found.memories.first().map(|found| found.memory.content.to_string());
        let words: Vec<String> =
            text.unwrap_or_default().split(' ').take(WORDS).map(str::to_owned).collect();
        questions.push((words.join(" "), vector));
    }
    let measure = |by_vector: bool, counts: bool| -> Result<Value, Failure> {
        let (mut micros, mut counted) = (Vec::new(), 0);
        for (text, vector) in &questions {
            let vector = by_vector.then_some(vector.as_slice());
            let mode = RecallMode::Standard;
            let asked = RecallQuery { text, vector, counts, mode, limit: 10, ..query };
            let (found, took) = timed(|| recaller.recall(&asked));
            micros.push(took);
            let found = found.map_err(|error| failed(&error))?;
            counted += usize::from(found.is_counted);
        }
        let [p50, p99] = [0.5, 0.99].map(|share| percentile(&micros, share).round());
        Ok(
            json!({"by": if by_vector { "vector and words" } else { "words" }, "counts": counts, "counted": counted, "p50_us": p50, "p99_us": p99}),
        )
    };
    let settings = [
        measure(true, false)?,
        measure(true, true)?,
        measure(false, false)?,
        measure(false, true)?,
    ];
    let line = json!({"rows": rows, "tier": tier, "recalls": questions.len(), "k": 10, "settings": settings});
    printer.data(&format!("{line}\n")).map(|()| Exit::Done)
}
