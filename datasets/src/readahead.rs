//! [`Readahead`]: a file on its way into memory while its rows are read.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Bytes that are asked for at once: a wish to stop waits for no more than these.
const STEP_BYTES: u64 = 8 << 20;

/// A thread that asks the system for parts of a file, from first to last, while this lives.
///
/// Whoever takes a file page by page waits for each; a disk that is asked for much at once delivers several times as fast.
/// Parts that would fill more than half of the memory that this process may use are not asked for, because the first would
/// be gone before they are read. Nothing depends on it: what cannot be asked for is read as ever, and what is in memory costs next to nothing.
/// Systems other than Linux are not asked.
#[derive(Debug)]
pub struct Readahead {
    gives_up: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Readahead {
    /// Asks for all of `file`, which the thread holds until it is done.
    #[must_use = "it ends when it is dropped"]
    pub fn of(file: Arc<File>) -> Self {
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        Self::of_parts(file, std::iter::once(0..length).collect())
    }

    /// Asks for some bytes of the file at `path`, or for all of it.
    pub(crate) fn of_path(path: &Path, parts: Option<Vec<Range<u64>>>) -> Self {
        match (File::open(path).map(Arc::new), parts) {
            (Ok(file), Some(parts)) => Self::of_parts(file, parts),
            (Ok(file), None) => Self::of(file),
            (Err(_), _) => Self { gives_up: Arc::default(), thread: None },
        }
    }

    fn of_parts(file: Arc<File>, parts: Vec<Range<u64>>) -> Self {
        let gives_up = Arc::new(AtomicBool::new(false));
        let lengths = parts.iter().map(|part| part.end.saturating_sub(part.start));
        let length = lengths.fold(0, u64::saturating_add);
        let gave_up = Arc::clone(&gives_up);
        let ask = move || {
            let mut steps = parts.into_iter().flat_map(steps);
            // What the system refuses once, it refuses again.
            let _ = steps.try_for_each(|step| match gave_up.load(Ordering::Relaxed) {
                true => Err(io::ErrorKind::Interrupted.into()),
                false => system::ask(&file, step),
            });
        };
        let is_worth_it = length > 0 && length <= system::memory_bytes() / 2;
        let thread = is_worth_it
            .then(|| thread::Builder::new().name("read ahead".to_owned()).spawn(ask).ok())
            .flatten();
        Self { gives_up, thread }
    }
}

/// Cuts what is asked for into what is asked for at once.
fn steps(part: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = part.end;
    part.step_by(STEP_BYTES as usize)
        .map(move |from| from..end.min(from.saturating_add(STEP_BYTES)))
}

impl Drop for Readahead {
    fn drop(&mut self) {
        self.gives_up.store(true, Ordering::Relaxed);
        // It has nothing to say, and nothing in it panics.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs;
    use std::num::NonZeroU64;
    use std::path::Path;

    use rustix::fs::{Advice, fadvise};
    use rustix::system::sysinfo;

    use super::{File, Range, io};

    pub(super) fn ask(file: &File, part: Range<u64>) -> io::Result<()> {
        let length = NonZeroU64::new(part.end - part.start);
        Ok(fadvise(file, part.start, length, Advice::WillNeed)?)
    }

    /// Returns how much memory this process may use: the machine's, or less where a container has less.
    pub(super) fn memory_bytes() -> u64 {
        let info = sysinfo();
        // u32 on some processors, u64 on others.
        let bytes = u128::from(info.totalram) * u128::from(info.mem_unit);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        bytes.min(group_limit(Path::new("/sys/fs/cgroup"), &groups).unwrap_or(u64::MAX))
    }

    /// Returns the least memory that is left to any of these control groups, or to one that they are in; their limits lie
    /// under `root`. `groups` is what cgroups(7) says of `/proc/[pid]/cgroup`, of either version.
    pub(super) fn group_limit(root: &Path, groups: &str) -> Option<u64> {
        let limits = groups.lines().filter_map(|line| {
            let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
            let (folder, file) = if controllers.is_empty() {
                (root.to_owned(), "memory.max")
            } else if controllers.split(',').any(|controller| controller == "memory") {
                (root.join("memory"), "memory.limit_in_bytes")
            } else {
                return None;
            };
            let around = Path::new(group.trim_start_matches('/')).ancestors();
            let limit = |group| fs::read_to_string(folder.join(group).join(file)).ok();
            // Without a limit it says `max`, or a number beyond all memories.
            around.filter_map(limit).filter_map(|limit| limit.trim().parse::<u64>().ok()).min()
        });
        limits.min()
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{File, Range, io};

    pub(super) fn ask(_: &File, _: Range<u64>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Nothing is worth asking for.
    pub(super) const fn memory_bytes() -> u64 {
        0
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn file_of(length: u64) -> Arc<File> {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len(length).expect("a hole takes no room");
        Arc::new(file)
    }

    #[test]
    fn a_file_is_asked_for_to_its_end() {
        let file = file_of(3 * STEP_BYTES + 1);
        let mut readahead = Readahead::of(Arc::clone(&file));
        readahead.thread.take().unwrap().join().unwrap();
        assert!(!readahead.gives_up.load(Ordering::Relaxed));
        assert_eq!(Arc::strong_count(&file), 1);
    }

    #[test]
    fn what_has_no_bytes_or_too_many_is_not_asked_for() {
        assert!(Readahead::of(file_of(0)).thread.is_none());
        assert!(Readahead::of(file_of(system::memory_bytes() / 2 + 1)).thread.is_none());
        let folder = tempfile::tempdir().unwrap();
        assert!(Readahead::of_path(&folder.path().join("missing"), None).thread.is_none());
    }

    #[test]
    fn a_container_has_the_least_of_its_limits() {
        let folder = tempfile::tempdir().unwrap();
        let limit = |group: &str, file: &str, text: &str| {
            let group = folder.path().join(group);
            std::fs::create_dir_all(&group).unwrap();
            std::fs::write(group.join(file), text).unwrap();
        };
        let found = |groups: &str| system::group_limit(folder.path(), groups);
        limit("a/b", "memory.max", "max\n");
        assert_eq!(found("0::/a/b\n"), None);
        limit("a", "memory.max", "3000\n");
        limit("a/b/c", "memory.max", "5000\n");
        assert_eq!((found("0::/a/b\n"), found("0::/a/b/c")), (Some(3000), Some(3000)));
        assert_eq!(
            (found("0::/b"), found("0::/"), found(""), found("0")),
            (None, None, None, None)
        );
        limit("memory/job", "memory.limit_in_bytes", "2000\n");
        limit("memory", "memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(found("12:cpu,cpuacct:/job\n4:memory:/job\n0::/a\n"), Some(2000));
        assert_eq!(found("4:hugetlb,memory:/elsewhere\n"), Some(9_223_372_036_854_771_712));
    }

    #[test]
    fn steps_are_the_part() {
        assert!(steps(5..9).eq(std::iter::once(5..9)));
        let far = 1 + 2 * STEP_BYTES;
        let (one, two) = (1 + STEP_BYTES, far + 3);
        assert_eq!(steps(1..two).collect::<Vec<_>>(), [1..one, one..far, far..two]);
        assert_eq!(steps(u64::MAX - 1..u64::MAX).count(), 1);
    }

    #[test]
    fn parts_beyond_the_end_do_no_harm() {
        let parts = vec![7..9, 9..9, 1 << 40..(1 << 40) + 1];
        let mut readahead = Readahead::of_parts(file_of(8), parts);
        readahead.thread.take().unwrap().join().unwrap();
    }
}
