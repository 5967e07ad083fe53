//! `figures`: writes the stored measurements into README.md, docs and docs/plots.
//!
//! A block between two marks of a page belongs to one file of results. What stands in it is data
//! ([`pages`], [`performance`]): tables, whose columns are templates over the fields of a stored line.

mod pages;
mod performance;
mod plots;
mod rows;
mod table;

use std::path::Path;

use serde_json::Value;

use self::table::Block;
use crate::results;

/// Rewrites all blocks and plots.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    for (path, text) in rendered(root)? {
        let path = root.join(path);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn blocks() -> impl DoubleEndedIterator<Item = &'static Block> {
    pages::BLOCKS.iter().chain(performance::BLOCKS)
}

/// Shows lines as the page that they belong to does.
pub(crate) fn shown(results: &str, lines: &[Value]) -> String {
    let block = blocks().rev().find(|block| block.results == results);
    block.map_or_else(String::new, |block| block.render(lines))
}

/// Returns the pages and plots as they should be.
fn rendered(root: &Path) -> Result<Vec<(String, String)>, String> {
    let mut files: Vec<(String, String)> = Vec::new();
    for block in blocks() {
        let lines = results::read(&root.join(block.results))?;
        let at = match files.iter().position(|(file, _)| file == block.file) {
            Some(at) => at,
            None => {
                let text = std::fs::read_to_string(root.join(block.file))
                    .map_err(|error| format!("{}: {error}", block.file))?;
                files.push((block.file.to_owned(), text));
                files.len() - 1
            }
        };
        files[at].1 = fill(&files[at].1, block.mark, &block.render(&lines))
            .ok_or_else(|| format!("{}: no place for {}", block.file, block.mark))?;
    }
    for (results, draw) in plots::DRAWINGS {
        let drawn = draw(&results::read(&root.join(results))?);
        files.extend(drawn.into_iter().map(|(name, svg)| (format!("docs/plots/{name}"), svg)));
    }
    Ok(files)
}

/// Puts a text where the marks are.
fn fill(text: &str, mark: &str, figures: &str) -> Option<String> {
    let begin = format!("<!-- {mark}: begin (cargo xtask figures) -->\n");
    let end = format!("<!-- {mark}: end -->");
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some([before, &begin, figures, &end, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_replace_figures() {
        let (begin, end) = ("<!-- m: begin (cargo xtask figures) -->\n", "<!-- m: end -->");
        let text = format!("a\n{begin}old\n{end}\nb");
        let once = fill(&text, "m", "new\n").unwrap();
        assert_eq!(once, format!("a\n{begin}new\n{end}\nb"));
        assert_eq!(fill(&once, "m", "new\n").unwrap(), once);
        assert!(fill(&text, "other", "new").is_none());
    }

    /// Every figure of the pages is one of a stored result.
    #[test]
    fn pages_and_plots_show_what_is_stored() {
        let root = crate::root();
        for (file, expected) in rendered(&root).unwrap() {
            let found = std::fs::read_to_string(root.join(&file)).unwrap_or_default();
            assert!(found == expected, "{file} is old: run cargo xtask figures");
        }
    }
}
