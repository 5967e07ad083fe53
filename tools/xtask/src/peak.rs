//! The peak of the processor, and how near to it the main kernel comes, from the benchmark `kernels`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Where criterion keeps what it found.
const CRITERION: &str = "target/criterion/kernels";

/// A benchmark and its operations per second.
#[derive(Debug, PartialEq)]
struct Rate {
    /// `kernels/NAME/LEVEL/PARAMETER`, split.
    name: String,
    level: String,
    parameter: String,
    per_second: f64,
}

/// Runs the benchmark's peaks and sign tests and returns them, in operations per second:
/// `{level, threads, int8_one, int8_all, f32_one, f32_all, hits{width}, hits_share_of_peak{width}}`.
///
/// All with one thread but `…_all`, which keeps every core busy at once.
pub(crate) fn measure(root: &Path, level: &str) -> Result<Value, String> {
    let _gone = std::fs::remove_dir_all(root.join(CRITERION));
    let filter = format!("/(peak_int8|peak_f32|hits)/{level}/");
    let status = Command::new("cargo")
        .current_dir(root)
        .args(["bench", "--locked", "--package", "memfold-bench", "--bench", "kernels", "--"])
        .arg(filter)
        .stdout(Stdio::null())
        .status();
    if !status.is_ok_and(|status| status.success()) {
        return Err("the benchmark kernels failed".to_owned());
    }
    let mut rates = Vec::new();
    for file in benchmarks(&root.join(CRITERION)) {
        rates.extend(rate(&file)?);
    }
    summary(&rates, level).ok_or_else(|| format!("the benchmark kernels says nothing of {level}"))
}

/// Finds the descriptions of the benchmarks that ran.
fn benchmarks(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = Vec::new();
    for path in entries.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        if path.ends_with("new") {
            found.extend(Some(path.join("benchmark.json")).filter(|file| file.exists()));
        } else {
            found.extend(benchmarks(&path));
        }
    }
    found.sort();
    found
}

fn rate(benchmark: &Path) -> Result<Option<Rate>, String> {
    let read = |path: &Path| -> Result<Value, String> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    };
    Ok(parse(&read(benchmark)?, &read(&benchmark.with_file_name("estimates.json"))?))
}

/// Median operations per second of a benchmark that counts them.
fn parse(benchmark: &Value, estimates: &Value) -> Option<Rate> {
    let mut words = benchmark["full_id"].as_str()?.split('/').skip(1).map(str::to_owned);
    let elements = benchmark["throughput"]["Elements"].as_f64()?;
    let nanoseconds = estimates["median"]["point_estimate"].as_f64()?;
    Some(Rate {
        name: words.next()?,
        level: words.next()?,
        parameter: words.next()?,
        per_second: elements / nanoseconds * 1e9,
    })
}

fn summary(rates: &[Rate], level: &str) -> Option<Value> {
    let of = |name: &str, parameter: &str| {
        let mut all = rates.iter().filter(|rate| rate.level == level && rate.name == name);
        all.find(|rate| rate.parameter == parameter).map(|rate| rate.per_second)
    };
    let peaks = rates.iter().filter(|rate| rate.level == level && rate.name == "peak_int8");
    let threads = peaks.filter_map(|rate| rate.parameter.parse::<u64>().ok()).max()?;
    let all = threads.to_string();
    let int8_one = of("peak_int8", "1")?;
    let hits = rates.iter().filter(|rate| rate.level == level && rate.name == "hits");
    let mut hits: Vec<&Rate> = hits.collect();
    hits.sort_by_key(|rate| rate.parameter.parse::<u64>().unwrap_or(0));
    let table = |scale: f64| -> Value {
        let entries =
            hits.iter().map(|rate| (rate.parameter.clone(), json!(rate.per_second / scale)));
        Value::Object(entries.collect())
    };
    Some(json!({
        "level": level,
        "threads": threads,
        "int8_one": int8_one,
        "int8_all": of("peak_int8", &all)?,
        "f32_one": of("peak_f32", "1")?,
        "f32_all": of("peak_f32", &all)?,
        "hits": table(1.0),
        "hits_share_of_peak": table(int8_one),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_elements_by_the_median() {
        let benchmark =
            json!({ "full_id": "kernels/hits/avx2/64", "throughput": { "Elements": 3000 } });
        let estimates = json!({ "median": { "point_estimate": 10.0 } });
        let rate = parse(&benchmark, &estimates).unwrap();
        assert_eq!((rate.name.as_str(), rate.level.as_str()), ("hits", "avx2"));
        assert!((rate.per_second - 3e11).abs() < 1.0);
        assert_eq!(parse(&json!({ "full_id": "kernels/hits/avx2/64" }), &estimates), None);
    }

    #[test]
    fn the_share_is_of_one_thread() {
        let rate = |name: &str, parameter: &str, per_second| Rate {
            name: name.into(),
            level: "avx2".into(),
            parameter: parameter.into(),
            per_second,
        };
        let mut rates = vec![
            rate("peak_int8", "1", 200.0),
            rate("peak_int8", "2", 300.0),
            rate("peak_f32", "1", 50.0),
            rate("peak_f32", "2", 90.0),
            rate("hits", "64", 150.0),
        ];
        let found = summary(&rates, "avx2").unwrap();
        assert_eq!(found["threads"], 2);
        assert_eq!(found["int8_all"], 300.0);
        assert_eq!(found["hits_share_of_peak"], json!({ "64": 0.75 }));
        assert_eq!(summary(&rates, "neon"), None);
        rates.remove(0);
        assert_eq!(summary(&rates, "avx2"), None);
    }
}
