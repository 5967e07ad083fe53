//! What `bench-peers` is asked to do.

use std::path::PathBuf;

use crate::measure::data::Rows;

/// Sizes of the generated rows.
const ROW_COUNTS: [u64; 3] = [10_000, 30_000, 100_000];
const ROW_COUNT_FULL: u64 = 1_000_000;

/// Generated rows that are looked up in.
const ROW_COUNT_LOOKUPS: u64 = 100_000;

/// Rows of the real file, as far as limits go.
const ROW_COUNT_REAL: u64 = 36_047;

const THRESHOLD: f64 = 0.85;

/// Work that engines are compared at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Joins,
    Lookups,
}

/// Arguments of the command.
#[derive(Debug, PartialEq)]
pub(super) struct Options {
    /// `None`: all of it.
    only: Option<Part>,
    pub(super) full: bool,
    pub(super) once: bool,
    pub(super) data: Option<PathBuf>,
    pub(super) rows: Option<u64>,
    pub(super) engines: Option<String>,
    pub(super) thresholds: Vec<f64>,
    pub(super) threads: usize,
    pub(super) seconds_max: Option<u32>,
}

impl Options {
    pub(super) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            only: None,
            full: false,
            once: false,
            data: None,
            rows: None,
            engines: None,
            thresholds: vec![THRESHOLD],
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            seconds_max: None,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--only" => options.only = Some(part(value()?)?),
                "--full" => options.full = true,
                "--once" => options.once = true,
                "--data" => options.data = Some(value()?.into()),
                "--rows" => options.rows = Some(number(word, value()?)?),
                "--engines" => options.engines = Some(value()?.clone()),
                "--threshold" => options.thresholds = numbers(word, value()?)?,
                "--threads" => options.threads = number(word, value()?)?,
                "--seconds-max" => options.seconds_max = Some(number(word, value()?)?),
                _ => return Err(format!("no such argument: {word}")),
            }
        }
        if options.engines.is_some() && options.only.is_none() {
            return Err(
                "--engines names those of one part: add --only joins or --only lookups".into()
            );
        }
        Ok(options)
    }

    pub(super) fn asks_for(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }

    /// Whether the wheel is among the engines.
    pub(super) fn asks_for_wheel(&self) -> bool {
        let mut engines = self.engines.iter().flat_map(|engines| engines.split(','));
        self.asks_for(Part::Joins)
            && (self.engines.is_none() || engines.any(|engine| engine == "memfold-wheel"))
    }

    /// The rows to look up in.
    pub(super) fn looked_up(&self) -> Vec<Rows> {
        if let Some(data) = &self.data {
            return vec![Rows::given(data)];
        }
        if let Some(rows) = self.rows {
            return vec![Rows::synthetic(rows)];
        }
        let sizes = [ROW_COUNT_LOOKUPS].into_iter().chain(self.full.then_some(ROW_COUNT_FULL));
        Rows::real().into_iter().chain(sizes.map(Rows::synthetic)).collect()
    }

    /// The rows to join, with how many they are (0 for a given file: no engine is left out).
    pub(super) fn joined(&self) -> Vec<(Rows, u64)> {
        if let Some(data) = &self.data {
            return vec![(Rows::given(data), 0)];
        }
        if let Some(rows) = self.rows {
            return vec![(Rows::synthetic(rows), rows)];
        }
        let sizes = ROW_COUNTS.into_iter().chain(self.full.then_some(ROW_COUNT_FULL));
        let real = Rows::real().map(|rows| (rows, ROW_COUNT_REAL));
        real.into_iter().chain(sizes.map(|rows| (Rows::synthetic(rows), rows))).collect()
    }
}

fn part(text: &str) -> Result<Part, String> {
    match text {
        "joins" => Ok(Part::Joins),
        "lookups" => Ok(Part::Lookups),
        _ => Err(format!("--only: {text} is neither joins nor lookups")),
    }
}

fn number<T: std::str::FromStr>(word: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{word}: {text} is not a number"))
}

/// Several numbers, with commas.
fn numbers(word: &str, text: &str) -> Result<Vec<f64>, String> {
    text.split(',').map(|text| number(word, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Options, String> {
        Options::parse(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_become_options() {
        let options =
            parse("--full --only joins --engines a,b --threshold 0.85,0.9 --threads 2").unwrap();
        assert!(options.full);
        assert_eq!(options.engines.as_deref(), Some("a,b"));
        assert_eq!((options.thresholds, options.threads), (vec![0.85, 0.9], 2));
        let rows: Vec<u64> = parse("--rows 5000").unwrap().joined().iter().map(|w| w.1).collect();
        assert_eq!(rows, [5000]);
        let given = parse("--data x/mine.npy --rows 3").unwrap().joined();
        assert_eq!((given.len(), given[0].0.name.as_str()), (1, "mine"));
    }

    #[test]
    fn a_part_is_chosen_alone() {
        let both = parse("").unwrap();
        assert!(both.asks_for(Part::Joins) && both.asks_for(Part::Lookups));
        let lookups = parse("--only lookups --full").unwrap();
        assert!(!lookups.asks_for(Part::Joins) && lookups.asks_for(Part::Lookups));
        let real = usize::from(Rows::real().is_some());
        assert_eq!(lookups.looked_up().len(), 2 + real);
        assert_eq!(parse("--only lookups --rows 5000").unwrap().looked_up().len(), 1);
        assert!(parse("--engines hnswlib").unwrap_err().contains("--only"));
        assert!(parse("--only both").is_err());
    }

    #[test]
    fn what_is_not_understood_is_said() {
        assert_eq!(parse("--fast").unwrap_err(), "no such argument: --fast");
        assert_eq!(parse("--rows").unwrap_err(), "--rows needs a value");
        assert_eq!(parse("--rows x").unwrap_err(), "--rows: x is not a number");
    }
}
