//! Cuts a text into pieces: words, shapes (numbers, paths, ids …), commas and breaks.

use std::ops::Range;

use super::shape::{self, Shape};

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// Its bytes.
    pub(super) range: Range<usize>,
    /// What it is.
    pub(super) kind: PieceKind,
}

/// What a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceKind {
    /// A run of letters, apostrophes taken off.
    Word,
    /// The `n't` of a contraction.
    Not,
    /// Letters of a script without spaces or lexicon, or a symbol.
    Script,
    /// Something with a shape of its own.
    Shape(Shape),
    /// A comma, colon or bracket.
    Comma,
    /// The end of a sentence or line.
    Break,
    /// A double quotation mark.
    Quote,
    /// A backtick.
    Tick,
}

/// Cuts a text into pieces, in order. Linear in its length.
pub(super) fn scan(text: &str) -> Vec<Piece> {
    let mut scanner = Scanner { text, pieces: Vec::with_capacity(text.len() / 4 + 4) };
    let mut start = None;
    for (at, character) in text.char_indices() {
        match (character.is_whitespace(), start) {
            (true, Some(from)) => {
                scanner.chunk(from..at);
                start = None;
            }
            (false, None) => start = Some(at),
            _ => {}
        }
        if character == '\n' {
            scanner.push(at..at + 1, PieceKind::Break);
        }
    }
    if let Some(from) = start {
        scanner.chunk(from..text.len());
    }
    scanner.pieces
}

struct Scanner<'a> {
    text: &'a str,
    pieces: Vec<Piece>,
}

impl Scanner<'_> {
    fn push(&mut self, range: Range<usize>, kind: PieceKind) {
        self.pieces.push(Piece { range, kind });
    }

    /// Cuts what stands between white space.
    fn chunk(&mut self, range: Range<usize>) {
        let text = self.text;
        if text[range.clone()].bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return self.push(range, PieceKind::Word);
        }
        if is_operator(&text[range.clone()]) {
            return self.push(range, PieceKind::Script);
        }
        let start = self.opening(range.clone());
        let end = closing(text, start..range.end);
        let core = &text[start..end];
        let acronym = acronym(&text[start..range.end]);
        if acronym > core.len() {
            // The last point belongs to it: `the U.S. team`.
            self.push(start..end, PieceKind::Word);
            return self.marks(start + acronym..range.end);
        }
        if start < end {
            self.core(start..end);
        }
        self.marks(end..range.end);
    }

    /// Reads the marks before a word; returns where it starts.
    fn opening(&mut self, range: Range<usize>) -> usize {
        let mut start = range.start;
        let mut characters = self.text[range.clone()].chars().peekable();
        while let Some(character) = characters.next() {
            let next = characters.peek().copied().unwrap_or(' ');
            let kind = match character {
                '!' if next.is_alphabetic() => PieceKind::Not,
                '<' | '>' | '≤' | '≥'
                    if next.is_ascii_digit() || matches!(next, '=' | '-' | '$') =>
                {
                    PieceKind::Script
                }
                '(' | '[' | '{' => PieceKind::Comma,
                '"' | '“' | '”' | '„' | '«' | '»' => PieceKind::Quote,
                '`' => PieceKind::Tick,
                '\'' | '‘' | '’' | '<' | '*' | '|' | '>' | '…' | '=' | '—' | '–' | '•' =>
                {
                    start += character.len_utf8();
                    continue;
                }
                _ => break,
            };
            self.push(start..start + character.len_utf8(), kind);
            start += character.len_utf8();
        }
        start
    }

    /// Reads the marks behind a word.
    fn marks(&mut self, range: Range<usize>) {
        for (at, character) in self.text[range.clone()].char_indices() {
            self.mark(range.start + at, character);
        }
    }

    fn mark(&mut self, at: usize, character: char) {
        let kind = match character {
            '.' | '!' | '?' | ';' | '…' => PieceKind::Break,
            '。' | '！' | '？' | '；' | '।' | '؟' => PieceKind::Break,
            ',' | ':' | ')' | ']' | '}' => PieceKind::Comma,
            '、' | '，' | '：' | '（' | '）' | '【' | '】' | '،' | '؛' => PieceKind::Comma,
            '"' | '“' | '”' | '„' | '«' | '»' => PieceKind::Quote,
            '「' | '」' | '『' | '』' => PieceKind::Quote,
            '`' => PieceKind::Tick,
            _ => return,
        };
        self.push(at..at + character.len_utf8(), kind);
    }

    /// Cuts a chunk without its outer marks. Where a script has no spaces, its marks do what they would do:
    /// `端口：8080（2026-08-03）`.
    fn core(&mut self, range: Range<usize>) {
        let core = &self.text[range.clone()];
        if core.is_ascii() || core.contains("://") {
            return self.segment(range);
        }
        let mut from = range.start;
        for (at, character) in core.char_indices().filter(|(_, found)| is_foreign_mark(*found)) {
            let at = range.start + at;
            self.dated(from..at);
            from = at + character.len_utf8();
            self.marks(at..from);
        }
        self.dated(from..range.end);
    }

    /// Cuts out the dates that other scripts are glued to.
    fn dated(&mut self, range: Range<usize>) {
        let start = self.opening(range.clone());
        let end = closing(self.text, start..range.end);
        let mut from = start;
        while let Some(date) = shape::embedded_iso_date(&self.text[from..end]) {
            if date.start > 0 {
                self.segment(from..from + date.start);
            }
            let date = from + date.start..from + date.end;
            from = date.end;
            self.push(date, PieceKind::Shape(Shape::IsoDate));
        }
        if from < end {
            self.segment(from..end);
        }
        self.marks(end..range.end);
    }

    /// Cuts a part of a chunk at the marks inside.
    fn segment(&mut self, range: Range<usize>) {
        let core = &self.text[range.clone()];
        let acronym = acronym(core);
        if acronym > 0 {
            self.push(range.start..range.start + acronym, PieceKind::Word);
        } else if let Some(shape) = shape::of(core) {
            return self.push(range, PieceKind::Shape(shape));
        }
        // What a hyphen joins to an acronym is a word and not an option: `-led`.
        let joined = usize::from(acronym > 0 && core[acronym..].starts_with('-'));
        let range = range.start + acronym + joined..range.end;
        let core = &self.text[range.clone()];
        let mut from = range.start;
        for (at, character) in core.char_indices() {
            if !is_inner_separator(character) {
                continue;
            }
            let at = range.start + at;
            self.part(from..at);
            from = at + character.len_utf8();
            if matches!(character, '<' | '>') {
                self.push(at..from, PieceKind::Script);
            }
            self.marks(at..from);
        }
        self.part(from..range.end);
    }

    /// Reads a part between inner separators: a shape, a number with a word behind a hyphen, or words.
    fn part(&mut self, range: Range<usize>) {
        let part = &self.text[range.clone()];
        if part.is_empty() {
            return;
        }
        if let Some(shape) = shape::of(part) {
            return self.push(range, PieceKind::Shape(shape));
        }
        let mut from = range.start;
        for word in part.split('-') {
            let end = from + word.len();
            match shape::of(word) {
                Some(shape) => self.push(from..end, PieceKind::Shape(shape)),
                None => self.word(from..end),
            }
            from = end + 1;
        }
    }

    /// Reads words of one or several scripts.
    fn word(&mut self, range: Range<usize>) {
        let word = &self.text[range.clone()];
        let mut run: Option<(usize, Script)> = None;
        for (at, character) in word.char_indices() {
            let script = Script::of(character);
            match run {
                Some((from, known)) if script != known && !is_joiner(character) => {
                    self.run(range.start + from..range.start + at, known);
                    run = (script != Script::None).then_some((at, script));
                }
                None if script != Script::None => run = Some((at, script)),
                _ => {}
            }
            if script == Script::None {
                self.mark(range.start + at, character);
            }
        }
        if let Some((from, script)) = run {
            self.run(range.start + from..range.end, script);
        }
    }

    fn run(&mut self, mut range: Range<usize>, script: Script) {
        if script == Script::Other {
            return self.push(range, PieceKind::Script);
        }
        loop {
            let run = &self.text[range.clone()];
            let Some((at, mark)) = run.char_indices().find(|(_, found)| is_joiner(*found)) else {
                break;
            };
            let (middle, rest) = (range.start + at, range.start + at + mark.len_utf8());
            let tail = &self.text[rest..range.end];
            if run[..at].ends_with(['n', 'N']) && tail.eq_ignore_ascii_case("t") {
                self.word_piece(range.start..middle - 1);
                return self.push(middle - 1..range.end, PieceKind::Not);
            }
            self.word_piece(range.start..middle);
            if tail.eq_ignore_ascii_case("s") {
                return;
            }
            range.start = rest;
        }
        self.word_piece(range);
    }

    fn word_piece(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.push(range, PieceKind::Word);
        }
    }
}

/// Returns the length of the acronym with points that a chunk starts with (`U.S.`, `U.N.-led`), or 0.
fn acronym(chunk: &str) -> usize {
    let letters = chunk.as_bytes().chunks(2).take_while(|pair| {
        pair[0].is_ascii_uppercase() && pair.get(1).is_none_or(|mark| *mark == b'.')
    });
    let letters = letters.count();
    let length = (2 * letters).min(chunk.len());
    let ends = !chunk[length..].starts_with(char::is_alphanumeric);
    if letters >= 2 && ends { length } else { 0 }
}

/// Comparisons mean something where they stand alone.
fn is_operator(chunk: &str) -> bool {
    matches!(chunk, "<" | ">" | "<=" | ">=" | "==" | "!=" | "≤" | "≥" | "≠" | "=" | "≈")
}

/// Returns where a word ends and the marks behind it start.
fn closing(text: &str, range: Range<usize>) -> usize {
    let trimmed = text[range.clone()].trim_end_matches(|character| {
        matches!(
            character,
            '.' | ','
                | ';'
                | ':'
                | '!'
                | '?'
                | ')'
                | ']'
                | '}'
                | '>'
                | '"'
                | '“'
                | '”'
                | '«'
                | '»'
                | '\''
                | '’'
                | '‘'
                | '*'
                | '…'
                | '`'
                | '|'
                | '-'
                | '—'
                | '–'
                | '='
        )
    });
    range.start + trimmed.len()
}

const fn is_inner_separator(character: char) -> bool {
    matches!(
        character,
        ',' | ';'
            | ':'
            | '!'
            | '?'
            | '('
            | ')'
            | '['
            | ']'
            | '{'
            | '}'
            | '<'
            | '>'
            | '"'
            | '“'
            | '”'
            | '='
            | '|'
            | '…'
            | '—'
            | '–'
            | '/'
            | '&'
            | '*'
            | '`'
            | '.'
            | '\\'
            | '~'
            | '^'
            | '_'
    )
}

/// Marks outside ASCII that end what stands before them, whatever its shape.
const fn is_foreign_mark(character: char) -> bool {
    matches!(
        character,
        '—' | '…'
            | '“'
            | '”'
            | '「'
            | '」'
            | '『'
            | '』'
            | '。'
            | '！'
            | '？'
            | '；'
            | '：'
            | '，'
            | '、'
            | '（'
            | '）'
            | '【'
            | '】'
            | '《'
            | '》'
            | '।'
            | '؟'
            | '،'
            | '؛'
    )
}

const fn is_joiner(character: char) -> bool {
    matches!(character, '\'' | '’')
}

/// Which rules a letter is read by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script {
    /// Latin letters and digits.
    Latin,
    /// Other letters, symbols.
    Other,
    /// White space and punctuation.
    None,
}

impl Script {
    fn of(character: char) -> Self {
        match character {
            '0'..='9' | 'a'..='z' | 'A'..='Z' | 'À'..='ɏ' | '\u{300}'..='\u{36F}' | 'Ḁ'..='ỿ' => {
                if matches!(character, '×' | '÷') {
                    Self::None
                } else {
                    Self::Latin
                }
            }
            '+' | '%' | '#' | '$' | '@' => Self::Other,
            _ if character.is_ascii() => Self::None,
            '\u{80}'..='\u{A9}' | '\u{AB}'..='\u{B4}' | '\u{B6}'..='\u{BF}' => Self::None,
            '\u{2000}'..='\u{206F}' | '\u{3000}'..='\u{3004}' | '\u{3008}'..='\u{3020}' => {
                Self::None
            }
            '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FF01}'..='\u{FF0F}' => Self::None,
            '；' | '：' | '？' | '।' | '؟' | '،' | '・' => Self::None,
            _ if character.is_control() || character.is_whitespace() => Self::None,
            _ => Self::Other,
        }
    }
}
