//! Manifests: the arrow between the folders, one home for each external package, features that two programs share.

use std::collections::BTreeSet;
use std::path::Path;

use super::breach::Breach;

/// Folders and their packages from left to right: each may use only those before it.
const ARROW: &[(&str, &str)] = &[
    ("simd", "memfold-simd"),
    ("index", "memfold-index"),
    ("datasets", "memfold-datasets"),
    ("pipeline/model", "memfold-model"),
    ("pipeline/guard", "memfold-guard"),
    ("pipeline/judge", "memfold-judge"),
    ("pipeline/lifecycle", "memfold-lifecycle"),
    ("pipeline/plan", "memfold-plan"),
    ("pipeline/store", "memfold-store"),
    ("pipeline", "memfold"),
];

/// Folders that may use all of the arrow.
const RIGHT: &[&str] =
    &["tools/cli", "tools/server", "tools/python", "tools/xtask", "bench", "tests"];

/// What the right end uses beyond that: the terminal, its documents and the plots are shared, and tests look at
/// stores as others see them, past the library that writes them. Notes of git repositories are YAML, as
/// configurations are. Python takes and gives Arrow data. What is exported to a collector goes the way of the judge's
/// questions.
const BESIDE: &[(&str, &str)] = &[
    ("bench", "memfold-cli"),
    ("bench", "clap"),
    ("tools/server", "memfold-cli"),
    ("tools/server", "clap"),
    ("tools/server", "tracing-subscriber"),
    ("tools/server", "ureq"),
    // Asks a server as its users do.
    ("bench", "ureq"),
    ("tools/python", "arrow-array"),
    ("tools/python", "arrow-schema"),
    ("tools/xtask", "memfold-bench"),
    ("tests", "rusqlite"),
    ("pipeline/store", "serde-saphyr"),
];

/// External packages and the one folder whose library may use them.
const HOMES: &[(&str, &str)] = &[
    ("simsimd", "simd"),
    ("rayon", "index"),
    ("memmap2", "index"),
    ("bytemuck", "index"),
    ("hnsw_rs", "index"),
    ("arrow-array", "datasets"),
    ("arrow-buffer", "datasets"),
    ("arrow-ipc", "datasets"),
    ("arrow-schema", "datasets"),
    ("parquet", "datasets"),
    ("zip", "datasets"),
    ("hdf5-reader", "datasets"),
    ("gix", "pipeline/store"),
    ("rusqlite", "pipeline/store"),
    ("rustix", "pipeline/store"),
    ("ureq", "pipeline/judge"),
    ("kodama", "pipeline/plan"),
    ("serde-saphyr", "pipeline/plan"),
    ("candle-core", "pipeline"),
    ("candle-nn", "pipeline"),
    ("candle-transformers", "pipeline"),
    ("tokenizers", "pipeline"),
    ("clap", "tools/cli"),
    ("glob", "tools/cli"),
    ("nix", "tools/cli"),
    ("tracing-subscriber", "tools/cli"),
    ("indicatif", "tools/cli"),
    ("comfy-table", "tools/cli"),
    ("console", "tools/cli"),
    ("axum", "tools/server"),
    ("croner", "tools/server"),
    ("hyper", "tools/server"),
    ("opentelemetry", "tools/server"),
    ("opentelemetry-appender-tracing", "tools/server"),
    ("opentelemetry-http", "tools/server"),
    ("opentelemetry-otlp", "tools/server"),
    ("opentelemetry_sdk", "tools/server"),
    ("tracing-opentelemetry", "tools/server"),
    ("rmcp", "tools/server"),
    ("mimalloc", "tools/server"),
    ("tokio", "tools/server"),
    ("numpy", "tools/python"),
    ("pyo3", "tools/python"),
    ("pyo3-arrow", "tools/python"),
    ("criterion", "bench"),
    ("plotters", "bench"),
];

pub(super) fn check(root: &Path) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (position, (folder, _)) in ARROW.iter().enumerate() {
        breaches.extend(check_folder(root, folder, &ARROW[..position]));
    }
    for folder in RIGHT {
        breaches.extend(check_folder(root, folder, ARROW));
    }
    breaches.extend(check_features(root));
    breaches
}

/// Checks that `memfold-server` builds on what the command line was built from.
fn check_features(root: &Path) -> Vec<Breach> {
    let place = "tools/cli/Cargo.toml";
    match (features(root, "memfold-cli"), features(root, "memfold-server")) {
        (Ok(own), Ok(server)) => {
            let advice = |package| {
                format!(
                    "{package}: the server builds it anew, with other features; name these here"
                )
            };
            built_anew(&own, &server).map(|package| Breach::new(place, advice(package))).collect()
        }
        (Err(error), _) | (_, Err(error)) => vec![Breach::new(place, error)],
    }
}

/// Returns the packages that a program is built from, a line for each, with version and features.
fn features(root: &Path, package: &str) -> Result<String, String> {
    let mut tree = crate::cargo(root);
    tree.args(["tree", "--locked", "--package", package, "--no-dedupe"]);
    tree.args(["--edges", "normal,build", "--prefix", "none", "--format", "{p} {f}"]);
    let output = tree.output().map_err(|error| format!("cargo tree: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// Returns the packages of a program of which another one has no build with these features.
fn built_anew<'a>(own: &'a str, other: &str) -> impl Iterator<Item = &'a str> {
    let other: BTreeSet<&str> = other.lines().collect();
    let own: BTreeSet<&str> = own.lines().collect();
    own.into_iter()
        .filter(move |line| !other.contains(line))
        .map(|line| line.split(' ').next().unwrap_or(line))
}

fn check_folder(root: &Path, folder: &str, allowed: &[(&str, &str)]) -> Vec<Breach> {
    let place = format!("{folder}/Cargo.toml");
    let manifest = match std::fs::read_to_string(root.join(&place)) {
        Ok(text) => text,
        Err(error) => return vec![Breach::new(place, error.to_string())],
    };
    let manifest: toml::Table = match manifest.parse() {
        Ok(table) => table,
        Err(error) => return vec![Breach::new(place, error.to_string())],
    };
    let names = dependencies(&manifest);
    names.iter().filter_map(|name| judge(&place, folder, name, allowed)).collect()
}

/// Returns the dependencies on every target and those on some, each once.
fn dependencies(manifest: &toml::Table) -> BTreeSet<String> {
    fn names(table: &toml::Table) -> impl Iterator<Item = &String> {
        let dependencies = table.get("dependencies").and_then(toml::Value::as_table);
        dependencies.into_iter().flat_map(toml::Table::keys)
    }
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let of_targets = targets.into_iter().flat_map(toml::Table::values);
    let of_targets = of_targets.filter_map(toml::Value::as_table).flat_map(names);
    names(manifest).chain(of_targets).cloned().collect()
}

fn judge(place: &str, folder: &str, name: &str, allowed: &[(&str, &str)]) -> Option<Breach> {
    if BESIDE.contains(&(folder, name)) {
        return None;
    }
    if name == "memfold" || name.starts_with("memfold-") {
        let arrow: Vec<&str> = ARROW.iter().map(|(_, package)| *package).collect();
        let arrow = arrow.join(" <- ");
        let advice = format!("{folder} must not use {name}: the arrow is {arrow}");
        let is_allowed = allowed.iter().any(|(_, package)| *package == name);
        return (!is_allowed).then(|| Breach::new(place, advice));
    }
    let (_, home) = HOMES.iter().find(|(package, _)| *package == name)?;
    (*home != folder)
        .then(|| Breach::new(place, format!("{name} lives in {home} only; go through its API")))
}

#[cfg(test)]
mod tests {
    use super::{ARROW, built_anew, dependencies, judge};

    #[test]
    fn the_arrow_points_one_way() {
        let simd = &ARROW[..1];
        assert!(judge("p", "index", "memfold-simd", simd).is_none());
        assert!(judge("p", "index", "memfold-datasets", simd).is_some());
        assert!(judge("p", "bench", "memfold-cli", &[]).is_none());
        assert!(judge("p", "pipeline", "memfold-cli", ARROW).is_some());
        assert!(judge("p", "pipeline/plan", "memfold-store", &ARROW[..5]).is_some());
        assert!(judge("p", "pipeline/plan", "memfold", &ARROW[..5]).is_some());
    }

    #[test]
    fn a_package_has_one_home() {
        assert!(judge("p", "pipeline/store", "rusqlite", &[]).is_none());
        assert!(judge("p", "pipeline", "rusqlite", &[]).is_some());
        assert!(judge("p", "tools/cli", "rusqlite", &[]).is_some());
        assert!(judge("p", "tests", "rusqlite", &[]).is_none());
        assert!(judge("p", "tools/cli", "serde", &[]).is_none());
    }

    #[test]
    fn other_features_are_noticed() {
        let other = "smallvec v1.16.5 write\nserde v1.0.229 std\ntokio v1.50.0 rt\n";
        let anew = |own| built_anew(own, other).collect::<Vec<_>>();
        assert_eq!(anew("serde v1.0.229 std\nsmallvec v1.16.5 \n"), ["smallvec"]);
        assert!(anew("serde v1.0.229 std\nserde v1.0.229 std\n").is_empty());
    }

    #[test]
    fn dependencies_of_some_targets_count() {
        let text = "[dependencies]\na = 1\n[target.'cfg(unix)'.dependencies]\nb = 1\n[dev-dependencies]\nc = 1";
        let names: Vec<String> = dependencies(&text.parse().unwrap()).into_iter().collect();
        assert_eq!(names, ["a", "b"]);
    }
}
