//! The tokens of a proof: words, runs of digits, and every other sign alone.

use std::borrow::Cow;

use unicode_normalization::{UnicodeNormalization, is_nfc};

use crate::lexicon::{Lexicon, Marks, PROOF};
use crate::stem::word_key;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    Digits,
    Symbol,
}

/// A token of a proof.
#[derive(Debug, Clone)]
pub(super) struct Tok<'a> {
    /// In NFC, quotes, dashes and widths of one kind.
    pub(super) text: Cow<'a, str>,
    /// The same in lower case.
    pub(super) lower: Cow<'a, str>,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: Kind,
    /// No white space stands before it.
    pub(super) glued: bool,
    /// It is the first word of a sentence.
    pub(super) initial: bool,
    /// Its capital says nothing: the whole text is written as a headline is.
    pub(super) titled: bool,
    /// It is code, quoted, an acronym or a single letter: only itself equals it.
    pub(super) exact: bool,
    pub(super) marks: Marks,
    /// Its entry in the lexicon, or 0.
    pub(super) entry: u32,
    /// Key of its stem.
    pub(super) stem: u64,
    pub(super) past: bool,
}

impl Tok<'_> {
    pub(super) fn is(&self, symbol: &str) -> bool {
        self.kind == Kind::Symbol && self.text == symbol
    }

    /// Tells whether grammar may be applied to it: a word in lower case, or the first of a sentence.
    pub(super) fn is_ordinary(&self) -> bool {
        self.kind == Kind::Word
            && !self.exact
            && (self.initial || self.titled || !self.text.starts_with(char::is_uppercase))
    }

    pub(super) fn ends_sentence(&self) -> bool {
        self.kind == Kind::Symbol && matches!(&*self.text, "." | "!" | "?" | "…")
    }
}

/// Cuts a text into tokens. Linear in its length.
pub(super) fn lex<'a>(text: &'a str, lexicon: &Lexicon) -> Vec<Tok<'a>> {
    let mut tokens: Vec<Tok<'a>> = Vec::with_capacity(text.len() / 4 + 1);
    let mut buffer = String::new();
    let mut quoted: Option<&str> = None;
    let mut initial = true;
    let mut at = 0;
    let mut chunk = (0, false);
    let mut glued = false;
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            initial |= first == '\n';
            glued = false;
            if tokens.last().is_some_and(Tok::ends_sentence) {
                initial = true;
            }
            continue;
        }
        if at >= chunk.0 {
            let rest = &text[at..];
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            chunk = (at + end, is_code(&rest[..end]));
        }
        let (kind, width) = cut(&text[at..]);
        let raw = &text[at..at + width];
        let folded = fold(raw, kind);
        let lower = match folded.chars().any(char::is_uppercase) {
            true => Cow::Owned(folded.to_lowercase()),
            false => folded.clone(),
        };
        let mark = kind == Kind::Symbol && matches!(&*folded, "\"" | "`");
        if mark {
            let same = if folded == "`" { "`" } else { "\"" };
            quoted = if quoted == Some(same) { None } else { quoted.or(Some(same)) };
        }
        let mut token = Tok {
            marks: PROOF.marks(&lower),
            start: at,
            end: at + width,
            kind,
            glued,
            initial: initial && kind == Kind::Word,
            titled: false,
            exact: quoted.is_some() || chunk.1 || is_cased(&folded),
            entry: 0,
            stem: 0,
            past: false,
            text: folded,
            lower,
        };
        if kind == Kind::Word {
            let key = word_key(raw, &mut buffer);
            let form = lexicon.form(key.surface).or_else(|| lexicon.form(key.stem));
            token.stem = form.map_or(key.stem, |form| form.base);
            token.past = form.map_or(key.past, |form| form.past);
            token.entry = lexicon.word(token.stem);
            initial = false;
        }
        initial &= kind != Kind::Digits;
        tokens.push(token);
        at += width;
        glued = true;
    }
    if is_headline(&tokens) {
        tokens.iter_mut().for_each(|token| token.titled = true);
    }
    tokens
}

/// Tells whether nearly all longer words of a text have a capital, and there are enough of them.
fn is_headline(tokens: &[Tok<'_>]) -> bool {
    let long = |token: &&Tok<'_>| token.kind == Kind::Word && token.lower.len() > 3;
    let (mut all, mut capital) = (0_usize, 0_usize);
    for token in tokens.iter().filter(long) {
        all += 1;
        capital += usize::from(token.text.starts_with(char::is_uppercase));
    }
    all >= 5 && capital * 10 >= all * 9
}

/// Returns what starts a text that starts with no white space, and its length.
fn cut(text: &str) -> (Kind, usize) {
    let first = text.chars().next().unwrap_or(' ');
    let mut characters = text.char_indices().peekable();
    let (kind, joins): (Kind, fn(char) -> bool) = match first {
        '0'..='9' => (Kind::Digits, |c| c.is_ascii_digit()),
        c if is_letter(c) => (Kind::Word, is_letter),
        c => return (Kind::Symbol, c.len_utf8()),
    };
    while let Some((at, character)) = characters.next() {
        let next = characters.peek().is_some_and(|(_, next)| joins(*next));
        let inner = match kind {
            Kind::Digits => matches!(character, '.' | ','),
            _ => matches!(character, '\'' | '’'),
        };
        if !(joins(character) || inner && next) {
            return (kind, at);
        }
    }
    (kind, text.len())
}

fn is_letter(character: char) -> bool {
    character.is_alphabetic() || matches!(character, '\u{300}'..='\u{36F}')
}

/// Writes one character for all of its kind.
fn fold(raw: &str, kind: Kind) -> Cow<'_, str> {
    let one = |symbol: &'static str| Cow::Borrowed(symbol);
    match (kind, raw) {
        (Kind::Symbol, "“" | "”" | "„" | "«" | "»") => one("\""),
        (Kind::Symbol, "‘" | "’") => one("'"),
        (Kind::Symbol, "–" | "—" | "‐" | "‑") => one("-"),
        (Kind::Symbol, _) => {
            let wide = raw.chars().next().filter(|c| ('\u{FF01}'..='\u{FF5E}').contains(c));
            let narrow = wide.and_then(|c| char::from_u32(c as u32 - 0xFEE0));
            narrow.map_or(Cow::Borrowed(raw), |c| Cow::Owned(c.to_string()))
        }
        _ if raw.is_ascii() => Cow::Borrowed(raw),
        _ if raw.contains('’') => {
            Cow::Owned(raw.nfc().map(|c| if c == '’' { '\'' } else { c }).collect())
        }
        _ if is_nfc(raw) => Cow::Borrowed(raw),
        _ => Cow::Owned(raw.nfc().collect()),
    }
}

/// Tells whether case belongs to a word: acronyms, single letters, `camelCase`.
fn is_cased(word: &str) -> bool {
    let inner = word.chars().skip(1).any(char::is_uppercase);
    let single = word.chars().nth(1).is_none() && word.chars().all(is_letter);
    inner || single && !matches!(word, "a" | "A" | "I" | "i")
}

/// Tells whether a run without white space is more than words with marks around them.
fn is_code(chunk: &str) -> bool {
    let core = chunk.trim_start_matches(['(', '"', '“', '„', '«', '\'', '‘', '$', '€', '£']);
    let core =
        core.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '"', '”', '»', '\'', '’', '…']);
    let plain = |c: char| is_letter(c) || matches!(c, '\'' | '’' | '-' | '—' | '–' | '\u{2010}');
    let number = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',');
    let amount = core.trim_start_matches(number);
    let counted = amount.len() < core.len()
        && amount.chars().all(|c| is_letter(c) || matches!(c, '%' | '/' | ':' | '-') || number(c));
    let rate = core.split_once('/').is_some_and(|(of, per)| {
        of.chars().all(is_letter)
            && matches!(
                per,
                "s" | "sec" | "min" | "h" | "hr" | "hour" | "day" | "week" | "month" | "year"
            )
    });
    !(core.chars().all(plain) || counted || rate)
}
