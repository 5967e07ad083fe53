//! Runs the harness in full against a release binary and prints its counts, a JSON object a line.
//!
//! `python3 bench/measure.py torture` builds the binary, runs this and stores the lines.

mod jobs;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: torture --memfold BINARY [--full] [--only kill|faults|writers|reader] \
                     [--trials N]";

fn main() -> ExitCode {
    let Some(jobs) = arguments() else {
        say(USAGE);
        return ExitCode::from(2);
    };
    match jobs.run(&mut print) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            say(&format!("torture: {reason}"));
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Option<jobs::Jobs> {
    let mut words = std::env::args().skip(1);
    let mut jobs = jobs::Jobs { binary: PathBuf::new(), full: false, only: None, trials: None };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--memfold" => jobs.binary = words.next()?.into(),
            "--full" => jobs.full = true,
            "--only" => jobs.only = Some(words.next()?),
            "--trials" => jobs.trials = Some(words.next()?.parse().ok()?),
            _ => return None,
        }
    }
    let known = jobs.only.as_deref().is_none_or(|only| jobs::SUITES.contains(&only));
    (known && jobs.binary.is_file()).then_some(jobs)
}

#[expect(clippy::print_stdout, reason = "results go to standard output")]
fn print(line: &str) {
    println!("{line}");
}

#[expect(clippy::print_stderr, reason = "what goes wrong and how far it is goes to standard error")]
fn say(text: &str) {
    eprintln!("{text}");
}
