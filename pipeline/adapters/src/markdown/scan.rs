//! The blocks of a Markdown text: pieces that together are the text, byte for byte.
//!
//! A scanner of lines, not a parser of CommonMark: the point is where a memory begins and ends. It differs from
//! CommonMark on purpose where agents write otherwise: bullets may be any usual sign, a number of any value begins an
//! item, items nest from two columns on, and a sentence that ends with a colon belongs to the code fence below it.

use serde::{Deserialize, Serialize};

/// Begins an ignored part, as a line of its own; within a bullet or a paragraph it is about that one alone.
pub(super) const IGNORE: &str = "<!-- memfold:ignore -->";
/// Ends an ignored part. Without it nothing is read to the end of the file.
pub(super) const IGNORE_END: &str = "<!-- /memfold:ignore -->";

const BULLETS: [char; 12] = ['-', '*', '+', '•', '‣', '◦', '▪', '●', '⁃', '–', '—', '·'];
/// Digits of a number that begins an item.
const NUMBER_DIGITS_MAX: usize = 9;
/// The number of columns from which on a line belongs to the item above it.
const NESTED_COLUMNS: usize = 2;
/// From here on an indented line is code.
const CODE_COLUMNS: usize = 4;
/// The level of a sentence or of bold words above a list: below every heading.
const LABEL_LEVEL: u8 = 7;

/// A part of a text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub(super) kind: Kind,
    /// The bytes as written, with their line ends.
    pub(super) text: String,
}

/// The kind of a piece. Of a piece that was taken out it is kept without the memory, which is a record of its own then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Memory(#[serde(skip)] Memory),
    /// An item of an index that leads to a file.
    Link {
        target: String,
    },
    Heading {
        level: u8,
    },
    /// Blank lines, or the separator of two blocks.
    Gap,
    /// Never a memory: fences, comments, lines, heads of tables, ignored text.
    Other,
}

/// A memory of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// The text without its bullet, its indentation and its line ends.
    pub(super) text: String,
    /// The titles above it, the outermost first.
    pub(super) section: Vec<String>,
    pub(super) form: Form,
}

/// How a memory is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Form {
    /// A bullet or a number, behind so many bytes; further lines are indented by so many columns.
    Item { prefix: usize, columns: usize },
    #[default]
    Paragraph,
    /// A row of a table.
    Row,
    /// Between separators.
    Block,
}

/// The sign that begins an item.
#[derive(Debug, Clone, Copy)]
struct Marker {
    /// The column of the sign.
    indent: usize,
    /// The column of the text behind it.
    columns: usize,
    /// The bytes before that text.
    bytes: usize,
}

/// A code fence.
#[derive(Debug, Clone, Copy)]
struct Fence {
    sign: char,
    length: usize,
}

/// Splits a text into its pieces. `separator`: the line between its blocks, where that is known.
pub(super) fn scan(text: &str, separator: Option<&str>) -> Vec<Piece> {
    let mut scanner = Scanner::default();
    let mut rest = text;
    if let Some(behind) = text.strip_prefix('\u{feff}') {
        scanner.push(Kind::Other, "\u{feff}");
        rest = behind;
    }
    let front = front_matter(rest).map_or(0, |(bytes, _)| bytes);
    if front > 0 {
        scanner.push(Kind::Other, &rest[..front]);
    }
    scanner.lines = rest[front..].split_inclusive('\n').collect();
    match separator.or_else(|| scanner.separator()) {
        Some(separator) => scanner.blocks(separator),
        None => scanner.sections(),
    }
    scanner.pieces
}

/// Returns the bytes of the front matter with its marks, and the text between them.
pub(super) fn front_matter(text: &str) -> Option<(usize, &str)> {
    let text_start = text.len() - text.strip_prefix('\u{feff}').unwrap_or(text).len();
    let mut lines = text[text_start..].split_inclusive('\n');
    let first = lines.next().filter(|line| line.trim_end() == "---")?;
    let start = text_start + first.len();
    let mut end = start;
    let mut has_key = false;
    for line in lines {
        let body = line.trim_end();
        if body == "---" || body == "..." {
            return has_key.then_some((end + line.len(), &text[start..end]));
        }
        let is_key = body.split_once(':').is_some_and(|(key, _)| {
            !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-. \"'".contains(c))
        });
        if !(is_key || body.is_empty() || body.starts_with([' ', '\t', '#', '-'])) {
            return None;
        }
        has_key |= is_key;
        end += line.len();
    }
    None
}

#[derive(Default)]
struct Scanner<'a> {
    lines: Vec<&'a str>,
    at: usize,
    pieces: Vec<Piece>,
    headings: Vec<(u8, String)>,
}

impl Scanner<'_> {
    fn push(&mut self, kind: Kind, text: &str) {
        match self.pieces.last_mut() {
            Some(last) if kind == Kind::Gap && last.kind == Kind::Gap => last.text.push_str(text),
            _ if text.is_empty() => {}
            _ => self.pieces.push(Piece { kind, text: text.to_owned() }),
        }
    }

    /// Pushes the lines up to `end`.
    fn take(&mut self, kind: Kind, end: usize) {
        let text = self.lines[self.at..end].concat();
        self.at = end;
        self.push(kind, &text);
    }

    /// Returns the separator of the blocks of the file, where it consists of blocks.
    fn separator(&self) -> Option<&'static str> {
        let body = |at: usize| self.lines.get(at).map_or("", |line| line.trim());
        if self.lines.iter().any(|line| line.trim() == "§") {
            return Some("§");
        }
        let mut count = 0;
        for (at, line) in self.lines.iter().enumerate() {
            if heading(line).is_some() || is_underline(line, '=') {
                return None;
            }
            if line.trim_end() == "---" {
                let is_underline = at > 0 && !body(at - 1).is_empty() && body(at + 1).is_empty();
                if is_underline && at + 1 < self.lines.len() {
                    return None;
                }
                count += 1;
            }
        }
        (count > 0).then_some("---")
    }

    fn blocks(&mut self, separator: &str) {
        let mut block = String::new();
        for line in std::mem::take(&mut self.lines) {
            if line.trim() == separator {
                self.block(&std::mem::take(&mut block));
                self.push(Kind::Gap, line);
            } else {
                block.push_str(line);
            }
        }
        self.block(&block);
    }

    fn block(&mut self, block: &str) {
        let text = block.trim();
        let start = block.len() - block.trim_start().len();
        let (before, behind) = (&block[..start], &block[start + text.len()..]);
        self.push(Kind::Gap, before);
        let plain = text.replace("\r\n", "\n");
        self.push(self.kind_of(plain, Form::Block), text);
        self.push(Kind::Gap, behind);
    }

    fn sections(&mut self) {
        while self.at < self.lines.len() {
            let line = self.lines[self.at];
            let body = line.trim();
            if body.is_empty() {
                let end = self.first(self.at, |line| !line.trim().is_empty());
                self.take(Kind::Gap, end);
            } else if body == IGNORE {
                let end = self.first(self.at, |line| line.trim() == IGNORE_END);
                self.take(Kind::Other, (end + 1).min(self.lines.len()));
            } else if body.starts_with("<!--") {
                let end = self.first(self.at, |line| line.contains("-->"));
                self.take(Kind::Other, (end + 1).min(self.lines.len()));
            } else if let Some(fence) = fence(body) {
                let end = self.fence_end(self.at + 1, fence);
                self.take(Kind::Other, end);
            } else if let Some((level, title)) = heading(line) {
                self.heading(level, title, self.at + 1);
            } else if is_rule(body) {
                self.take(Kind::Other, self.at + 1);
            } else if self.is_table(self.at) {
                self.table();
            } else if let Some(marker) = marker(line) {
                self.item(marker);
            } else if indent(line) >= CODE_COLUMNS {
                let end = self.first(self.at, |line| indent(line) < CODE_COLUMNS);
                self.take(Kind::Other, end);
            } else if is_markup(body) {
                self.take(Kind::Other, self.at + 1);
            } else {
                self.paragraph();
            }
        }
    }

    /// Returns the first line from `from` on that is so, or the end.
    fn first(&self, from: usize, is_so: impl Fn(&str) -> bool) -> usize {
        let found = self.lines[from..].iter().position(|line| is_so(line));
        found.map_or(self.lines.len(), |at| from + at)
    }

    /// Returns the line behind the end of a fence.
    fn fence_end(&self, from: usize, fence: Fence) -> usize {
        (self.first(from, |line| fence.is_closed_by(line.trim())) + 1).min(self.lines.len())
    }

    fn heading(&mut self, level: u8, title: String, end: usize) {
        self.headings.retain(|(above, _)| *above < level);
        self.headings.push((level, title));
        self.take(Kind::Heading { level }, end);
    }

    fn is_table(&self, at: usize) -> bool {
        let below = self.lines.get(at + 1).map_or("", |line| line.trim());
        self.lines[at].contains('|')
            && below.contains('-')
            && below.contains('|')
            && below.chars().all(|c| "|:- \t".contains(c))
    }

    fn table(&mut self) {
        let names = cells(self.lines[self.at]);
        self.take(Kind::Other, self.at + 2);
        while let Some(line) = self.lines.get(self.at).filter(|line| line.contains('|')) {
            let named = cells(line).into_iter().enumerate().filter(|(_, cell)| !cell.is_empty());
            let said: Vec<String> = named
                .map(|(at, cell)| match names.get(at).filter(|name| !name.is_empty()) {
                    Some(name) => format!("{name}: {cell}"),
                    None => cell,
                })
                .collect();
            let target = cells(line).iter().find_map(|cell| link_target(cell));
            let kind = match target {
                Some(target) => Kind::Link { target },
                None => self.kind_of(said.join("; "), Form::Row),
            };
            self.take(kind, self.at + 1);
        }
    }

    fn item(&mut self, marker: Marker) {
        let end = self.item_end(marker);
        let mut said = String::new();
        for (at, line) in self.lines[self.at..end].iter().enumerate() {
            let body = line.trim_end();
            match at {
                0 => said.push_str(body.get(marker.bytes..).unwrap_or_default()),
                _ => said.push_str(outdented(body, marker.columns)),
            }
            said.push('\n');
        }
        let form = Form::Item { prefix: marker.bytes, columns: marker.columns };
        let kind = self.kind_of(said.trim().to_owned(), form);
        self.take(kind, end);
    }

    /// Returns the line behind an item: its further lines, and everything that is nested in it.
    fn item_end(&self, marker: Marker) -> usize {
        let first = self.lines[self.at];
        let mut open = first.get(marker.bytes..).and_then(|rest| fence(rest.trim()));
        let mut is_outside = false;
        let (mut end, mut at) = (self.at + 1, self.at + 1);
        while let Some(line) = self.lines.get(at) {
            let body = line.trim();
            let is_nested = indent(line) >= marker.indent + NESTED_COLUMNS;
            if let Some(fence) = open {
                if !is_outside && !body.is_empty() && indent(line) <= marker.indent {
                    break;
                }
                open = Some(fence).filter(|fence| !fence.is_closed_by(body));
            } else if body.is_empty() {
                let next = self.first(at, |line| !line.trim().is_empty());
                let is_below = |line: &&str| indent(line) >= marker.indent + NESTED_COLUMNS;
                if !self.lines.get(next).is_some_and(is_below) {
                    break;
                }
                at = next;
                continue;
            } else if is_nested {
                open = fence(body);
            } else if let Some(fence) = fence(body) {
                // A sentence that ends with a colon announces the fence.
                if at != end || !self.lines[at - 1].trim_end().ends_with(':') {
                    break;
                }
                (open, is_outside) = (Some(fence), true);
            } else if at != end || is_outside || self.begins(at) {
                break;
            }
            at += 1;
            end = at;
        }
        end
    }

    /// Tells whether a line begins something that ends a paragraph.
    fn begins(&self, at: usize) -> bool {
        let line = self.lines[at];
        let body = line.trim();
        body.starts_with("<!--")
            || fence(body).is_some()
            || heading(line).is_some()
            || is_rule(body)
            || marker(line).is_some()
            || self.is_table(at)
    }

    fn paragraph(&mut self) {
        let start = self.at;
        let mut end = start + 1;
        while let Some(line) = self.lines.get(end).filter(|line| !line.trim().is_empty()) {
            let level =
                [('=', 1), ('-', 2)].into_iter().find(|(sign, _)| is_underline(line, *sign));
            if let Some((_, level)) = level {
                let title = title_of(&self.lines[start..end].concat().replace(['\r', '\n'], " "));
                return self.heading(level, title, end + 1);
            }
            if self.begins(end) {
                break;
            }
            end += 1;
        }
        let mut said = plain(&self.lines[start..end]);
        let next = self.first(end, |line| !line.trim().is_empty());
        let follows = self.lines.get(next).map_or("", |line| line.trim());
        let announces = said.trim_end_matches(['*', '_']).ends_with([':', '：']);
        let last = self.lines[end - 1].trim();
        let is_bold = last.len() > 4 && last.starts_with("**") && last.ends_with("**");
        let is_list = next < self.lines.len()
            && (marker(self.lines[next]).is_some() || self.is_table(next))
            && !is_rule(follows);
        if is_list && (announces || is_bold) {
            if end == start + 1 || !last.starts_with("**") {
                let title = said.replace('\n', " ");
                return self.heading(LABEL_LEVEL, title_of(&title), end);
            }
            // Bold words on a line of their own are not part of the text above them.
            end -= 1;
            said = plain(&self.lines[start..end]);
        }
        let announces = announces && self.lines[end - 1].trim() == last;
        self.headings.retain(|(level, _)| *level < LABEL_LEVEL);
        if let Some(fence) = fence(follows).filter(|_| announces) {
            end = self.fence_end(next + 1, fence);
            said = plain(&self.lines[start..end]);
        }
        let kind = self.kind_of(said, Form::Paragraph);
        self.take(kind, end);
    }

    fn kind_of(&self, text: String, form: Form) -> Kind {
        let is_import = text.starts_with('@') && !text.contains(char::is_whitespace);
        if text.is_empty() || text.contains(IGNORE) || is_import {
            return Kind::Other;
        }
        if let Some(target) = link_target(&text).filter(|_| form != Form::Block) {
            return Kind::Link { target };
        }
        let section = self.headings.iter().map(|(_, title)| title.clone());
        let section = section.filter(|title| !title.is_empty()).collect();
        Kind::Memory(Memory { text, section, form })
    }
}

impl Fence {
    fn is_closed_by(self, body: &str) -> bool {
        body.len() >= self.length && body.chars().all(|c| c == self.sign)
    }
}

/// Reads the first line of a fence.
fn fence(body: &str) -> Option<Fence> {
    let sign = body.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
    let length = body.chars().take_while(|c| *c == sign).count();
    let is_code_span = sign == '`' && body[length..].contains('`');
    (length >= 3 && !is_code_span).then_some(Fence { sign, length })
}

/// Reads a heading that begins with `#`.
fn heading(line: &str) -> Option<(u8, String)> {
    let body = line.trim();
    let level = body.bytes().take_while(|byte| *byte == b'#').count();
    let rest = &body[level..];
    let is_heading = (1..=6).contains(&level)
        && indent(line) < CODE_COLUMNS
        && (rest.is_empty() || rest.starts_with([' ', '\t']));
    let title = rest.trim().trim_end_matches('#');
    is_heading.then(|| (level as u8, title_of(title)))
}

/// Returns a title without emphasis.
fn title_of(text: &str) -> String {
    text.trim()
        .trim_end_matches([':', '：', '*', '_', ' '])
        .trim_start_matches(['*', '_', ' '])
        .to_owned()
}

/// Tells whether a line makes a heading of the text above it.
fn is_underline(line: &str, sign: char) -> bool {
    let body = line.trim();
    let length_min = if sign == '=' { 1 } else { 2 };
    body.len() >= length_min && indent(line) < CODE_COLUMNS && body.chars().all(|c| c == sign)
}

/// Tells whether a line is a thematic break.
fn is_rule(body: &str) -> bool {
    let Some(sign) = body.chars().next().filter(|sign| "-*_".contains(*sign)) else { return false };
    let signs = body.chars().filter(|c| !c.is_whitespace());
    signs.clone().all(|c| c == sign) && signs.count() >= 3
}

/// Tells whether a line is a tag, an image or the definition of a link.
fn is_markup(body: &str) -> bool {
    let is_tag = body.starts_with('<') && body.ends_with('>') && !body.contains("://");
    let is_image = body.starts_with("![") && body.ends_with(')');
    let is_definition = body.starts_with('[') && body.contains("]: ");
    is_tag || is_image || is_definition
}

/// Returns the column of the first sign of a line; a tab goes to the next multiple of four.
fn indent(line: &str) -> usize {
    columns(line.chars().take_while(|c| matches!(c, ' ' | '\t')))
}

fn columns(signs: impl Iterator<Item = char>) -> usize {
    signs.fold(0, |column, sign| if sign == '\t' { (column / 4 + 1) * 4 } else { column + 1 })
}

/// Returns a line without up to so many columns of indentation.
fn outdented(line: &str, columns_max: usize) -> &str {
    let mut column = 0;
    for (at, sign) in line.char_indices() {
        let next = if sign == '\t' { (column / 4 + 1) * 4 } else { column + 1 };
        if !matches!(sign, ' ' | '\t') || next > columns_max {
            return &line[at..];
        }
        column = next;
    }
    ""
}

/// Reads the sign of an item.
fn marker(line: &str) -> Option<Marker> {
    let line = line.trim_end_matches(['\r', '\n']);
    let body = line.trim_start_matches([' ', '\t']);
    let before = line.len() - body.len();
    let digits = body.bytes().take_while(u8::is_ascii_digit).count();
    let sign = match body.chars().next()? {
        sign if BULLETS.contains(&sign) => sign.len_utf8(),
        _ if (1..=NUMBER_DIGITS_MAX).contains(&digits)
            && body[digits..].starts_with(['.', ')']) =>
        {
            digits + 1
        }
        _ => return None,
    };
    let rest = &body[sign..];
    let is_marker = rest.trim().is_empty() || rest.starts_with([' ', '\t']);
    if !is_marker || is_rule(body.trim()) {
        return None;
    }
    let space = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    let space = if rest[..space].starts_with(' ') && space > CODE_COLUMNS { 1 } else { space };
    let bytes = before + sign + space;
    let all = line[..bytes].chars();
    Some(Marker { indent: indent(line), columns: columns(all), bytes })
}

/// Returns the cells of a row of a table.
fn cells(line: &str) -> Vec<String> {
    let body = line.trim().replace("\\|", "\u{1}");
    let body = body.strip_prefix('|').unwrap_or(&body);
    let body = body.strip_suffix('|').unwrap_or(body);
    body.split('|').map(|cell| cell.trim().replace('\u{1}', "\\|")).collect()
}

/// Returns the file that a text leads to: where it begins with a link to one (`[title](file.md)`, `[[file]]`,
/// `` `file.md` ``), and only a description behind a dash, a colon or the like follows. `` `a.md` is old`` is a memory.
fn link_target(text: &str) -> Option<String> {
    const EMPHASIS: [char; 2] = ['*', '_'];
    const SEPARATORS: [char; 11] = ['\n', '—', '–', '-', ':', '|', '(', ',', '·', '→', '='];
    let text = text.trim_start_matches(EMPHASIS);
    let (target, rest) = match ["[[", "`"].into_iter().find(|open| text.starts_with(open)) {
        Some("[[") => text[2..].split_once("]]")?,
        Some(_) => text[1..].split_once('`')?,
        None => text.strip_prefix('[')?.split_once("](")?.1.split_once(')')?,
    };
    let rest = rest.trim_start_matches(EMPHASIS).trim_start_matches([' ', '\t']);
    if !(rest.is_empty() || rest.starts_with(SEPARATORS)) {
        return None;
    }
    let target = target.split('#').next().unwrap_or_default();
    let is_named = |name: &str| name.to_ascii_lowercase().ends_with(".md");
    if text.starts_with("[[") {
        let name = target.split('|').next().unwrap_or_default().trim();
        return Some(if is_named(name) { name.to_owned() } else { format!("{name}.md") });
    }
    let target = target.trim().trim_matches(['<', '>']).trim_start_matches("./");
    let is_file =
        is_named(target) && !target.contains("://") && !target.contains(char::is_whitespace);
    is_file.then(|| target.to_owned())
}

/// Returns lines without their ends and the indentation of the first one.
fn plain(lines: &[&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SNIPPETS: &str = include_str!("../../../../tests/data/markdown/snippets.txt");

    fn shown(text: &str) -> Vec<String> {
        let memory = |piece: Piece| match piece.kind {
            Kind::Memory(memory) => {
                let section = memory.section.join("/");
                let section = if section.is_empty() { "-" } else { &section };
                Some(format!("{section} | {}", memory.text.replace('\n', "⏎")))
            }
            _ => None,
        };
        scan(text, None).into_iter().filter_map(memory).collect()
    }

    /// Short texts, each with the memories that a person finds in it.
    #[test]
    fn every_snippet_has_the_memories_that_a_person_finds() {
        let mut count = 0;
        let mut wrong = String::new();
        for snippet in SNIPPETS.split("%% ").skip(1).collect::<Vec<_>>().chunks(2) {
            let (name, text) = snippet[0].split_once('\n').unwrap();
            let expected: Vec<&str> = snippet[1].lines().skip(1).collect();
            let variants = [text.to_owned(), text.replace('\n', "\r\n"), format!("\u{feff}{text}")];
            for text in variants.iter().chain([&text.trim_end().to_owned()]) {
                let found = shown(text);
                if found != expected {
                    wrong += &format!("{name}\n  found    {found:#?}\n  expected {expected:#?}\n");
                }
            }
            count += 1;
        }
        assert!(wrong.is_empty(), "{wrong}");
        assert_eq!(count, 35);
    }

    #[test]
    fn links_of_an_index_name_their_files() {
        let target = |text: &str| link_target(text).unwrap_or_default();
        assert_eq!(target("[User role](./user_role.md#top) — data scientist"), "user_role.md");
        assert_eq!(target("**[Testing](feedback/testing.md)**: no mocks"), "feedback/testing.md");
        assert_eq!(target("[[architecture|how it is built]]"), "architecture.md");
        assert_eq!(target("`debugging.md` - leaks"), "debugging.md");
        assert_eq!(target("[a](a.md), [b](b.md)"), "a.md");
        assert_eq!(target("[a](a.md)\nhow it is built"), "a.md");
        for none in ["[a](https://x.org/a.md)", "see [a](a.md)", "[x] done", "`a b.md`", "[a](b"] {
            assert_eq!(target(none), "", "{none}");
        }
        for memory in [
            "`debugging.md` leaks",
            "`a.md` と `b.md` を修正済み",
            "[Setup](setup.md) moved to the wiki",
            "[[architecture]] is out of date",
        ] {
            assert_eq!(target(memory), "", "{memory}");
        }
    }

    fn line() -> impl Strategy<Value = String> {
        let known = "# A¶## B¶- a¶  - b¶* c¶1. d¶\t- e¶text¶text:¶```¶~~~~¶---¶===¶¶¶§¶| a | b |¶|---|---|¶<!-- x¶-->¶- [l](l.md)¶    code¶**Bold**¶> q¶• ü¶key: value¶@import¶-¶\u{feff}";
        let known = known.split('¶').chain([IGNORE, IGNORE_END]).collect::<Vec<_>>();
        let known = prop::sample::select(known);
        prop_oneof![4 => known.prop_map(str::to_owned), 1 => any::<String>()]
    }

    proptest! {
        /// Nothing is lost and nothing added, whatever the text.
        #[test]
        fn pieces_are_the_text(
            lines in prop::collection::vec((line(), prop::sample::select(vec!["\n", "\r\n", "\n\n", ""])), 0..30),
        ) {
            let text: String = lines.iter().flat_map(|(line, end)| [line.as_str(), end]).collect();
            let pieces = scan(&text, None);
            let together: String = pieces.iter().map(|piece| piece.text.as_str()).collect();
            prop_assert_eq!(together, text);
            prop_assert!(pieces.iter().all(|piece| !piece.text.is_empty()));
        }
    }
}
