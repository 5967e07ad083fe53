//! Files: sizes, and words that have no place in any of them.

use std::path::Path;
use std::process::Command;

use super::breach::Breach;

const FILE_BYTES_MAX: u64 = 2 << 20;

/// Lists the files of git, and those it neither tracks nor ignores.
pub(super) fn tracked(root: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let names = String::from_utf8_lossy(&output.stdout);
    Ok(names.split('\0').filter(|name| root.join(name).is_file()).map(str::to_owned).collect())
}

pub(super) fn check(root: &Path, file: &str) -> Vec<Breach> {
    let path = root.join(file);
    let mut breaches = Vec::new();
    let bytes = path.metadata().map_or(0, |meta| meta.len());
    if bytes > FILE_BYTES_MAX {
        breaches
            .push(Breach::new(file, format!("{bytes} bytes; keep files under {FILE_BYTES_MAX}")));
    }
    // Memories may speak of anything.
    if file.ends_with(".jsonl") {
        return breaches;
    }
    let Ok(text) = std::fs::read_to_string(&path) else { return breaches };
    // Split so that this file does not find itself.
    let banned = [
        (concat!("/ro", "ot/"), "no machine paths"),
        (concat!("/ho", "me/"), "no machine paths"),
        (concat!("/wo", "rk/"), "no machine paths"),
        (concat!("TO", "DO"), "finish it, or describe it in an issue"),
        (concat!("FIX", "ME"), "mend it, or describe it in an issue"),
    ];
    for (number, line) in text.lines().enumerate() {
        for (word, advice) in banned {
            if stands_open(line, word) {
                breaches.push(Breach::new(
                    format!("{file}:{}", number + 1),
                    format!("{word}: {advice}"),
                ));
            }
        }
    }
    breaches
}

/// Tells whether a line holds a word that does not begin a quoted text: tests quote what people write.
fn stands_open(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with('"'))
}

#[cfg(test)]
mod tests {
    use super::stands_open;

    #[test]
    fn quoted_words_are_texts() {
        assert!(stands_open("// LATER: x", "LATER"));
        assert!(stands_open("f(\"LATER\"); // LATER", "LATER"));
        assert!(!stands_open("(\"LATER: x\", \"y\")", "LATER"));
    }
}
