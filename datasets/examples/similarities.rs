//! Prints the cosine of the built-in embedding for pairs of texts, `{"a", "b"}` on each line of
//! stdin; 0 where a text has no vector.
//!
//! ```text
//! cargo run --release -p memfold-datasets --example similarities < pairs.jsonl
//! ```

use std::error::Error;
use std::io::{BufRead as _, BufWriter, Write as _, stdin, stdout};

use memfold_datasets::embedding::embed;
use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(stdout().lock());
    for line in stdin().lock().lines() {
        let pair: Value = serde_json::from_str(&line?)?;
        let vector = |key: &str| pair[key].as_str().and_then(embed);
        let cosine = vector("a").zip(vector("b")).map_or(0.0, |(a, b)| {
            a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(y)).sum::<f64>()
        });
        writeln!(out, "{cosine}")?;
    }
    Ok(())
}
