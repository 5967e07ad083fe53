//! The machine's clock, name, time zone and configuration.
//!
//! Only this module and [`ops`](crate::ops), which begins a call, read the clock and the environment.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::tz::TimeZone;
use memfold_core::policy::{ConfigLoader, time_zone};
use memfold_core::time::Instant;
use memfold_guard::text::excerpt;

/// Returns the layers that every configuration begins with: the files of system and user, the
/// environment, and the machine's time zone.
pub fn config_loader() -> ConfigLoader {
    // Variables that are not text cannot be ours.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let loader = ConfigLoader::new().machine_files().environment(environment);
    match machine_zone(std::env::var_os("TZ")) {
        Some(Ok(name)) => loader.time_zone(name),
        Some(Err(problem)) => loader.unknown_time_zone(problem),
        None => loader,
    }
}

/// Returns the time of the clock.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "the edge reads the clock; everything below takes it"
)]
pub fn clock() -> Instant {
    Instant(jiff::Timestamp::now().as_microsecond())
}

/// Returns who runs: the machine and the process.
#[must_use]
pub fn holder() -> String {
    let from_kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let from_shell =
        || ["HOSTNAME", "COMPUTERNAME"].iter().find_map(|name| std::env::var(name).ok());
    let machine = from_kernel.or_else(from_shell).unwrap_or_default();
    let machine: String = machine.trim().chars().filter(|c| !c.is_whitespace()).collect();
    let machine = if machine.is_empty() { "localhost".to_owned() } else { machine };
    format!("{machine} {}", std::process::id())
}

/// The time since some moment.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// Starts.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the edge measures time for the report")]
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Returns the seconds since the start.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
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
    #[must_use]
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
    #[must_use]
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
#[must_use]
pub(crate) fn clock_seconds() -> f64 {
    static FIRST: std::sync::OnceLock<Stopwatch> = std::sync::OnceLock::new();
    FIRST.get_or_init(Stopwatch::start).seconds()
}

/// Returns the name of the machine's zone, or the defect of the variable `TZ`; `None` where no zone
/// is named.
fn machine_zone(variable: Option<OsString>) -> Option<Result<String, String>> {
    let Some(variable) = variable.filter(|variable| !variable.is_empty()) else {
        return system_zone().map(Ok);
    };
    let shown = excerpt(&variable.to_string_lossy(), ZONE_CHARS);
    let name = variable.to_str().map(|name| name.strip_prefix(':').unwrap_or(name));
    let Some(name) = name else { return Some(Err(format!("TZ is no text: {shown}"))) };
    if let Some(zone) = time_zone(name) {
        return Some(Ok(zone.iana_name().map_or_else(|| name.to_owned(), str::to_owned)));
    }
    let file = Path::new(name);
    if file.is_absolute() && file.is_file() {
        let unnamed = || format!("TZ={shown} is a file of no zone that has a name");
        return Some(zone_of_file(file).ok_or_else(unnamed));
    }
    Some(match TimeZone::posix(name).ok().map(|zone| fixed_offset(&zone)) {
        Some(Some(seconds)) => Ok(offset_name(seconds)),
        Some(None) => Err(format!("TZ={shown} is a rule and no name")),
        None => Err(format!("TZ={shown} names no zone")),
    })
}

/// Returns the name of the zone of the machine's clock.
fn system_zone() -> Option<String> {
    // jiff would first list all zone files, if another crate has turned that on.
    #[cfg(unix)]
    match std::fs::read_link("/etc/localtime") {
        Ok(file) => {
            if let Some(name) = zone_of_file(&file) {
                return Some(name);
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(_) => {}
    }
    #[expect(clippy::disallowed_methods, reason = "it names the zone; its rules are not used")]
    let zone = TimeZone::system();
    zone.iana_name().map(str::to_owned)
}

/// Returns the name of the zone file that a path leads to.
fn zone_of_file(file: &Path) -> Option<String> {
    let (_, name) = file.to_str()?.rsplit_once("zoneinfo/")?;
    time_zone(name)?.iana_name().map(str::to_owned)
}

/// Returns the offset from UTC in seconds of a zone without clock changes: it is the same in every
/// month.
fn fixed_offset(zone: &TimeZone) -> Option<i32> {
    const MONTH_SECONDS: i64 = 30 * 86_400;
    let at = |month: i64| jiff::Timestamp::from_second(month * MONTH_SECONDS).ok();
    let mut offsets = (0..12).filter_map(at).map(|at| zone.to_offset(at).seconds());
    let first = offsets.next()?;
    offsets.all(|offset| offset == first).then_some(first)
}

/// Writes an offset from UTC as `+02:00`.
fn offset_name(seconds: i32) -> String {
    let (sign, seconds) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs());
    format!("{sign}{:02}:{:02}", seconds / 3600, seconds / 60 % 60)
}

const ZONE_CHARS: usize = 60;

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
