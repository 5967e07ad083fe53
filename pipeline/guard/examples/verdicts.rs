//! Judges pairs of texts, `{"a", "b"}` on each line of a file, and writes one verdict on each line of another:
//!
//! ```text
//! cargo run -p memfold-guard --example verdicts -- --pairs pairs.jsonl --verdicts verdicts.jsonl
//! ```
//!
//! `a` is the older text; the probability depends on the texts and on `cosine`.
//! `memfold-bench guard` does the same with counts and timings, and takes longer to build.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};

use memfold_guard::{Guard, GuardPolicy, Side};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [pairs_flag, pairs, verdicts_flag, verdicts] = &arguments[..] else {
        return Err("usage: verdicts --pairs FILE --verdicts FILE".into());
    };
    if pairs_flag != "--pairs" || verdicts_flag != "--verdicts" {
        return Err("usage: verdicts --pairs FILE --verdicts FILE".into());
    }
    let guard = Guard::new(&GuardPolicy::default())?;
    let mut out = BufWriter::new(File::create(verdicts)?);
    for (index, line) in BufReader::new(File::open(pairs)?).lines().enumerate() {
        let pair: Value = serde_json::from_str(&line?)?;
        let read = |key: &str| pair[key].as_str().map(|text| guard.read(text));
        let (Some(older), Some(newer)) = (read("a"), read("b")) else {
            return Err(format!("line {}: a or b is missing", index + 1).into());
        };
        let judgement = guard.judge(&older, &newer);
        let similarity = pair["cosine"].as_f64().unwrap_or_default();
        let line = json!({
            "index": index,
            "verdict": judgement.verdict,
            "mergeable": judgement.says_all(Side::Right),
            "could_be_same": judgement.could_be_same,
            "features": guard.features(&older, &newer, &judgement, similarity).to_vec(),
            "probability": guard.probability(&older, &newer, &judgement, similarity),
        });
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(())
}
