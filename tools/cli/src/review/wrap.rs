//! Text in lines of a terminal.

use console::measure_text_width;

/// Columns of a screen.
pub(super) const COLUMNS: usize = 80;

/// Breaks a text at its spaces into lines of at most `columns` columns; a wider word is broken.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut used) = (String::new(), 0);
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        for piece in pieces(word, columns) {
            let width = measure_text_width(&piece);
            if used > 0 && used + 1 + width > columns {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.push_str(&piece);
            used += width;
        }
    }
    lines.push(line);
    lines
}

/// A word in pieces that fit.
fn pieces(word: &str, columns: usize) -> Vec<String> {
    if measure_text_width(word) <= columns {
        return vec![word.to_owned()];
    }
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for character in word.chars() {
        let width = measure_text_width(character.encode_utf8(&mut [0; 4]));
        if used + width > columns {
            pieces.push(String::new());
            used = 0;
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(character);
        }
        used += width;
    }
    pieces
}

/// Keeps the first `most` lines; the last one then says how much is hidden.
pub(super) fn cut(mut lines: Vec<String>, most: usize, columns: usize) -> Vec<String> {
    if lines.len() <= most || most == 0 {
        lines.truncate(most);
        return lines;
    }
    let mut hidden: usize = lines[most..].iter().map(|line| line.chars().count() + 1).sum();
    lines.truncate(most);
    if let Some(last) = lines.last_mut() {
        // The count may get one digit longer while the line gets shorter.
        while measure_text_width(last) + measure_text_width(&more(hidden + 9)) > columns {
            if last.pop().is_none() {
                break;
            }
            hidden += 1;
        }
        let kept = last.trim_end().to_owned();
        *last = kept + &more(hidden);
    }
    lines
}

fn more(hidden: usize) -> String {
    format!("… ({hidden} more characters: v)")
}

/// One line of at most a screen's columns.
pub(super) fn line(text: &str) -> String {
    let mut line = text.to_owned();
    if measure_text_width(&line) <= COLUMNS {
        return line;
    }
    while measure_text_width(&line) >= COLUMNS {
        line.pop();
    }
    line.trim_end().to_owned() + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_wide_as_allowed() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrap("", 5), [""]);
        // Such characters take two columns each.
        assert_eq!(wrap("水水水水", 5), ["水水", "水水"]);
    }

    #[test]
    fn what_is_cut_is_counted() {
        let text = "word ".repeat(30);
        let all = wrap(&text, 40);
        let shown = cut(all.clone(), 2, 40);
        assert_eq!(shown.len(), 2);
        assert!(shown.iter().all(|line| measure_text_width(line) <= 40), "{shown:?}");
        let (kept, said) = shown[1].split_once("… (").unwrap();
        let hidden: usize = said.split(' ').next().unwrap().parse().unwrap();
        let told = shown[0].len() + 1 + kept.len() + hidden;
        assert!(told.abs_diff(text.len()) <= 2, "{told} of {}", text.len());
        assert_eq!(cut(all.clone(), 9, 40), all);
    }

    #[test]
    fn a_line_stays_one() {
        assert_eq!(measure_text_width(&line(&"水".repeat(60))), 79);
        assert_eq!(line("short"), "short");
    }
}
