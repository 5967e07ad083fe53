//! Names in the folder.

/// The index of a generation, a section file.
pub const INDEX_FILE: &str = "index.mfi";
/// The columns of a generation, an Arrow file.
pub const COLUMNS_FILE: &str = "columns.arrow";

/// What the rows of a store looked like when a run had searched them, a section file beside the generations.
pub const SEARCHED_FILE: &str = "searched.mfi";

pub(super) const MANIFEST: &str = "MANIFEST";
pub(super) const LOCK: &str = "LOCK";
/// Ends the names of what is still being written.
pub(super) const PENDING: &str = ".pending";

/// Longest name of a file.
pub(super) const NAME_BYTES_MAX: usize = 64;
/// Most files of a generation; two are usual.
pub(super) const FILES_MAX: usize = 100;

/// Names the folder of a generation.
pub(super) fn generation(number: u64) -> String {
    format!("gen-{number:06}")
}

/// Returns the number of a generation's folder, and whether it is still being written.
pub(super) fn parse_generation(name: &str) -> Option<(u64, bool)> {
    let (folder, pending) = match name.strip_suffix(PENDING) {
        Some(folder) => (folder, true),
        None => (name, false),
    };
    let number = folder.strip_prefix("gen-")?.parse().ok()?;
    (generation(number) == folder).then_some((number, pending))
}

/// Names a segment of fresh rows, counted from 1.
pub(super) fn fresh(number: u32) -> String {
    format!("fresh-{number:04}.mfi")
}

/// Tells whether a generation may hold a file of this name.
pub(super) fn is_file(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name.bytes().all(plain)
        && !name.starts_with('.')
        && !name.starts_with("fresh-")
        && !name.ends_with(PENDING)
        // Some file systems do not tell them apart.
        && !name.eq_ignore_ascii_case(LOCK)
}

/// Tells whether the folder of a generation may hold something of this name, finished or not.
pub(super) fn is_in_generation(name: &str) -> bool {
    let finished = name.strip_suffix(PENDING).unwrap_or(name);
    let number = finished.strip_prefix("fresh-").and_then(|rest| rest.strip_suffix(".mfi"));
    let is_fresh =
        number.and_then(|number| number.parse().ok()).is_some_and(|n| fresh(n) == finished);
    is_fresh || is_file(name) || name == LOCK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_have_one_name_each() {
        assert_eq!(generation(42), "gen-000042");
        for number in [1, 42, 999_999, 1_000_000, u64::MAX] {
            assert_eq!(parse_generation(&generation(number)), Some((number, false)));
            assert_eq!(parse_generation(&(generation(number) + PENDING)), Some((number, true)));
        }
        for name in ["gen-42", "gen-0000042", "gen-+00042", "gen-", "gen-00004x", "gen-000042.bak"]
        {
            assert_eq!(parse_generation(name), None, "{name}");
        }
    }

    #[test]
    fn files_have_plain_names() {
        assert!(is_file(INDEX_FILE) && is_file(COLUMNS_FILE) && is_file("A-b_9"));
        let long = "x".repeat(65);
        for name in [
            "",
            ".hidden",
            "a/b",
            "a b",
            "a\nb",
            "ä",
            "LOCK",
            "lock",
            "fresh-0001.mfi",
            "x.pending",
            &long,
        ] {
            assert!(!is_file(name), "{name}");
        }
    }

    #[test]
    fn folders_of_generations_hold_files_segments_and_a_lock() {
        for name in [INDEX_FILE, "LOCK", "fresh-0001.mfi", "fresh-0001.mfi.pending"] {
            assert!(is_in_generation(name), "{name}");
        }
        for name in [".git", "my notes.txt", "fresh-1.mfi", "fresh-.mfi", "x.pending"] {
            assert!(!is_in_generation(name), "{name}");
        }
    }
}
