//! Reads a text: pieces become tokens with keys, phrases, values and polarity.

use super::lexicon::{Lexicon, PHRASE_WORDS_MAX, Roles};
use super::polarity;
use super::quantity::{Proto, Quantities};
use super::reading::{Class, Flags, Quote, Reading, Token};
use super::scan::{Piece, PieceKind, scan};
use super::shape::Shape;
use super::stem::{self, word_key};
use crate::text;

/// Domain of the keys of scripts without a lexicon.
const SCRIPT: u8 = 2;
/// Domain of the keys of shapes; the class is added.
pub(super) const SHAPE: u8 = 16;
/// Longer quotations are prose.
const QUOTE_TOKENS_MAX: u32 = 8;
/// Where more words than this share start with capitals, capitals tell nothing.
const CAPITALS_MAX: f64 = 0.6;

/// Reads one text. Linear in its length.
pub(super) fn read(source: &str, lexicon: &Lexicon) -> Reading {
    // Positions are 32 bits; no memory is 4 GiB, and the strict key still covers all of it.
    let analysed = &source[..source.floor_char_boundary(u32::MAX as usize - 1)];
    let pieces = scan(analysed);
    let names = capitals_tell(analysed, &pieces);
    let mut reader =
        Reader { text: analysed, lexicon, buffer: String::new(), initial: true, names };
    let protos = reader.protos(&pieces);
    let protos = reader.join_phrases(protos);
    let quantities = Quantities { text: analysed, lexicon, buffer: String::new() };
    let mut tokens = quantities.resolve(&protos);
    polarity::mark(&mut tokens, analysed, lexicon);
    let future = is_plan(&tokens, lexicon);
    let exhaustive = tokens.iter().any(|token| lexicon.roles_of(token).has(Roles::EXHAUSTIVE));
    let mut by_key: Vec<u32> =
        (0..tokens.len() as u32).filter(|at| tokens[*at as usize].counts()).collect();
    by_key.sort_unstable_by_key(|at| {
        let token = &tokens[*at as usize];
        (token.key, token.is_negated(), *at)
    });
    let digest = blake3::hash(text::strict_key(source).as_bytes());
    let (strict, _) = digest.as_bytes().split_first_chunk().expect("a digest has 32 bytes");
    Reading {
        text: source.into(),
        strict: *strict,
        quotes: quotes(&pieces, &tokens),
        by_key: by_key.into(),
        tokens: tokens.into(),
        future,
        asks: asks(analysed),
        exhaustive,
    }
}

struct Reader<'a> {
    text: &'a str,
    lexicon: &'a Lexicon,
    buffer: String,
    /// The next word starts a sentence.
    initial: bool,
    /// Capitals tell names.
    names: bool,
}

impl Reader<'_> {
    fn protos(&mut self, pieces: &[Piece]) -> Vec<Proto> {
        let mut protos = Vec::with_capacity(pieces.len());
        for piece in pieces {
            if let Some(proto) = self.proto(piece) {
                self.initial = proto.token.class == Class::Break;
                protos.push(proto);
            }
        }
        protos
    }

    fn proto(&mut self, piece: &Piece) -> Option<Proto> {
        let part = &self.text[piece.range.clone()];
        let mut token = Token {
            key: 0,
            start: piece.range.start as u32,
            end: piece.range.end as u32,
            entry: 0,
            class: Class::Word,
            flags: Flags::default(),
        };
        let mut shape = None;
        match piece.kind {
            PieceKind::Word => {
                match part.contains('.') {
                    true => self.word(&part.replace('.', ""), &mut token),
                    false => self.word(part, &mut token),
                }
                if token.class == Class::Function && self.is_compounded(piece) {
                    token.class = Class::Word;
                    token.flags.clear(Flags::LIGHT);
                }
            }
            PieceKind::Not => self.word("not", &mut token),
            PieceKind::Script => {
                token.class = Class::Script;
                token.key = stem::folded_key(SCRIPT, part, &mut self.buffer);
                token.entry = self.lexicon.word(word_key(part, &mut self.buffer).stem);
                self.classify(&mut token);
            }
            PieceKind::Shape(found) => {
                shape = Some(found);
                if let Shape::Whole { class, exact } = found {
                    token.class = class;
                    token.key = self.shape_key(part, class, exact);
                    self.known_shape(part, &mut token);
                }
            }
            PieceKind::Comma => token.class = Class::Comma,
            PieceKind::Break => token.class = Class::Break,
            PieceKind::Quote | PieceKind::Tick => return None,
        }
        Some(Proto { token, shape })
    }

    /// Tells whether a hyphen joins the word to another: the small word of `write-through` says as much
    /// as that of `write-back`.
    fn is_compounded(&self, piece: &Piece) -> bool {
        let joins = |hyphen: Option<char>, beyond: Option<char>| {
            hyphen == Some('-') && beyond.is_some_and(char::is_alphanumeric)
        };
        let mut before = self.text[..piece.range.start].chars().rev();
        let mut after = self.text[piece.range.end..].chars();
        joins(before.next(), before.next()) || joins(after.next(), after.next())
    }

    fn shape_key(&mut self, part: &str, class: Class, exact: bool) -> u64 {
        let domain = SHAPE + class as u8;
        let part = if class == Class::Version { part.trim_start_matches(['v', 'V']) } else { part };
        if exact {
            stem::exact_key(domain, part)
        } else {
            stem::folded_key(domain, part, &mut self.buffer)
        }
    }

    /// Takes an identifier that the lexicon knows (`k8s`) for the word that it is.
    fn known_shape(&mut self, part: &str, token: &mut Token) {
        let key = word_key(part, &mut self.buffer).stem;
        let entry = self.lexicon.word(key);
        if token.class == Class::Identifier && entry != 0 {
            (token.class, token.key, token.entry) = (Class::Word, key, entry);
        }
    }

    fn word(&mut self, part: &str, token: &mut Token) {
        let key = word_key(part, &mut self.buffer);
        let form = self.lexicon.form(key.surface).or_else(|| self.lexicon.form(key.stem));
        token.key = form.map_or(key.stem, |form| form.base);
        if form.map_or(key.past, |form| form.past) {
            token.flags.set(Flags::PAST);
        }
        if self.initial {
            token.flags.set(Flags::INITIAL);
        }
        let mut characters = part.chars();
        let capital = characters.next().is_some_and(char::is_uppercase);
        let inner = characters.any(char::is_uppercase);
        if self.names && ((capital && !self.initial) || inner) {
            token.flags.set(Flags::NAME);
        }
        token.entry = self.lexicon.word(token.key);
        self.classify(token);
        if token.class == Class::Function && self.ends_compound(token) {
            token.class = Class::Word;
            token.flags.clear(Flags::LIGHT);
        }
        if token.flags.has(Flags::NAME) && matches!(part, "US" | "IT" | "WHO") {
            // Not the pronouns. `us` has no other spelling, the other two are known by their own keys.
            token.class = Class::Word;
            token.flags.clear(Flags::LIGHT);
            token.key = match part {
                "US" => word_key("usa", &mut self.buffer).stem,
                _ => stem::exact_key(SCRIPT, part),
            };
            token.entry = self.lexicon.word(token.key);
        }
    }

    /// Tells whether a word is the last part of a compound, where a small word carries the meaning:
    /// `write-through` and `write-back` are two things.
    fn ends_compound(&self, token: &Token) -> bool {
        let (before, after) =
            (&self.text[..token.start as usize], &self.text[token.end as usize..]);
        let head = before.strip_suffix('-').and_then(|head| head.chars().next_back());
        head.is_some_and(char::is_alphabetic) && !after.starts_with('-')
    }

    /// Takes class and flags from the lexicon.
    fn classify(&self, token: &mut Token) {
        let Some(entry) = self.lexicon.entry(token.entry) else { return };
        if entry.roles.has(Roles::NEGATOR) {
            token.class = Class::Negator;
        } else if entry.roles.has(Roles::FUNCTION) {
            token.class = Class::Function;
        }
        let small = token.class != Class::Word;
        let telling = Roles::DENIAL.with(Roles::AUXILIARY);
        if small && (!entry.memberships.is_empty() || entry.roles.has(telling)) {
            token.flags.set(Flags::LIGHT);
        }
    }

    /// Replaces the words of known phrases by one token.
    fn join_phrases(&self, protos: Vec<Proto>) -> Vec<Proto> {
        let mut joined = Vec::with_capacity(protos.len());
        let mut at = 0;
        while at < protos.len() {
            let (proto, width) = self.phrase(&protos[at..]).unwrap_or((protos[at], 1));
            joined.push(proto);
            at += width;
        }
        joined
    }

    fn phrase(&self, protos: &[Proto]) -> Option<(Proto, usize)> {
        let first = &protos[0];
        if !first.is_word() || !self.lexicon.starts_phrase(first.token.key) {
            return None;
        }
        let words = protos.iter().take(PHRASE_WORDS_MAX).take_while(|proto| proto.is_word());
        let mut stems = [0; PHRASE_WORDS_MAX];
        let mut count = 0;
        for word in words {
            stems[count] = word.token.key;
            count += 1;
        }
        let found = self.lexicon.phrase(&stems[..count])?;
        let last = &protos[found.word_count - 1];
        let mut token = first.token;
        token.end = last.token.end;
        token.key = stem::phrase_key(stems[..found.word_count].iter().copied());
        token.entry = found.entry;
        token.class = Class::Word;
        token.flags = Flags::default();
        if first.token.flags.has(Flags::INITIAL) {
            token.flags.set(Flags::INITIAL);
        }
        self.classify(&mut token);
        Some((Proto { token, shape: None }, found.word_count))
    }
}

/// Tells whether a text asks: a question mark ends a word, or the first word is one that only asks.
fn asks(text: &str) -> bool {
    let ends = |(_, rest): (&str, &str)| !rest.starts_with(|next: char| next.is_alphanumeric());
    let first = text.split(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty());
    let asking = ["who", "whom", "whose", "why", "how"];
    text.contains(['？', '؟'])
        || text.match_indices('?').map(|(at, mark)| text.split_at(at + mark.len())).any(ends)
        || first.is_some_and(|word| asking.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

/// Tells whether capitals are rare enough to mark names.
fn capitals_tell(text: &str, pieces: &[Piece]) -> bool {
    let words = pieces.iter().filter(|piece| piece.kind == PieceKind::Word);
    let (mut all, mut capital) = (0_usize, 0_usize);
    for piece in words {
        all += 1;
        capital += usize::from(text[piece.range.clone()].starts_with(char::is_uppercase));
    }
    all < 3 || (capital as f64) <= CAPITALS_MAX * all as f64
}

fn is_plan(tokens: &[Token], lexicon: &Lexicon) -> bool {
    tokens.iter().any(|token| lexicon.roles_of(token).has(Roles::FUTURE))
}

/// Pairs quotation marks and backticks of one kind, without nesting.
fn quotes(pieces: &[Piece], tokens: &[Token]) -> Box<[Quote]> {
    let mut quotes = Vec::new();
    let mut open: [Option<usize>; 2] = [None; 2];
    for piece in pieces {
        let kind = match piece.kind {
            PieceKind::Quote => 0,
            PieceKind::Tick => 1,
            _ => continue,
        };
        match open[kind].take() {
            Some(start) => quotes.extend(quote(start, piece.range.start, tokens)),
            None => open[kind] = Some(piece.range.end),
        }
    }
    quotes.into()
}

fn quote(start: usize, end: usize, tokens: &[Token]) -> Option<Quote> {
    let first = tokens.partition_point(|token| (token.start as usize) < start) as u32;
    let last = tokens.partition_point(|token| (token.start as usize) < end) as u32;
    if first == last || last - first > QUOTE_TOKENS_MAX {
        return None;
    }
    let inside = tokens[first as usize..last as usize].iter().filter(|token| token.key != 0);
    let key = stem::phrase_key(inside.map(|token| token.key));
    Some(Quote { start: start as u32, end: end as u32, first, last, key })
}
