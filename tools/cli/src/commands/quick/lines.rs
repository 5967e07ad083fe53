//! Memories on lines of JSON.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use memfold::quick_check::Incoming;
use serde::Deserialize;

use crate::failure::Failure;

/// Longer lines are refused: no memory is this long.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// A line of `--jsonl`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    text: String,
    #[serde(default)]
    vector: Option<Vec<f32>>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    categories: Option<Categories>,
    #[serde(default)]
    importance: Option<f64>,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Categories {
    One(String),
    Several(Vec<String>),
}

/// Lines of a file, or of stdin where it is `-`.
pub(super) struct Lines {
    input: Box<dyn BufRead>,
    buffer: Vec<u8>,
    number: u64,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let input: Box<dyn BufRead> = if path == Path::new("-") {
            Box::new(BufReader::new(io::stdin()))
        } else {
            let file = File::open(path)
                .map_err(|error| Failure::new(&format!("open {}", path.display()), &error, None))?;
            Box::new(BufReader::new(file))
        };
        Ok(Self { input, buffer: Vec::new(), number: 0 })
    }

    /// Returns the next memory and its line's number, or what is wrong with the line; `None` at the end. Blank lines
    /// are passed over.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, Result<Incoming, String>)>> {
        loop {
            self.buffer.clear();
            let mut limited = io::Read::take(&mut self.input, LINE_BYTES_MAX);
            if limited.read_until(b'\n', &mut self.buffer)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.buffer.len() as u64 == LINE_BYTES_MAX && self.buffer.last() != Some(&b'\n') {
                self.skip_line()?;
                let most = LINE_BYTES_MAX >> 20;
                return Ok(Some((self.number, Err(format!("the line is longer than {most} MiB")))));
            }
            if !self.buffer.trim_ascii().is_empty() {
                return Ok(Some((self.number, read(&self.buffer))));
            }
        }
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let (used, is_end) = match self.input.fill_buf()? {
                [] => return Ok(()),
                bytes => match bytes.iter().position(|byte| *byte == b'\n') {
                    Some(at) => (at + 1, true),
                    None => (bytes.len(), false),
                },
            };
            self.input.consume(used);
            if is_end {
                return Ok(());
            }
        }
    }
}

fn read(line: &[u8]) -> Result<Incoming, String> {
    let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let categories = match line.categories {
        None => Vec::new(),
        Some(Categories::One(category)) => vec![category],
        Some(Categories::Several(categories)) => categories,
    };
    Ok(Incoming {
        id: line.id,
        text: Some(line.text),
        categories,
        importance: line.importance,
        source: line.source,
        vector: line.vector,
        model: line.model,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<(u64, Result<Incoming, String>)> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut lines = Lines::open(file.path()).unwrap();
        std::iter::from_fn(|| lines.next().unwrap()).collect()
    }

    #[test]
    fn each_line_is_a_memory_or_says_what_is_wrong() {
        let found = lines(
            b"{\"text\":\"a\",\"categories\":\"x\",\"vector\":[1,0]}\n\n{\"text\":\"b\"}\nnonsense\n{\"txt\":\"c\"}\n\xff\n{\"text\":\"d\"}",
        );
        let numbers: Vec<u64> = found.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 3, 4, 5, 6, 7]);
        let first = found[0].1.as_ref().unwrap();
        assert_eq!(
            (&first.categories[..], &first.vector),
            (&["x".to_owned()][..], &Some(vec![1.0, 0.0]))
        );
        let texts: Vec<_> = found
            .iter()
            .map(|(_, line)| line.as_ref().ok().and_then(|l| l.text.as_deref()))
            .collect();
        assert_eq!(texts, [Some("a"), Some("b"), None, None, None, Some("d")]);
        assert!(found[3].1.as_ref().unwrap_err().contains("unknown field `txt`"));
    }

    #[test]
    fn a_line_without_an_end_is_refused_and_the_next_one_read() {
        let mut text = vec![b'x'; LINE_BYTES_MAX as usize + 70_000];
        text.extend_from_slice(b"\n{\"text\":\"b\"}\n");
        let found = lines(&text);
        assert!(found[0].1.as_ref().unwrap_err().contains("longer than 16 MiB"));
        assert_eq!((found.len(), found[1].0, found[1].1.is_ok()), (2, 2, true));
    }
}
