//! Manifests: the arrow between the folders, and one home for each external package.

use std::path::Path;

use super::breach::Breach;

/// Folders from left to right: each may use only those before it.
const ARROW: &[&str] = &["simd", "index", "datasets", "pipeline"];

/// Folders that may use all of the arrow.
const RIGHT: &[&str] = &["tools/cli", "tools/xtask", "bench", "tests"];

/// What the right end uses beyond that: the terminal and the plots are shared, and tests look at
/// stores as others see them, past the library that writes them.
const BESIDE: &[(&str, &str)] = &[
    ("bench", "memfold-cli"),
    ("bench", "clap"),
    ("tools/xtask", "memfold-bench"),
    ("tests", "rusqlite"),
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
    ("rusqlite", "pipeline"),
    ("rustix", "pipeline"),
    ("kodama", "pipeline"),
    ("ureq", "pipeline"),
    ("candle-core", "pipeline"),
    ("candle-nn", "pipeline"),
    ("candle-transformers", "pipeline"),
    ("tokenizers", "pipeline"),
    ("clap", "tools/cli"),
    ("glob", "tools/cli"),
    ("nix", "tools/cli"),
    ("indicatif", "tools/cli"),
    ("comfy-table", "tools/cli"),
    ("console", "tools/cli"),
    ("criterion", "bench"),
    ("plotters", "bench"),
];

pub(super) fn check(root: &Path) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (position, folder) in ARROW.iter().enumerate() {
        breaches.extend(check_folder(root, folder, &ARROW[..position]));
    }
    for folder in RIGHT {
        breaches.extend(check_folder(root, folder, ARROW));
    }
    breaches
}

fn check_folder(root: &Path, folder: &str, allowed: &[&str]) -> Vec<Breach> {
    let place = format!("{folder}/Cargo.toml");
    let manifest = match std::fs::read_to_string(root.join(&place)) {
        Ok(text) => text,
        Err(error) => return vec![Breach::new(place, error.to_string())],
    };
    let manifest: toml::Table = match manifest.parse() {
        Ok(table) => table,
        Err(error) => return vec![Breach::new(place, error.to_string())],
    };
    let table = manifest.get("dependencies").and_then(toml::Value::as_table);
    let names = table.into_iter().flat_map(|table| table.keys());
    names.filter_map(|name| judge(&place, folder, name, allowed)).collect()
}

fn judge(place: &str, folder: &str, name: &str, allowed: &[&str]) -> Option<Breach> {
    if BESIDE.contains(&(folder, name)) {
        return None;
    }
    if let Some(own) = name.strip_prefix("memfold-") {
        let arrow = ARROW.join(" <- ");
        let advice = format!("{folder} must not use {name}: the arrow is {arrow}");
        return (!allowed.contains(&own)).then(|| Breach::new(place, advice));
    }
    let (_, home) = HOMES.iter().find(|(package, _)| *package == name)?;
    (*home != folder)
        .then(|| Breach::new(place, format!("{name} lives in {home} only; go through its API")))
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn the_arrow_points_one_way() {
        assert!(judge("p", "index", "memfold-simd", &["simd"]).is_none());
        assert!(judge("p", "index", "memfold-datasets", &["simd"]).is_some());
        assert!(judge("p", "bench", "memfold-cli", &[]).is_none());
        assert!(judge("p", "pipeline", "memfold-cli", &["simd"]).is_some());
    }

    #[test]
    fn a_package_has_one_home() {
        assert!(judge("p", "pipeline", "rusqlite", &[]).is_none());
        assert!(judge("p", "tools/cli", "rusqlite", &[]).is_some());
        assert!(judge("p", "tests", "rusqlite", &[]).is_none());
        assert!(judge("p", "tools/cli", "serde", &[]).is_none());
    }
}
