//! The lexer: cuts a text into tokens, each with the keys and flags that the alignment compares.
//!
//! A run of characters without white space (a chunk) is either prose or one exact token: a path, a URL, an identifier.
//! Prose is cut into words, numbers and symbols; scripts without spaces into characters.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;

use crate::lexicon::{Lexicon, Marks};
use crate::stem::{WordKey, exact_key, word_key};

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A run of letters.
    Word,
    /// A run of digits with marks inside.
    Number,
    /// One sign, or an operator of several.
    Symbol,
    /// A character of a script without spaces.
    Script,
    /// An identifier of code, a version, a key, an id.
    Code,
    /// A path, a URL or an address.
    Locator,
    /// The start of a line that begins with blanks, or any line break of a text with indented
    /// lines.
    Indent,
}

/// Further properties of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags(u16);

impl Flags {
    /// No white space stands before it.
    pub(crate) const GLUED: Self = Self(1);
    /// The first word of a sentence.
    pub(crate) const INITIAL: Self = Self(1 << 1);
    /// Only the same characters are equal: quoted, code, an acronym, a single letter.
    pub(crate) const EXACT: Self = Self(1 << 2);
    /// Starts with a capital.
    pub(crate) const CAPITAL: Self = Self(1 << 3);
    /// A form of the past.
    pub(crate) const PAST: Self = Self(1 << 4);
    /// Its capital says nothing: the whole text is written like a headline.
    pub(crate) const TITLED: Self = Self(1 << 5);
    /// More than one capital.
    pub(crate) const ACRONYM: Self = Self(1 << 6);
    /// Made from a contraction or an abbreviation, or spelled another way than its key.
    pub(crate) const RESPELLED: Self = Self(1 << 7);
    /// Part of a quotation.
    pub(crate) const QUOTED: Self = Self(1 << 8);
    /// Starts something that is compared as a whole: a quantity, a compound, a list, a phrase.
    pub(crate) const STARTS: Self = Self(1 << 9);
    /// The `'s` of a possessor.
    pub(crate) const POSSESSIVE: Self = Self(1 << 10);

    pub(crate) const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    pub(crate) const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    const fn when(self, flag: Self, holds: bool) -> Self {
        if holds { self.with(flag) } else { self }
    }

    pub(crate) const fn set(&mut self, flag: Self) {
        self.0 |= flag.0;
    }
}

/// A token of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Where its lower-case form stands in [`Lexed::lower`].
    lower: (u32, u32),
    /// Key of the characters in NFC, with quotes, dashes and widths of one kind.
    pub(crate) exact: u64,
    /// Key of the lower-case word, in the spelling that the lexicon prefers.
    pub(crate) folded: u64,
    /// Key of the stem.
    pub(crate) stem: u64,
    /// Its entry in the lexicon, or 0.
    pub(crate) entry: u32,
    pub(crate) marks: Marks,
    pub(crate) kind: Kind,
    pub(crate) flags: Flags,
}

impl Token {
    pub(crate) const fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    pub(crate) const fn has(&self, flags: Flags) -> bool {
        self.flags.has(flags)
    }

    /// Tells whether grammar may be applied: a word in lower case, the first of a sentence, or one of a headline.
    pub(crate) fn is_ordinary(&self) -> bool {
        let free = !self.has(Flags::CAPITAL) || self.has(Flags::INITIAL.with(Flags::TITLED));
        self.kind == Kind::Word && !self.has(Flags::EXACT) && free
    }

    /// Tells whether it is written like a name.
    pub(crate) fn is_name(&self) -> bool {
        self.kind == Kind::Word
            && (self.has(Flags::ACRONYM)
                || self.has(Flags::CAPITAL) && !self.has(Flags::INITIAL.with(Flags::TITLED)))
    }
}

/// The tokens of a text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lexed {
    pub(crate) tokens: Vec<Token>,
    lower: String,
    /// A line begins with blanks, or there is a fenced block: white space is compared.
    pub(crate) indented: bool,
}

impl Lexed {
    /// Returns the lower-case form of a token, in the spelling of the text.
    pub(crate) fn lower(&self, at: usize) -> &str {
        let (start, end) = self.tokens[at].lower;
        &self.lower[start as usize..end as usize]
    }

    /// Tells whether a token is a symbol or a word that reads so.
    pub(crate) fn is(&self, at: usize, form: &str) -> bool {
        at < self.tokens.len() && self.lower(at) == form
    }

    /// Tells whether a token ends a sentence.
    pub(crate) fn ends_sentence(&self, at: usize) -> bool {
        self.tokens[at].kind == Kind::Symbol && matches!(self.lower(at), "." | "!" | "?" | "…")
    }
}

/// Cuts a text into tokens. Linear in its length.
pub(crate) fn lex(text: &str, lexicon: &Lexicon) -> Lexed {
    let indented = is_indented(text);
    let lexed = Lexed {
        tokens: Vec::with_capacity(text.len() / 4 + 1),
        lower: String::with_capacity(text.len()),
        indented,
    };
    let mut lexer = Lexer {
        text,
        lexicon,
        lexed,
        initial: true,
        glued: false,
        quoted: None,
        buffer: String::new(),
    };
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let blanks = rest.len() - rest.trim_start().len();
        if blanks > 0 {
            lexer.blank(at, blanks);
            at += blanks;
            continue;
        }
        let end = at + rest.find(char::is_whitespace).unwrap_or(rest.len());
        lexer.chunk(at, end);
        at = end;
    }
    lexer.finish()
}

/// Tells whether white space carries meaning: a line begins with blanks below another line, or a block is fenced.
fn is_indented(text: &str) -> bool {
    crate::text::keeps_white_space(text)
}

struct Lexer<'a> {
    text: &'a str,
    lexicon: &'a Lexicon,
    lexed: Lexed,
    initial: bool,
    glued: bool,
    quoted: Option<char>,
    buffer: String,
}

impl Lexer<'_> {
    fn finish(mut self) -> Lexed {
        if is_headline(&self.lexed) {
            self.lexed.tokens.iter_mut().for_each(|token| token.flags.set(Flags::TITLED));
        }
        self.lexed
    }

    fn blank(&mut self, at: usize, length: usize) {
        let blank = &self.text[at..at + length];
        if let Some(line) = blank.rfind('\n') {
            self.initial = true;
            if self.lexed.indented && at + length < self.text.len() {
                self.push(Kind::Indent, at + line..at + length, Flags::default());
            }
            self.quoted = self.quoted.filter(|mark| *mark == '`');
        }
        let ended = self.lexed.tokens.len().checked_sub(1);
        self.initial |= ended.is_some_and(|last| self.lexed.ends_sentence(last));
        self.glued = false;
    }

    /// Cuts a run of characters without white space.
    fn chunk(&mut self, start: usize, end: usize) {
        let mut from = start;
        // Marks around it.
        while from < end {
            let first = self.text[from..end].chars().next().unwrap_or(' ');
            if !opens(first) {
                break;
            }
            self.symbol(from..from + first.len_utf8());
            from += first.len_utf8();
        }
        let mut to = end;
        while from < to {
            let last = self.text[from..to].chars().next_back().unwrap_or(' ');
            let inner = &self.text[from..to - last.len_utf8()];
            let needed = last == ')' && inner.contains('(') || last == ']' && inner.contains('[');
            if !closes(last) || needed {
                break;
            }
            to -= last.len_utf8();
        }
        if from < to {
            self.core(from, to);
        }
        let mut at = to;
        while let Some(sign) = self.text[at..end].chars().next() {
            let dots = self.text[at..end].bytes().take_while(|byte| *byte == b'.').count();
            let width = if dots > 2 { dots } else { sign.len_utf8() };
            self.symbol(at..at + width);
            at += width;
        }
    }

    /// Cuts the text between the marks: one exact token, or prose.
    fn core(&mut self, from: usize, to: usize) {
        let core = &self.text[from..to];
        if core.bytes().any(|byte| byte.is_ascii_digit())
            && self.lexicon.canonical(word_key(core, &mut self.buffer).surface).is_some()
        {
            return self.plain_word(from..to);
        }
        let written_out = match core {
            "w/o" | "W/o" | "W/O" => Some("without"),
            "w/" | "W/" => Some("with"),
            "b/c" => Some("because"),
            _ => None,
        };
        if let Some(word) = written_out {
            return self.made(from..to, word);
        }
        match exact_kind(core) {
            Some(Kind::Code) if core.contains('=') => self.assignment(from, to),
            Some(kind) => self.push(kind, from..to, Flags::EXACT),
            None => self.prose(from, to),
        }
    }

    /// `KEY=value`.
    fn assignment(&mut self, from: usize, to: usize) {
        let sign = from + self.text[from..to].find('=').unwrap_or(0);
        for (start, end) in [(from, sign), (sign + 1, to)] {
            if start < end {
                match exact_kind(&self.text[start..end]) {
                    Some(kind) => self.push(kind, start..end, Flags::EXACT),
                    None => self.prose(start, end),
                }
            }
            if start == from {
                self.symbol(sign..sign + 1);
            }
        }
    }

    fn prose(&mut self, from: usize, to: usize) {
        // `drop(Data)`, `a[i]`: a word followed by brackets is code.
        let chunk = &self.text[from..to];
        let called = chunk.bytes().zip(chunk.bytes().skip(1)).any(|(before, sign)| {
            matches!(sign, b'(' | b'[' | b'_') && (before.is_ascii_alphanumeric() || before == b'_')
        });
        let first = self.lexed.tokens.len();
        let mut at = from;
        while at < to {
            let rest = &self.text[at..to];
            let first = rest.chars().next().unwrap_or(' ');
            let width = match first {
                '0'..='9' => run(rest, |c| c.is_ascii_digit(), |c| matches!(c, '.' | ',')),
                c if is_unspaced(c) => c.len_utf8(),
                c if is_letter(c) => {
                    run(rest, |c| is_letter(c) && !is_unspaced(c), |c| matches!(c, '\'' | '’'))
                }
                _ => operator(rest),
            };
            let span = at..at + width;
            match first {
                '0'..='9' => self.push(Kind::Number, span, Flags::default()),
                c if is_unspaced(c) => self.push(Kind::Script, span, Flags::default()),
                c if is_letter(c) => self.word(span),
                _ => self.symbol(span),
            }
            at += width;
        }
        if called {
            self.lexed.tokens[first..].iter_mut().for_each(|token| token.flags.set(Flags::EXACT));
        }
    }

    /// A word, or the two words of a contraction.
    fn word(&mut self, span: Range<usize>) {
        let raw = &self.text[span.clone()];
        let apostrophe = raw.rfind(['\'', '’']).filter(|_| self.quoted.is_none());
        if let Some(at) = apostrophe {
            let (head, tail) = raw.split_at(at);
            let tail = tail.trim_start_matches(['\'', '’']).to_ascii_lowercase();
            let lower = head.to_lowercase();
            let negated = tail == "t" && lower.ends_with('n');
            let full = match (&*tail, &*lower) {
                ("t", "can") => Some("can"),
                ("t", "won") => Some("will"),
                ("t", "shan") => Some("shall"),
                ("t", _) if negated => Some(&lower[..lower.len() - 1]),
                _ => None,
            };
            let place = span.start + at;
            if let Some(full) = full {
                self.made(span.start..place, full);
                return self.made(place..span.end, "not");
            }
            let made = match &*tail {
                "m" => Some("am"),
                "re" => Some("are"),
                "ve" => Some("have"),
                "ll" => Some("will"),
                "s" if matches!(
                    &*lower,
                    "it" | "that" | "there" | "he" | "she" | "what" | "who" | "here"
                ) =>
                {
                    Some("is")
                }
                "s" => {
                    self.plain_word(span.start..place);
                    self.push(Kind::Word, place..span.end, Flags::POSSESSIVE);
                    return;
                }
                _ => None,
            };
            if let Some(made) = made {
                self.plain_word(span.start..place);
                return self.made(place..span.end, made);
            }
        }
        if raw.eq_ignore_ascii_case("cannot") {
            let middle = span.start + 3;
            self.made(span.start..middle, "can");
            return self.made(middle..span.end, "not");
        }
        self.plain_word(span);
    }

    fn plain_word(&mut self, span: Range<usize>) {
        self.push(Kind::Word, span, Flags::default());
    }

    /// A word that stands for other characters.
    fn made(&mut self, span: Range<usize>, word: &str) {
        self.push_as(Kind::Word, span, word, Flags::RESPELLED);
        self.glued = false;
    }

    fn symbol(&mut self, span: Range<usize>) {
        let raw = &self.text[span.clone()];
        let sign = raw.chars().next().unwrap_or(' ');
        let form = fold_symbol(raw, sign);
        let mark = match sign {
            '"' | '“' | '”' | '„' | '«' | '»' => Some('"'),
            '`' => Some('`'),
            _ => None,
        };
        if let Some(mark) = mark {
            self.quoted = match self.quoted {
                Some(open) if open == mark => None,
                open => open.or(Some(mark)),
            };
        }
        if form.is_empty() {
            return;
        }
        self.push_as(Kind::Symbol, span, &form, Flags::default());
    }

    fn push(&mut self, kind: Kind, span: Range<usize>, flags: Flags) {
        let raw = &self.text[span.clone()];
        if raw.is_ascii() && !matches!(kind, Kind::Locator) {
            return self.push_as(kind, span, raw, flags);
        }
        let form: String = match kind {
            Kind::Locator => locator(raw),
            _ => raw
                .nfkc()
                .map(|c| if c == '’' { '\'' } else { c })
                .filter(|c| !is_ignored(*c))
                .collect(),
        };
        self.push_as(kind, span, &form, flags);
    }

    /// Adds a token with the form by which it is compared.
    fn push_as(&mut self, kind: Kind, span: Range<usize>, form: &str, flags: Flags) {
        let start = self.lexed.lower.len() as u32;
        match form.is_ascii() {
            true => {
                self.lexed.lower.push_str(form);
                self.lexed.lower[start as usize..].make_ascii_lowercase();
            }
            false => self.lexed.lower.extend(form.chars().flat_map(char::to_lowercase)),
        }
        let lower = (start, self.lexed.lower.len() as u32);
        let mut token = Token {
            start: span.start as u32,
            end: span.end as u32,
            lower,
            exact: exact_key(kind as u8, form),
            folded: 0,
            stem: 0,
            entry: 0,
            marks: Marks::default(),
            kind,
            flags: flags.when(Flags::GLUED, self.glued).when(Flags::QUOTED, self.quoted.is_some()),
        };
        token.folded = token.exact;
        token.stem = token.exact;
        self.glued = true;
        match kind {
            Kind::Word => self.describe(&mut token, form),
            Kind::Symbol | Kind::Script => {
                let lower = &self.lexed.lower[start as usize..];
                let key = word_key(lower, &mut self.buffer);
                token.marks = self.lexicon.marks(key.surface);
                token.entry = self.lexicon.word(key.stem);
                token.folded = key.surface;
            }
            Kind::Number | Kind::Code | Kind::Locator => self.initial = false,
            Kind::Indent => {}
        }
        self.lexed.tokens.push(token);
    }

    /// Looks a word up.
    fn describe(&mut self, token: &mut Token, form: &str) {
        let lower = &self.lexed.lower[token.lower.0 as usize..];
        let american = american(lower);
        let mut key = word_key(american.as_deref().unwrap_or(lower), &mut self.buffer);
        let canonical = self.lexicon.canonical(key.surface);
        let respelled = canonical.is_some() || american.is_some();
        if let Some(full) = canonical {
            key = WordKey { surface: full.surface, stem: full.stem, past: full.past };
        }
        let known = self.lexicon.form(key.surface).or_else(|| self.lexicon.form(key.stem));
        token.folded = key.surface;
        token.stem = known.map_or(key.stem, |form| form.base);
        token.entry = self.lexicon.word(token.stem);
        token.marks = self.lexicon.marks(key.surface);
        let mut letters = form.chars().filter(|c| is_letter(*c));
        let capital = letters.next().is_some_and(char::is_uppercase);
        let more = letters.filter(|c| c.is_uppercase()).count();
        let single = form.chars().nth(1).is_none() && !matches!(form, "a" | "A" | "I" | "i");
        let acronym = more > 0 && !respelled;
        token.flags = token
            .flags
            .when(Flags::INITIAL, self.initial)
            .when(Flags::CAPITAL, capital)
            .when(Flags::PAST, known.map_or(key.past, |form| form.past))
            .when(Flags::ACRONYM, more > 0)
            .when(Flags::RESPELLED, respelled)
            .when(
                Flags::EXACT,
                acronym
                    || single
                    || token.flags.has(Flags::QUOTED)
                    || token.flags.has(Flags::POSSESSIVE),
            );
        self.initial = false;
    }
}

/// Tells whether nearly all longer words of a text have a capital, and there are enough of them.
fn is_headline(lexed: &Lexed) -> bool {
    let (mut all, mut capital) = (0_usize, 0_usize);
    for token in &lexed.tokens {
        if token.kind == Kind::Word && token.end - token.start > 3 {
            all += 1;
            capital += usize::from(token.has(Flags::CAPITAL));
        }
    }
    all >= 5 && capital * 10 >= all * 9
}

/// Returns `organize` for `organise`, where the word is long enough to be one of these.
fn american(word: &str) -> Option<String> {
    const ENDINGS: [&str; 6] = ["ise", "ised", "ises", "ising", "isation", "isations"];
    let end = ENDINGS.iter().find(|end| word.len() > end.len() + 4 && word.ends_with(**end))?;
    Some(format!("{}iz{}", &word[..word.len() - end.len()], &end[2..]))
}

/// Returns the length of a run, with single marks inside it.
fn run(text: &str, joins: fn(char) -> bool, inner: fn(char) -> bool) -> usize {
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let next = characters.peek().is_some_and(|(_, next)| joins(*next));
        if !(joins(character) || at > 0 && inner(character) && next) {
            return at;
        }
    }
    text.len()
}

const OPERATORS: [&str; 16] = [
    "<=>", "->", "=>", "==", "!=", "<=", ">=", "&&", "||", "<<", ">>", "::", "+=", "-=", "++", "--",
];

fn operator(text: &str) -> usize {
    let known = OPERATORS.iter().find(|operator| text.starts_with(**operator));
    known.map_or_else(|| text.chars().next().map_or(1, char::len_utf8), |operator| operator.len())
}

pub(crate) fn is_letter(character: char) -> bool {
    character.is_alphabetic() || matches!(character, '\u{300}'..='\u{36F}' | '\u{93C}'..='\u{94D}')
}

/// Scripts without spaces between words.
const fn is_unspaced(character: char) -> bool {
    matches!(
        character,
        '\u{E00}'..='\u{EFF}'
            | '\u{1000}'..='\u{109F}'
            | '\u{1780}'..='\u{17FF}'
            | '\u{3005}'..='\u{3007}'
            | '\u{3040}'..='\u{30FF}'
            | '\u{3400}'..='\u{4DBF}'
            | '\u{4E00}'..='\u{9FFF}'
            | '\u{F900}'..='\u{FAFF}'
            | '\u{20000}'..='\u{3FFFF}'
    )
}

/// Characters without width or meaning of their own.
const fn is_ignored(character: char) -> bool {
    matches!(
        character,
        '\u{AD}' | '\u{200B}'..='\u{200D}' | '\u{2060}' | '\u{FEFF}' | '\u{FE0E}' | '\u{FE0F}'
    )
}

const fn opens(character: char) -> bool {
    matches!(
        character,
        '(' | '['
            | '{'
            | '"'
            | '“'
            | '„'
            | '«'
            | '\''
            | '‘'
            | '`'
            | '*'
            | '¿'
            | '¡'
            | '「'
            | '『'
            | '（'
    )
}

const fn closes(character: char) -> bool {
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
            | '"'
            | '”'
            | '“'
            | '»'
            | '\''
            | '’'
            | '`'
            | '*'
            | '…'
            | '。'
            | '，'
            | '、'
            | '；'
            | '：'
            | '！'
            | '？'
            | '」'
            | '』'
            | '）'
    )
}

/// Writes one sign for all of its kind; nothing for a character without width.
fn fold_symbol(raw: &str, sign: char) -> String {
    let one = match sign {
        '“' | '”' | '„' | '«' | '»' | '「' | '」' | '『' | '』' => "\"",
        '‘' | '’' | '\'' => "\"",
        '–' | '—' | '‐' | '‑' | '−' => "-",
        '→' | '⇒' | '➜' | '➔' | '⟶' => "->",
        '。' => ".",
        '、' => ",",
        '…' => "…",
        '✔' | '✓' | '☑' | '✅' => "✅",
        '✗' | '✘' | '✖' | '❌' => "❌",
        '•' | '‣' | '▪' | '●' | '◦' => "•",
        '×' => "x",
        c if is_ignored(c) => "",
        _ if raw.len() > 2 && raw.bytes().all(|byte| byte == b'.') => "…",
        _ if raw == "=>" => "->",
        c if ('\u{FF01}'..='\u{FF5E}').contains(&c) => {
            return char::from_u32(c as u32 - 0xFEE0).map_or_else(|| raw.to_owned(), String::from);
        }
        _ => return raw.to_owned(),
    };
    one.to_owned()
}

/// A path or URL without redundant parts: `./` in front, `/` at the end, the case of a drive.
fn locator(raw: &str) -> String {
    let form: String = raw.nfc().collect();
    let short = form.strip_prefix("./").unwrap_or(&form);
    let short = if short.len() > 1 { short.strip_suffix('/').unwrap_or(short) } else { short };
    match short.as_bytes() {
        [drive, b':', ..] if drive.is_ascii_alphabetic() => {
            short[..1].to_ascii_lowercase() + &short[1..]
        }
        _ => short.to_owned(),
    }
}

/// Returns the kind of exact token that a run without white space is; `None` where it is prose.
fn exact_kind(core: &str) -> Option<Kind> {
    if core.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        let unit = matches!(
            core,
            "kB" | "KiB"
                | "MiB"
                | "GiB"
                | "TiB"
                | "PiB"
                | "kHz"
                | "MHz"
                | "GHz"
                | "kWh"
                | "mAh"
                | "PhD"
        );
        return (camel(core) && !unit).then_some(Kind::Code);
    }
    if core.chars().any(is_unspaced) {
        return None;
    }
    if core.contains("://") || core.starts_with("www.") || is_address(core) {
        return Some(Kind::Locator);
    }
    if is_amount(core) || !core.chars().any(|c| c.is_alphanumeric()) {
        return None;
    }
    if is_path(core) {
        return Some(Kind::Locator);
    }
    is_code(core).then_some(Kind::Code)
}

fn is_address(core: &str) -> bool {
    let Some((name, host)) = core.split_once('@') else { return false };
    !name.is_empty() && host.contains('.') && !host.contains('@')
}

fn is_path(core: &str) -> bool {
    let slashes = core.bytes().filter(|byte| matches!(byte, b'/' | b'\\')).count();
    let bytes = core.as_bytes();
    if slashes == 0 {
        return false;
    }
    let rooted = matches!(bytes, [b'/' | b'~', ..]) && core.len() > 2
        || core.starts_with("./")
        || core.starts_with("../")
        || matches!(bytes, [_, b':', b'\\' | b'/', ..]);
    let dotted = core.split(['/', '\\']).any(|part| {
        part.contains(['.', '_', '*']) && !part.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    });
    let coded = core.split(['/', '\\']).any(|part| {
        part.bytes().any(|b| b.is_ascii_digit()) && part.bytes().any(|b| b.is_ascii_alphabetic())
    });
    rooted
        || dotted
        || coded
        || slashes > 1 && !bytes.iter().all(|b| b.is_ascii_digit() || *b == b'/')
        || core.ends_with('/') && core.len() > 2
}

/// `20`, `~$2.5k`, `950ms`, `8-phase`, `2026-03-04`, `5-10`, `12/14`, `9:30`, `23.8k<60k`.
fn is_amount(core: &str) -> bool {
    const SIGNS: &str = "~<>≤≥±+-–−$€£¥#=≈";
    const INNER: &str = ".,%/:-–+°<>x×²$€µ";
    let rest = core.trim_start_matches(|sign| SIGNS.contains(sign));
    if !rest.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let digit_or_dot = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let number = rest.bytes().take_while(digit_or_dot);
    let dots = number.filter(|byte| *byte == b'.').count();
    let year = || rest.rsplit('.').next().is_some_and(|year| year.len() == 4);
    let date = dots == 2 && rest.bytes().all(|byte| digit_or_dot(&byte)) && year();
    if dots > 1 && !date {
        return false;
    }
    // Digits and letters in turn are an id: `3f9a2c`.
    let is_switch = |pair: &[u8]| pair[0].is_ascii_alphabetic() && pair[1].is_ascii_digit();
    let switches = rest.as_bytes().windows(2).any(is_switch);
    let letters = rest.chars().filter(|c| c.is_alphabetic()).count();
    let hyphenated = rest.split_once('-').is_some_and(|(number, word)| {
        let small = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        number.bytes().all(|byte| digit_or_dot(&byte)) && word.bytes().all(small)
    });
    let plain = |c: char| c.is_ascii_digit() || c.is_alphabetic() || INNER.contains(c);
    rest.chars().all(plain) && !switches && (letters <= 6 || hyphenated)
}

/// `camelCase`, `PascalCase`: capitals behind small letters.
fn camel(word: &str) -> bool {
    word.as_bytes()
        .windows(2)
        .any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
}

fn is_code(core: &str) -> bool {
    let bytes = core.as_bytes();
    let digits = bytes.iter().any(u8::is_ascii_digit);
    let letters = core.chars().any(is_letter);
    let marks = bytes.iter().any(|b| {
        matches!(b, b'_' | b'=' | b'@' | b'\\' | b'$' | b'&' | b'|' | b'*' | b'<' | b'>' | b'^')
    });
    let called = core.contains("()") || core.contains("::") || core.contains("->");
    let inner_dot = core.split('.').collect::<Vec<_>>();
    let dotted = inner_dot.len() > 1
        && inner_dot.iter().all(|part| {
            part.chars().next_back().is_some_and(char::is_alphanumeric) || part.is_empty()
        })
        && !matches!(
            &*core.to_ascii_lowercase(),
            "e.g" | "i.e" | "a.m" | "p.m" | "u.s" | "u.k" | "etc"
        );
    let version = bytes.first() == Some(&b'v') && bytes.get(1).is_some_and(u8::is_ascii_digit);
    if core.contains(['(', ',', '[', '{', '"', ';', '!', '?']) && !called {
        return false;
    }
    marks
        || called
        || version
        || digits && letters
        || dotted && (letters || digits)
        || core.starts_with('-') && letters
        || core.split('-').any(camel)
}
