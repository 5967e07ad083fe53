//! What was asked for.

/// What a comparison without options compares with: what was committed last.
const BASELINE_DEFAULT: &str = "HEAD";

/// A median of three is not moved by one disturbed round, and two of them would not tell which one was.
const ROUNDS_DEFAULT: usize = 3;

/// Changes below are not worth a look, however still the machine is.
const TOLERANCE_DEFAULT: f64 = 0.05;

/// Options of `bench-compare`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Options {
    /// The commit to compare with.
    pub(super) baseline: String,
    /// The groups to measure; empty: all.
    groups: Vec<String>,
    /// Only benchmarks whose name holds this.
    pub(super) filter: Option<String>,
    /// How often each tree is measured: 2 or more.
    pub(super) rounds: usize,
    /// The share of the baseline's time that a change must exceed.
    pub(super) tolerance: f64,
}

impl Options {
    pub(super) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            baseline: BASELINE_DEFAULT.to_owned(),
            groups: Vec::new(),
            filter: None,
            rounds: ROUNDS_DEFAULT,
            tolerance: TOLERANCE_DEFAULT,
        };
        let mut words = arguments.iter();
        while let Some(name) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{name} needs a value"));
            match name.as_str() {
                "--baseline" => options.baseline.clone_from(value()?),
                "--groups" => options.groups = value()?.split(',').map(str::to_owned).collect(),
                "--filter" => options.filter = Some(value()?.clone()),
                "--rounds" => {
                    let rounds = value()?.parse().ok().filter(|rounds| *rounds >= 2);
                    options.rounds = rounds.ok_or("--rounds is 2 or more: one tells no noise")?;
                }
                "--tolerance" => {
                    let share =
                        value()?.parse().ok().filter(|share: &f64| (0.0..1.0).contains(share));
                    options.tolerance = share.ok_or("--tolerance is a share from 0 to 1")?;
                }
                other => return Err(format!("unknown option {other}")),
            }
        }
        Ok(options)
    }

    /// Returns the groups to measure, in the order of `known`.
    pub(super) fn groups(&self, known: &[String]) -> Result<Vec<String>, String> {
        if let Some(unknown) = self.groups.iter().find(|group| !known.contains(group)) {
            return Err(format!("no group {unknown}; there are {}", known.join(", ")));
        }
        let is_wanted = |group: &&String| self.groups.is_empty() || self.groups.contains(group);
        Ok(known.iter().filter(is_wanted).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read() {
        let default = parse("").unwrap();
        assert_eq!((default.baseline.as_str(), default.rounds), ("HEAD", 3));
        let all = "--baseline v1 --groups join,build --filter rows --rounds 5 --tolerance 0.1";
        let options = parse(all).unwrap();
        assert_eq!((options.baseline.as_str(), options.rounds), ("v1", 5));
        assert_eq!((options.filter.as_deref(), options.tolerance), (Some("rows"), 0.1));
        let known = ["kernels", "build", "join"].map(str::to_owned);
        assert_eq!(options.groups(&known).unwrap(), ["build", "join"]);
        assert_eq!(default.groups(&known).unwrap(), known);
    }

    #[test]
    fn nonsense_is_refused() {
        for (line, reason) in [
            ("--rounds 1", "--rounds is 2 or more: one tells no noise"),
            ("--rounds", "--rounds needs a value"),
            ("--tolerance 5", "--tolerance is a share from 0 to 1"),
            ("--nonsense", "unknown option --nonsense"),
        ] {
            assert_eq!(parse(line).unwrap_err(), reason);
        }
        let known = ["join".to_owned()];
        let unknown = parse("--groups tables").unwrap().groups(&known);
        assert_eq!(unknown.unwrap_err(), "no group tables; there are join");
    }
}
