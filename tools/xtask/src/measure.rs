//! `measure`: runs workloads of a table ([`MEASUREMENTS`]) and keeps what they find.

mod commands;
pub(crate) mod data;
mod joins;
mod lifecycle;
mod processes;
mod python;
mod session;
mod stores;

use std::path::{Path, PathBuf};
use std::process::Command;

use self::session::Session;
use crate::{figures, report, results};

/// One file of results and how to renew it.
struct Measurement {
    name: &'static str,
    about: &'static str,
    results: &'static str,
    /// What makes two lines the same work: a new one replaces an old one.
    keys: &'static [&'static str],
    needs: Needs,
    run: fn(&Session<'_>) -> Result<(), String>,
}

/// What a measurement cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// Real vectors in `$MEMFOLD_DATA/embeddings`.
    Vectors,
    /// Labelled pairs in `$MEMFOLD_DATA/text`.
    Pairs,
    /// The profiler of Linux.
    Perf,
    /// Python 3.10 or later with venv and pip. The wheel does the work, so `memfold-bench` is not built.
    Python,
    /// A test that cargo builds: no program as it is released.
    Test,
}

const MEASUREMENTS: [Measurement; 22] = [
    Measurement {
        name: "consolidate",
        about: "whole runs of memfold consolidate on 1,000 to 100,000 memories",
        results: "bench/results/consolidate.jsonl",
        keys: &["data"],
        needs: Needs::Nothing,
        run: processes::consolidate,
    },
    Measurement {
        name: "join",
        about: "whole runs of memfold dedup on 10,000 to 100,000 rows, and the processor's peak",
        results: "bench/results/join.jsonl",
        keys: &["what", "data", "threshold"],
        needs: Needs::Nothing,
        run: joins::exact,
    },
    Measurement {
        name: "levels",
        about: "memfold dedup at every level of the processor, and on all its cores",
        results: "bench/results/levels.jsonl",
        keys: &["machine", "data", "threshold", "level", "threads"],
        needs: Needs::Nothing,
        run: joins::by_level,
    },
    Measurement {
        name: "graph-join",
        about: "memfold dedup --method graph beside exact runs",
        results: "bench/results/graph-join.jsonl",
        keys: &["what", "data", "threshold"],
        needs: Needs::Nothing,
        run: joins::by_graph,
    },
    Measurement {
        name: "tiles",
        about: "memfold dedup --tiles beside runs in one piece",
        results: "bench/results/tiles.jsonl",
        keys: &["what", "data", "threshold"],
        needs: Needs::Nothing,
        run: joins::by_tiles,
    },
    Measurement {
        name: "ray",
        about: "memfold.ray on clusters of 1, 2 and 16 cores of this machine",
        results: "bench/results/ray.jsonl",
        keys: &["data", "threshold", "cores"],
        needs: Needs::Python,
        run: python::ray,
    },
    Measurement {
        name: "ann",
        about: "recall and speed of the graph on real and 100,000 generated rows",
        results: "bench/results/ann.jsonl",
        keys: &["machine", "data", "ef_search"],
        needs: Needs::Nothing,
        run: commands::ann,
    },
    Measurement {
        name: "search",
        about: "whole lookups, each beside a process that does nothing",
        results: "bench/results/search.jsonl",
        keys: &["machine", "data"],
        needs: Needs::Nothing,
        run: processes::search,
    },
    Measurement {
        name: "check",
        about: "checks of memories, alone and beside four writers",
        results: "bench/results/check.jsonl",
        keys: &["machine", "data", "mode", "writers", "cold"],
        needs: Needs::Nothing,
        run: commands::check,
    },
    Measurement {
        name: "server",
        about: "checks and saves over HTTP and MCP, beside those in one process",
        results: "bench/results/server.jsonl",
        keys: &["data", "mode", "writers"],
        needs: Needs::Nothing,
        run: commands::server,
    },
    Measurement {
        name: "soak",
        about: "200 requests a second beside runs, undo and index builds, for minutes",
        results: "bench/results/soak.jsonl",
        keys: &["seconds"],
        needs: Needs::Test,
        run: commands::soak,
    },
    Measurement {
        name: "python-check",
        about: "checks of memories in Python",
        results: "bench/results/python-check.jsonl",
        keys: &["data"],
        needs: Needs::Python,
        run: python::checks,
    },
    Measurement {
        name: "export",
        about: "stores into files, beside SQLite alone, and files into other formats",
        results: "bench/results/export.jsonl",
        keys: &["data", "from", "to"],
        needs: Needs::Nothing,
        run: commands::export,
    },
    Measurement {
        name: "profile",
        about: "where the main commands spend their time (by perf)",
        results: "bench/results/profile.jsonl",
        keys: &["data", "profiled"],
        needs: Needs::Perf,
        run: processes::profile,
    },
    Measurement {
        name: "like",
        about: "generated vectors beside the real ones in $MEMFOLD_DATA/embeddings",
        results: "bench/results/like.jsonl",
        keys: &["data", "rows"],
        needs: Needs::Vectors,
        run: commands::like,
    },
    Measurement {
        name: "guard",
        about: "verdicts on the labelled pairs in $MEMFOLD_DATA/text",
        results: "bench/results/guard.jsonl",
        keys: &["data"],
        needs: Needs::Pairs,
        run: commands::guard,
    },
    Measurement {
        name: "judge",
        about: "what a leash lets pass of the labelled pairs in $MEMFOLD_DATA/text",
        results: "bench/results/judge.jsonl",
        keys: &["data"],
        needs: Needs::Pairs,
        run: commands::judge,
    },
    Measurement {
        name: "recall",
        about: "recalls in one process among 100,000 memories, by scan and by graph",
        results: "bench/results/recall.jsonl",
        keys: &["data", "tier", "by", "counts"],
        needs: Needs::Nothing,
        run: lifecycle::recall,
    },
    Measurement {
        name: "lifecycle",
        about: "ten years of nights over the sample store",
        results: "bench/results/lifecycle.jsonl",
        keys: &["data"],
        needs: Needs::Nothing,
        run: lifecycle::years,
    },
    Measurement {
        name: "temporal",
        about: "published expressions of time that are resolved as expected",
        results: "bench/results/temporal.jsonl",
        keys: &["data"],
        needs: Needs::Nothing,
        run: lifecycle::temporal,
    },
    Measurement {
        name: "incremental",
        about: "runs over 500 changed memories of 100,000, beside runs over all",
        results: "bench/results/incremental.jsonl",
        keys: &["data", "mode"],
        needs: Needs::Nothing,
        run: lifecycle::incremental,
    },
    Measurement {
        name: "stores",
        about: "pull and plan of memory folders, git notes and the file of the MCP server",
        results: "bench/results/stores.jsonl",
        keys: &["data"],
        needs: Needs::Nothing,
        run: stores::run,
    },
];

/// Measures what is named, or everything that can be measured here.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let (chosen, full, runs) = parse(arguments)?;
    let is_named = !chosen.is_empty();
    let chosen = if is_named { chosen } else { MEASUREMENTS.iter().collect() };
    let lacks = chosen.iter().filter_map(|one| one.needs.lack().map(|lack| (one.name, lack)));
    let lacks: Vec<(&str, String)> = lacks.collect();
    if let Some((name, lack)) = lacks.first().filter(|_| is_named) {
        return Err(format!("{name}: {lack}"));
    }
    for (name, lack) in &lacks {
        report::line(&format!("measure: {name} is left out: {lack}"));
    }
    let built =
        |name, unneeded: &[Needs]| match chosen.iter().all(|one| unneeded.contains(&one.needs)) {
            true => Ok(PathBuf::new()),
            false => binary(root, name),
        };
    let memfold = built("memfold", &[Needs::Test])?;
    let bench = built("memfold-bench", &[Needs::Test, Needs::Python])?;
    let folder = root.join(data::FOLDER);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let can_run = |one: &&Measurement| lacks.iter().all(|(name, _)| *name != one.name);
    for Measurement { name, results, keys, run, .. } in chosen.into_iter().filter(can_run) {
        let session = Session {
            root,
            memfold: memfold.clone(),
            bench: bench.clone(),
            full,
            runs,
            began: results::run_name(),
            command: format!("cargo xtask measure {name}{}", if full { " --full" } else { "" }),
            results,
            keys,
        };
        run(&session).map_err(|error| format!("{name}: {error}"))?;
        figures::write(root)?;
    }
    Ok(())
}

/// Translates a command as it was called when there was one for each measurement: `measure-join
/// --graph` is `measure graph-join`.
pub(crate) fn named_before(command: &str, arguments: &[String]) -> Option<Vec<String>> {
    let name = command.strip_prefix("measure-")?;
    let is_graph = name == "join" && arguments.iter().any(|word| word == "--graph");
    let name = if is_graph { "graph-join" } else { name };
    let further = arguments.iter().filter(|word| *word != "--graph").cloned();
    Some([name.to_owned()].into_iter().chain(further).collect())
}

/// The lines of the help: names, and what is measured.
pub(crate) fn help() -> String {
    let line = |one: &Measurement| format!("           {:12} {}\n", one.name, one.about);
    MEASUREMENTS.iter().map(line).collect()
}

/// Builds a program as it is released and returns it.
///
/// For the whole workspace: for each package alone dependencies have other features, and would be compiled again.
pub(crate) fn binary(root: &Path, name: &str) -> Result<PathBuf, String> {
    let words = ["build", "--release", "--locked", "--workspace", "--bin", name];
    let built = crate::cargo(root).args(words).status();
    match built.is_ok_and(|status| status.success()) {
        true => Ok(root.join("target/release").join(name)),
        false => Err(format!("{name} cannot be built")),
    }
}

type Chosen = (Vec<&'static Measurement>, bool, Option<usize>);

fn parse(arguments: &[String]) -> Result<Chosen, String> {
    let (mut chosen, mut full, mut runs) = (Vec::new(), false, None);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--full" => full = true,
            "--runs" => {
                let number = words.next().and_then(|text| text.parse().ok()).filter(|&n| n > 0);
                runs = Some(number.ok_or("--runs needs a number from 1")?);
            }
            name => {
                let found = MEASUREMENTS.iter().find(|one| one.name == name);
                chosen.push(found.ok_or_else(|| format!("nothing called {name} is measured"))?);
            }
        }
    }
    Ok((chosen, full, runs))
}

impl Needs {
    /// Says what is missing here.
    fn lack(self) -> Option<String> {
        let folder = |name: &str| match data::folder().map(|folder| folder.join(name)) {
            Some(folder) if folder.is_dir() => None,
            _ => Some(format!("MEMFOLD_DATA names no folder with {name}")),
        };
        match self {
            Self::Nothing | Self::Test => None,
            Self::Vectors => folder("embeddings"),
            Self::Pairs => folder("text"),
            Self::Perf => {
                let perf = Command::new("perf").arg("--version").output();
                perf.is_err().then(|| "there is no perf".to_owned())
            }
            Self::Python => crate::python::lack(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_named() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (chosen, full, runs) = parse(&words("join --full ann --runs 3")).unwrap();
        let names: Vec<&str> = chosen.iter().map(|one| one.name).collect();
        assert_eq!((names, full, runs), (vec!["join", "ann"], true, Some(3)));
        assert_eq!(parse(&words("joins")).err().unwrap(), "nothing called joins is measured");
        assert!(parse(&words("join --runs 0")).is_err());
    }

    /// Stored results are measured anew by the command that they name.
    #[test]
    fn commands_of_stored_results_are_still_known() {
        let folder = crate::root().join("bench/results");
        let mut known = 0;
        for one in MEASUREMENTS {
            for line in results::read(&crate::root().join(one.results)).unwrap() {
                let command = line["command"].as_str().unwrap();
                let Some(words) = command.strip_prefix("cargo xtask ") else { continue };
                let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
                let words = match &*words[0] {
                    "measure" => words[1..].to_vec(),
                    before => named_before(before, &words[1..]).unwrap(),
                };
                let (chosen, ..) = parse(&words).unwrap();
                assert_eq!(chosen.len(), 1, "{command}");
                assert_eq!(chosen[0].results, one.results, "{command}");
                known += 1;
            }
        }
        assert!(known > 0, "nothing is stored in {}", folder.display());
    }
}
