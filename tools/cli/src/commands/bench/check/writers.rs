//! Processes that save at a steady pace while checks are measured.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;

use super::PAUSE;
use super::processes::Executable;
use crate::failure::Failure;

/// Writers at work.
pub(super) struct Writers {
    stop: Arc<AtomicBool>,
    saved: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Writers {
    /// Starts writers, each a process of its own that saves `rate` memories a second.
    pub(super) fn start(count: usize, rate: f64, program: &Executable) -> Result<Self, Failure> {
        let (stop, saved) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut threads = Vec::new();
        for writer in 0..count {
            let mut child = program
                .command("save")
                .args(["--jsonl", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .map_err(|error| Failure::new("start a writer", &error, None))?;
            let (stop, saved) = (Arc::clone(&stop), Arc::clone(&saved));
            let pause = Duration::from_secs_f64(1.0 / rate);
            threads.push(std::thread::spawn(move || {
                let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take())
                else {
                    return;
                };
                let mut answers = BufReader::new(output).lines();
                for number in 0_u64.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let text = format!("Writer {writer} notes event {number} of its own.");
                    let line = json!({ "text": text, "source": "bench" });
                    if writeln!(input, "{line}").is_err() || answers.next().is_none() {
                        break;
                    }
                    saved.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(pause.max(PAUSE));
                }
                // The end of its input ends it; a writer that fails shows in how much it saved.
                drop(input);
                let _ended = child.wait();
            }));
        }
        Ok(Self { stop, saved, threads })
    }

    /// Ends them and returns how many memories they saved.
    pub(super) fn stop(self) -> Result<u64, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        let count = self.threads.len();
        for thread in self.threads {
            thread.join().map_err(|_| Failure::plain("a writer failed", "run it again"))?;
        }
        match self.saved.load(Ordering::Relaxed) {
            0 if count > 0 => Err(Failure::plain(
                "the writers saved nothing",
                "run `memfold save DB --jsonl -` by hand to see why",
            )),
            saved => Ok(saved),
        }
    }
}
