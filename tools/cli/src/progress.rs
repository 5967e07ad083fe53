//! What a running command watches: progress bars, Ctrl-C, time and memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use memfold_index::Progress;

use crate::printer::Printer;

/// Shows stages as bars on stderr and carries Ctrl-C, or passes both on to a listener.
pub struct Bars {
    printer: Printer,
    bar: Mutex<ProgressBar>,
    interrupted: Arc<AtomicBool>,
    listener: Option<Arc<dyn Progress + Send + Sync>>,
}

impl std::fmt::Debug for Bars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bars").field("interrupted", &self.interrupted).finish_non_exhaustive()
    }
}

impl Bars {
    /// Makes bars and catches Ctrl-C: once asks the work to stop, twice ends the process.
    pub fn new(printer: Printer) -> Self {
        let interrupted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&interrupted);
        let caught = ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::Relaxed) {
                end_now();
            }
        });
        if caught.is_err() {
            printer.detail("Ctrl-C ends the process at once here");
        }
        Self { printer, bar: Mutex::new(ProgressBar::hidden()), interrupted, listener: None }
    }

    /// Shows nothing and tells a listener, who also says when to stop.
    pub fn told(printer: Printer, listener: Arc<dyn Progress + Send + Sync>) -> Self {
        let bar = Mutex::new(ProgressBar::hidden());
        Self { printer, bar, interrupted: Arc::default(), listener: Some(listener) }
    }
}

#[expect(clippy::exit, reason = "the second Ctrl-C must end even work that does not listen")]
fn end_now() {
    std::process::exit(130);
}

impl Drop for Bars {
    /// Clears what is left of a stage that failed.
    fn drop(&mut self) {
        self.end();
    }
}

impl Progress for Bars {
    fn begin(&self, stage: &'static str, total: Option<u64>) {
        if let Some(listener) = &self.listener {
            return listener.begin(stage, total);
        }
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        bar.finish_and_clear();
        *bar = self.printer.bar(stage, total);
    }

    fn advance(&self, done: u64) {
        if let Some(listener) = &self.listener {
            return listener.advance(done);
        }
        self.bar.lock().unwrap_or_else(PoisonError::into_inner).inc(done);
    }

    fn end(&self) {
        if let Some(listener) = &self.listener {
            return listener.end();
        }
        self.bar.lock().unwrap_or_else(PoisonError::into_inner).finish_and_clear();
    }

    fn cancelled(&self) -> bool {
        match &self.listener {
            Some(listener) => listener.cancelled(),
            None => self.interrupted.load(Ordering::Relaxed),
        }
    }
}

/// Watches anonymous memory while a command runs.
#[derive(Debug)]
pub struct MemoryWatch {
    peak_anon: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    watcher: Option<JoinHandle<()>>,
}

/// The kernel keeps no peak of anonymous memory, so it is sampled this often.
const SAMPLE_EVERY: Duration = Duration::from_millis(20);

impl MemoryWatch {
    /// Starts watching.
    pub fn start() -> Self {
        let peak_anon = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let (peak, stopped) = (Arc::clone(&peak_anon), Arc::clone(&stop));
        let watch = move || {
            while !stopped.load(Ordering::Relaxed) {
                peak.fetch_max(status_bytes("RssAnon:").unwrap_or(0), Ordering::Relaxed);
                std::thread::park_timeout(SAMPLE_EVERY);
            }
        };
        let watcher = std::thread::Builder::new().name("memory".to_owned()).spawn(watch).ok();
        Self { peak_anon, stop, watcher }
    }

    /// Stops watching and returns the peaks of all and of anonymous resident memory, in bytes.
    /// Both are `None` where the system does not tell.
    pub fn finish(mut self) -> (Option<u64>, Option<u64>) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            // The watcher only reads; if it died, the samples so far stand.
            let _ended = watcher.join();
        }
        let now = status_bytes("RssAnon:");
        let peak = now.map(|now| now.max(self.peak_anon.load(Ordering::Relaxed)));
        (status_bytes("VmHWM:"), peak)
    }
}

fn status_bytes(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the seconds since it was first called.
#[expect(clippy::disallowed_methods, reason = "the edge measures time for the report")]
pub fn clock_seconds() -> f64 {
    static FIRST: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn memory_is_seen() {
        let watch = MemoryWatch::start();
        let block = vec![1_u8; 64 << 20];
        std::thread::sleep(SAMPLE_EVERY * 3);
        assert_eq!(block.iter().map(|&b| u64::from(b)).sum::<u64>(), 64 << 20);
        drop(block);
        let (rss, anon) = watch.finish();
        assert!(anon.unwrap() >= 64 << 20);
        assert!(rss.unwrap() >= anon.unwrap());
    }
}
