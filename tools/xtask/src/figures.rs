//! `figures`: writes the stored measurements into README.md, docs/performance.md, docs/quality.md, docs/generate.md and docs/plots.
//!
//! A region between two marks belongs to one file of results and is rewritten whenever there are any.

pub(crate) mod ann;
pub(crate) mod check;
mod consolidate;
pub(crate) mod export;
pub(crate) mod guard;
pub(crate) mod join;
pub(crate) mod like;
pub(crate) mod lookups;
pub(crate) mod peers;
pub(crate) mod profile;
pub(crate) mod search;
mod show;

use std::path::Path;

use serde_json::Value;

use crate::{
    bench_peers, measure, measure_ann, measure_check, measure_export, measure_guard, measure_join,
    measure_like, measure_profile, measure_search, report, results,
};

const PAGE: &str = "docs/performance.md";
const QUALITY: &str = "docs/quality.md";
const GENERATE: &str = "docs/generate.md";
const PLOTS: &str = "docs/plots";

/// A region of a document: its mark, its results, what becomes of them.
struct Region {
    file: &'static str,
    mark: &'static str,
    results: &'static str,
    render: fn(&[Value]) -> String,
}

const REGIONS: [Region; 14] = [
    Region {
        file: "README.md",
        mark: "figures",
        results: measure::RESULTS,
        render: consolidate::short,
    },
    Region {
        file: "README.md",
        mark: "figures of join",
        results: measure_join::RESULTS,
        render: join::short,
    },
    Region { file: PAGE, mark: "figures", results: measure::RESULTS, render: consolidate::long },
    Region {
        file: PAGE,
        mark: "figures of join",
        results: measure_join::RESULTS,
        render: join::page,
    },
    Region {
        file: PAGE,
        mark: "figures of graph joins",
        results: measure_join::GRAPH_RESULTS,
        render: join::graph_page,
    },
    Region {
        file: PAGE,
        mark: "figures of peers",
        results: bench_peers::joins::RESULTS,
        render: peers::page,
    },
    Region { file: PAGE, mark: "figures of ann", results: measure_ann::RESULTS, render: ann::page },
    Region {
        file: PAGE,
        mark: "figures of search",
        results: measure_search::RESULTS,
        render: search::page,
    },
    Region {
        file: PAGE,
        mark: "figures of checks",
        results: measure_check::RESULTS,
        render: check::page,
    },
    Region {
        file: PAGE,
        mark: "figures of exports",
        results: measure_export::RESULTS,
        render: export::page,
    },
    Region {
        file: PAGE,
        mark: "figures of profiles",
        results: measure_profile::RESULTS,
        render: profile::page,
    },
    Region {
        file: PAGE,
        mark: "figures of graphs",
        results: bench_peers::lookups::RESULTS,
        render: lookups::page,
    },
    Region {
        file: QUALITY,
        mark: "figures of guard",
        results: measure_guard::RESULTS,
        render: guard::page,
    },
    Region {
        file: GENERATE,
        mark: "figures of likeness",
        results: measure_like::RESULTS,
        render: like::page,
    },
];

/// Names of plots, and the plots.
type Plots = Vec<(String, String)>;

/// Results that are drawn.
struct Drawing {
    results: &'static str,
    plots: fn(&[Value]) -> Plots,
}

const DRAWINGS: [Drawing; 4] = [
    Drawing { results: measure_join::RESULTS, plots: join::plots },
    Drawing { results: bench_peers::joins::RESULTS, plots: peers::plots },
    Drawing { results: bench_peers::lookups::RESULTS, plots: lookups::plots },
    Drawing { results: measure_guard::RESULTS, plots: guard::plots },
];

/// Rewrites all regions and plots; tells whether that went well.
pub(crate) fn write(root: &Path) -> bool {
    match try_write(root) {
        Ok(()) => true,
        Err(reason) => {
            report::line(&format!("figures: {reason}"));
            false
        }
    }
}

fn try_write(root: &Path) -> Result<(), String> {
    for Region { file, mark, results, render } in REGIONS {
        let lines = results::read(&root.join(results))?;
        if lines.is_empty() {
            continue;
        }
        let path = root.join(file);
        let text = fill(&read(&path)?, mark, &render(&lines))
            .ok_or_else(|| format!("{file}: no place for {mark}"))?;
        std::fs::write(&path, text).map_err(|error| format!("{file}: {error}"))?;
    }
    for Drawing { results, plots } in DRAWINGS {
        let lines = results::read(&root.join(results))?;
        if !lines.is_empty() {
            draw(&root.join(PLOTS), plots(&lines))?;
        }
    }
    Ok(())
}

fn draw(folder: &Path, plots: Plots) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{PLOTS}: {error}"))?;
    for (name, text) in plots {
        std::fs::write(folder.join(&name), text).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Puts a text where the marks are.
fn fill(text: &str, mark: &str, figures: &str) -> Option<String> {
    let begin = format!("<!-- {mark}: begin (cargo xtask figures) -->\n");
    let end = format!("<!-- {mark}: end -->");
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some([before, &begin, figures, &end, after].concat())
}

#[cfg(test)]
mod tests {
    use super::{GENERATE, PAGE, QUALITY, REGIONS, fill};

    #[test]
    fn figures_replace_figures() {
        let (begin, end) = ("<!-- m: begin (cargo xtask figures) -->\n", "<!-- m: end -->");
        let text = format!("a\n{begin}old\n{end}\nb");
        let once = fill(&text, "m", "new\n").unwrap();
        assert_eq!(once, format!("a\n{begin}new\n{end}\nb"));
        assert_eq!(fill(&once, "m", "new\n").unwrap(), once);
        assert!(fill(&text, "other", "new").is_none());
    }

    #[test]
    fn every_region_has_its_place() {
        let texts = [
            ("README.md", include_str!("../../../README.md")),
            (PAGE, include_str!("../../../docs/performance.md")),
            (QUALITY, include_str!("../../../docs/quality.md")),
            (GENERATE, include_str!("../../../docs/generate.md")),
        ];
        for region in REGIONS {
            let (_, text) = texts.iter().find(|(file, _)| *file == region.file).unwrap();
            assert!(fill(text, region.mark, "").is_some(), "{}: {}", region.file, region.mark);
        }
    }
}
