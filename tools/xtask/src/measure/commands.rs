//! What `memfold-bench`, `memfold bench` and `memfold convert` say of data of growing size.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::data::{self, Rows, Store};
use super::joins;
use super::session::Session;
use crate::report;
use crate::results::{ask, parse, said};

/// Formats, each made of the one before it, by their endings, so that each is read and written.
const CHAIN: [&str; 6] = ["parquet", "arrow", "npy", "fbin", "arrow", "parquet"];
/// Conversions of each kind.
const CONVERSIONS: usize = 3;
/// Rows to generate, about as many as there are and four times as many.
const LIKE: [u64; 2] = [36_000, 144_000];
/// The similarity from which on people call two texts the same.
const SAME: &str = "4.5";
/// The cosine from which on pairs of the store are judged.
const NEAR: &str = "0.85";

/// Recall and speed of the graph: a line for each `ef_search`.
pub(super) fn ann(session: &Session<'_>) -> Result<(), String> {
    let queries = data::folder().map(|folder| folder.join("embeddings/queries_f16.npy"));
    let queries = queries.filter(|path| path.is_file());
    let sizes = [100_000].into_iter().chain(session.full.then_some(1_000_000));
    let synthetic = sizes.map(|rows| (Rows::synthetic(rows), None));
    for (rows, queries) in Rows::real().map(|rows| (rows, queries)).into_iter().chain(synthetic) {
        let mut ann = session.bench(&["ann", "--json", "--quiet", "--base"]);
        ann.arg(rows.file(session.root, &session.memfold)?);
        if let Some(queries) = queries {
            ann.arg("--queries").arg(queries);
        }
        let line = |said: Value| {
            let (ef_search, recipe) = (&said["ef_search"], rows.recipe());
            json!({ "data": rows.name, "ef_search": ef_search, "rows_from": recipe, "last_run": said })
        };
        session.keep(parse(&said(&mut ann)?)?.into_iter().map(line).collect())?;
    }
    Ok(())
}

/// Checks of memories: a line for each way of checking a store, and a histogram.
pub(super) fn check(session: &Session<'_>) -> Result<(), String> {
    // Smaller stores say nothing of the budgets.
    for store in Store::looked_up(session.full).filter(|store| store.rows >= 30_000) {
        let path = store.file(session.root, &session.memfold)?;
        said(session.memfold(&["index", "build", "--json", "--quiet"]).arg(&path))?;
        let words = ["check", "--writers", "4", "--cold", "--json", "--quiet", "--force"];
        let plot = session.root.join(format!("docs/plots/check-{}.svg", store.name));
        let mut bench = session.bench(&words);
        let found = ask(bench.arg(&path).arg("--histogram").arg(plot))?;
        let mut lines = settings(&found, &["index", "rows", "peak_anon_bytes", "isa"]);
        lines.iter_mut().for_each(|line| line["data"] = store.name.into());
        session.keep(lines)?;
    }
    Ok(())
}

/// Checks and saves through a server, beside the same ones in one process.
pub(super) fn server(session: &Session<'_>) -> Result<(), String> {
    let server = super::binary(session.root, "memfold-server")?;
    for store in Store::looked_up(session.full).filter(|store| store.rows >= 100_000) {
        let path = store.file(session.root, &session.memfold)?;
        said(session.memfold(&["index", "build", "--json", "--quiet"]).arg(&path))?;
        let mut bench = session.bench(&["check", "--writers", "4", "--json", "--quiet"]);
        let found = ask(bench.arg(&path).arg("--server").arg(&server))?;
        let mut lines = settings(&found, &["index", "rows", "isa"]);
        let through = ["in_process", "http", "mcp", "in_process_save", "http_save"];
        lines.retain(|line| through.iter().any(|mode| line["mode"] == *mode));
        let own = lines.clone();
        for line in &mut lines {
            line["data"] = store.name.into();
            // A save is compared with a save, what else there is with a check.
            let is_save = line["mode"].as_str().is_some_and(|mode| mode.ends_with("_save"));
            let mode = if is_save { "in_process_save" } else { "in_process" };
            let twin = |own: &&Value| own["mode"] == mode && own["writers"] == line["writers"];
            let twin = own.iter().find(twin).ok_or("nothing was timed in process")?;
            for percentile in ["p50_us", "p99_us"] {
                let [us, own_us] = [&*line, twin].map(|line| line[percentile].as_f64());
                line[format!("{percentile}_beyond")] =
                    json!(us.zip(own_us).map(|(us, own)| us - own));
            }
        }
        session.keep(lines)?;
    }
    Ok(())
}

/// Everything at once through a server, by the test that fails where something is lost; five minutes, `--full`: thirty.
pub(super) fn soak(session: &Session<'_>) -> Result<(), String> {
    let mut test = crate::cargo(session.root);
    test.args(["test", "--workspace", "--locked", "--test", "server"]);
    test.args(["soak", "--", "--ignored", "--nocapture"]);
    test.env("MEMFOLD_SOAK_SECONDS", if session.full { "1800" } else { "300" });
    let told = said(&mut test)?;
    let line = told.lines().find_map(|line| line.find("{\"").map(|at| &line[at..]));
    session.keep(parse(line.ok_or("the soak says nothing")?)?)
}

/// The settings of a document, each with some fields of the whole.
fn settings(document: &Value, fields: &[&str]) -> Vec<Value> {
    let mut settings = document["settings"].as_array().cloned().unwrap_or_default();
    for line in &mut settings {
        fields.iter().for_each(|&field| line[field] = document[field].clone());
    }
    settings
}

/// Exports and conversions: a line for each way of reading or writing the vectors of a store.
pub(super) fn export(session: &Session<'_>) -> Result<(), String> {
    // Smaller stores are done before anything can be told.
    for store in Store::looked_up(session.full).filter(|store| store.rows >= 100_000) {
        let path = store.file(session.root, &session.memfold)?;
        let found = ask(session.bench(&["export", "--cold", "--json", "--quiet"]).arg(&path))?;
        let mut lines = settings(&found, &["rows", "vector_bytes", "runs"]);
        for line in &mut lines {
            let name = line["name"].clone();
            line["from"] = match (name.as_str(), line["cold"].as_bool()) {
                (Some("disk"), _) => "memory".into(),
                (_, Some(true)) => "brain.db, cold".into(),
                _ => "brain.db".into(),
            };
            line["to"] = if name == "sqlite" { "nothing".into() } else { name };
        }
        lines.extend(conversions(session, &path)?);
        lines.iter_mut().for_each(|line| line["data"] = store.name.into());
        session.keep(lines)?;
    }
    Ok(())
}

fn conversions(session: &Session<'_>, store: &Path) -> Result<Vec<Value>, String> {
    let endings = CHAIN.iter().enumerate();
    let files: Vec<PathBuf> =
        endings.map(|(at, ending)| store.with_extension(format!("{at}.{ending}"))).collect();
    let mut export = session.memfold(&["export", "--quiet", "--force"]);
    said(export.arg(store).arg("--output").arg(&files[0]))?;
    let pairs = files.iter().zip(&files[1..]);
    let lines = pairs.map(|(from, to)| conversion(session, from, to)).collect();
    files.iter().try_for_each(|file| remove(file))?;
    lines
}

fn remove(file: &Path) -> Result<(), String> {
    std::fs::remove_file(file).map_err(|error| format!("remove {}: {error}", file.display()))
}

fn conversion(session: &Session<'_>, from: &Path, to: &Path) -> Result<Value, String> {
    let mut documents: Vec<Value> = Vec::new();
    for _ in 0..CONVERSIONS {
        // Each finds as much room, and none waits for the room of a file that it replaces.
        if to.exists() {
            remove(to)?;
        }
        documents.push(ask(session.memfold(&["convert", "--json", "--quiet"]).args([from, to]))?);
    }
    let seconds = |document: &Value| document["seconds"].as_f64().unwrap_or(f64::NAN);
    documents.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    let median = &documents[(CONVERSIONS - 1) / 2];
    let size = median["rows"].as_u64().zip(median["dim"].as_u64());
    let (rows, dim) = size.ok_or("convert does not say how large the file is")?;
    let vector_bytes = rows * dim * 4;
    Ok(json!({
        "from": median["from"],
        "to": median["to"],
        "rows": rows,
        "vector_bytes": vector_bytes,
        "runs": CONVERSIONS,
        "seconds": seconds(median),
        "fastest_seconds": seconds(&documents[0]),
        "slowest_seconds": seconds(&documents[CONVERSIONS - 1]),
        "bytes_per_second": vector_bytes as f64 / seconds(median),
        "file_bytes": median["bytes_written"],
        "peak_anon_bytes": median["peak_anon_bytes"],
    }))
}

/// Generated vectors beside the real ones: a line for each number of rows. Nothing is timed.
pub(super) fn like(session: &Session<'_>) -> Result<(), String> {
    let real = data::real_file().ok_or("MEMFOLD_DATA names no folder of real vectors")?;
    let folder = session.root.join(data::FOLDER);
    for rows in LIKE {
        let generated = folder.join(format!("like-{rows}.npy"));
        let words = ["generate", "--quiet", "--force", "--rows", &rows.to_string(), "--like"];
        said(session.memfold(&words).arg(&real).arg("--output").arg(&generated))?;
        let mut bench = session.bench(&["likeness", "--json", "--quiet"]);
        let mut line = ask(bench.args([&real, &generated]))?;
        line["data"] = "real-36k".into();
        line["rows"] = rows.into();
        session.keep(vec![line])?;
        remove(&generated)?;
    }
    Ok(())
}

/// The guard on sets of labelled pairs, on single pairs, and on the near pairs of a real store.
pub(super) fn guard(session: &Session<'_>) -> Result<(), String> {
    let folder = session.root.join(data::FOLDER);
    let verdicts = folder.join("verdicts.jsonl");
    let mut lines = Vec::new();
    for set in sets()? {
        let name = set.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut judge =
            session.memfold(&["bench", "guard", "--json", "--quiet", "--force", "--pairs"]);
        let judged = ask(judge.arg(&set).arg("--verdicts").arg(&verdicts))?;
        let labels = judged["labels"].as_array().into_iter().flatten();
        let has_similarities = labels.clone().any(|label| label["label"] == "4.5-5");
        lines.push(json!({ "data": name, "last_run": judged }));
        if has_similarities {
            // Counted by a script that knows nothing of the guard.
            let mut count = Command::new("python3");
            count.arg(session.root.join("bench/guard/paraphrases.py")).args([&set, &verdicts]);
            match ask(count.arg(SAME)) {
                Ok(counted) => {
                    let data = format!("{name} ≥ {SAME}");
                    lines.push(json!({ "data": data, "last_run": counted }));
                }
                Err(reason) => report::line(&format!("paraphrases not counted: {reason}")),
            }
        }
    }
    lines.extend(single_pairs(session.root)?);
    if let Some(store) = Store::all(false).find(|store| store.name == "real-36k") {
        let path = store.file(session.root, &session.memfold)?;
        let words = ["consolidate", "--threshold", NEAR, "--json", "--quiet"];
        let found = ask(session.memfold(&words).arg(path))?;
        lines.push(json!({ "data": store.name, "last_run": {
            "memories": found["loaded"]["live"],
            "threshold": NEAR,
            "pairs": found["detected"]["pairs"],
            "verdicts": found["stats"]["verdicts"],
            "flags": found["planned"]["flag_contradiction"],
            "flags_deferred": found["detected"]["flags_deferred"],
            "deferred_patterns": found["stats"]["deferred_patterns"],
        } }));
    }
    session.keep(lines)
}

/// What merges of labelled pairs if a judge says MERGE to everything.
pub(super) fn judge(session: &Session<'_>) -> Result<(), String> {
    let mut lines = Vec::new();
    for set in sets()? {
        let words = ["bench", "judge", "--json", "--quiet", "--set", "judge.chain=[]", "--pairs"];
        let judged = ask(session.memfold(&words).arg(&set))?;
        let name = set.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        lines.push(json!({ "data": name, "last_run": judged }));
    }
    session.keep(lines)
}

/// The files of pairs, by name.
fn sets() -> Result<Vec<PathBuf>, String> {
    let folder = data::folder().ok_or("MEMFOLD_DATA names no folder")?.join("text");
    let failed = |error| format!("{}: {error}", folder.display());
    let mut sets = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        sets.push(entry.map_err(failed)?.path());
    }
    sets.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    sets.sort();
    if sets.is_empty() { Err(format!("{}: no *.jsonl", folder.display())) } else { Ok(sets) }
}

/// What single pairs cost, by the benchmark `guard`.
fn single_pairs(root: &Path) -> Result<Vec<Value>, String> {
    joins::benchmark(root, "guard", "")?;
    let kinds = joins::entries(&root.join("target/criterion/guard/read-and-judge"))?;
    let line = |(kind, folder): (String, PathBuf)| {
        let microseconds = joins::median(&folder)? / 1_000.0;
        let last_run = json!({ "criterion_median_microseconds": microseconds });
        Ok(json!({ "data": format!("one pair: {kind}"), "last_run": last_run }))
    };
    kinds.into_iter().map(line).collect()
}
