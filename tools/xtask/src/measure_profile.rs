//! `measure-profile`: where the main commands spend their processor time, by samples that `perf` takes.
//!
//! Every line of `bench/results/profile.jsonl` is one command on one store.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::{figures, measure, report, results};

/// Where the results are kept.
pub(crate) const RESULTS: &str = "bench/results/profile.jsonl";

/// What makes two lines the same work.
const KEYS: &[&str] = &["data", "profiled"];

const DATA: &str = "synthetic-100k";

/// Samples in a second.
const FREQUENCY: &str = "1999";

/// Places that are stored, the longest first.
const PLACES: usize = 12;

/// What is profiled: `STORE` stands for the store, `OUT` for a file that is removed.
const COMMANDS: [&[&str]; 4] = [
    &["consolidate", "STORE", "--json"],
    &["dedup", "OUT", "--json"],
    &["bench", "check", "STORE", "--checks", "500", "--json"],
    &["export", "STORE", "--output", "OUT", "--force", "--json"],
];

/// Measures, stores and shows.
pub(crate) fn run(root: &Path) -> bool {
    match try_run(root) {
        Ok(()) => figures::write(root),
        Err(reason) => {
            report::line(&format!("measure-profile: {reason}"));
            false
        }
    }
}

fn try_run(root: &Path) -> Result<(), String> {
    let memfold = measure::release_binary(root).ok_or("memfold cannot be built")?;
    let stores = measure::stores(root, &memfold, false)?;
    let (_, rows, store) =
        stores.into_iter().find(|(name, ..)| *name == DATA).ok_or("there is no store")?;
    let out = store.with_extension("profiled.arrow");
    // What `dedup` reads.
    let mut export = Command::new(&memfold);
    export.args(["export", "--quiet", "--force"]).arg(&store).arg("--output").arg(&out);
    results::said(&mut export)?;

    let run = results::run_name();
    let mut lines = Vec::new();
    for words in COMMANDS {
        let mut command = Command::new("perf");
        let samples = store.with_extension("perf");
        command.args(["record", "--quiet", "--freq", FREQUENCY, "--output"]).arg(&samples);
        command.arg("--").arg(&memfold).arg("--quiet");
        for word in words {
            match *word {
                "STORE" => command.arg(&store),
                "OUT" => command.arg(&out),
                other => command.arg(other),
            };
        }
        results::said(&mut command)?;
        let mut perf = Command::new("perf");
        perf.args(["report", "--stdio", "--no-children", "--sort", "symbol", "--input"]);
        let said = results::said(perf.arg(&samples))?;
        std::fs::remove_file(&samples).map_err(|error| error.to_string())?;
        let mut line = line(&said)?;
        line["profiled"] = words.join(" ").into();
        line["data"] = DATA.into();
        line["rows"] = rows.into();
        results::sign(&mut line, &run, "cargo xtask measure-profile");
        report::line(&figures::profile::line(&line));
        lines.push(line);
    }
    std::fs::remove_file(&out).map_err(|error| error.to_string())?;
    results::renew(&root.join(RESULTS), &lines, KEYS)
}

/// Reads what `perf report` prints: lines of `12.34%  [.] symbol`.
fn line(said: &str) -> Result<Value, String> {
    let mut places: Vec<(f64, &str)> = Vec::new();
    let mut parts: BTreeMap<String, f64> = BTreeMap::new();
    for line in said.lines() {
        let Some((share, rest)) = line.trim().split_once("%  [") else { continue };
        let Ok(percent) = share.parse::<f64>() else { continue };
        let Some((kind, symbol)) = rest.split_once("] ") else { continue };
        let symbol = symbol.trim().trim_end_matches(['-', ' ']);
        places.push((percent / 100.0, symbol));
        *parts.entry(part(kind, symbol)).or_default() += percent / 100.0;
    }
    if places.is_empty() {
        return Err("perf took no samples".to_owned());
    }
    places.truncate(PLACES);
    let mut parts: Vec<(String, f64)> = parts.into_iter().collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let named = |(share, name): (f64, &str)| json!({ "name": name, "share": rounded(share) });
    Ok(json!({
        "parts": parts.iter().map(|(name, share)| named((*share, name))).collect::<Vec<_>>(),
        "places": places.into_iter().map(named).collect::<Vec<_>>(),
    }))
}

/// Names what a symbol belongs to: the kernel, a module of ours, another crate, or C.
fn part(kind: &str, symbol: &str) -> String {
    if kind == "k" {
        return "kernel".to_owned();
    }
    let Some(at) = symbol.find("::") else {
        let is_compiled_c = symbol.contains("blake3");
        return if is_compiled_c { "blake3" } else { "SQLite and the C library" }.to_owned();
    };
    let begin = symbol[..at].rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |i| i + 1);
    let path = &symbol[begin..];
    let mut steps = path.split("::").map(|step| step.trim_end_matches(['>', '<', ' ']));
    let (crate_name, module) = (steps.next().unwrap_or_default(), steps.next().unwrap_or_default());
    match crate_name {
        "core" | "alloc" | "std" | "hashbrown" => "Rust's library".to_owned(),
        ours if ours.starts_with("memfold") => format!("{ours}::{module}"),
        other => other.to_owned(),
    }
}

fn rounded(share: f64) -> f64 {
    (share * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_by_parts() {
        let said = "# header\n\
                    \n    31.42%  [.] memfold_simd::arch::x86_64::avx2::hits        -      -\n\
                    \x20    7.41%  [k] copy_folio_from_iter_atomic\n\
                    \x20    3.32%  [.] _blake3_compress_in_place_sse41\n\
                    \x20    2.00%  [.] sqlite3VdbeExec\n\
                    \x20    1.50%  [.] __memmove_avx_unaligned_erms\n\
                    \x20    1.00%  [.] <core::iter::Map<I,F> as core::iter::Iterator>::fold\n\
                    \x20    0.50%  [.] memfold_simd::panel::RowTile<T,_>::fill\n";
        let found = line(said).unwrap();
        let shares: Vec<(&str, f64)> = found["parts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| (part["name"].as_str().unwrap(), part["share"].as_f64().unwrap()))
            .collect();
        assert_eq!(
            shares,
            [
                ("memfold_simd::arch", 0.3142),
                ("kernel", 0.0741),
                ("SQLite and the C library", 0.035),
                ("blake3", 0.0332),
                ("Rust's library", 0.01),
                ("memfold_simd::panel", 0.005),
            ]
        );
        assert_eq!(found["places"][0]["name"], "memfold_simd::arch::x86_64::avx2::hits");
        assert!(line("nothing").is_err());
    }
}
