//! [`Document`]: a file of pieces together with the ones that were taken out of it.
//!
//! A piece that is taken out keeps its place among the others. Headings and blank lines follow from the memories: a
//! heading is out while everything under it is, and of the blank lines around a gap the ones of one piece stay. So the text
//! is as before when all memories are back, whichever their order.

use serde::{Deserialize, Serialize};

use super::scan::{Form, Kind, Memory, Piece, scan};
use memfold_store::origin::OriginRecord;

/// A piece that was taken out, as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Removed {
    kind: Kind,
    /// The bytes as they were.
    text: String,
    /// Its place: bytes of the file before it.
    offset: usize,
    /// The line above and the line below, by which the place is found in a file that others changed.
    above: String,
    below: String,
    /// The memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) record: Option<Box<OriginRecord>>,
}

/// A piece at its place.
#[derive(Debug, Clone, PartialEq)]
struct Block {
    kind: Kind,
    text: String,
    /// The id of a memory.
    id: String,
    /// The memory of a piece that was taken out.
    record: Option<Box<OriginRecord>>,
    is_out: bool,
    /// Whether this call took it out or put it back.
    is_touched: bool,
}

/// A memory of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Live<'a> {
    pub(super) id: &'a str,
    pub(super) memory: &'a Memory,
    pub(super) raw: &'a str,
    /// The line on which it begins, from 1.
    pub(super) line: usize,
    /// Whether its file has a title above all sections.
    pub(super) is_titled: bool,
}

/// A file of pieces.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Document {
    blocks: Vec<Block>,
}

impl Document {
    /// Puts removed pieces back among the pieces of a text. `is_known`: the text is the one that was written then.
    pub(super) fn new(text: &str, removed: &[Removed], is_known: bool) -> Self {
        let gaps = removed.iter().filter(|removed| removed.kind == Kind::Gap);
        let pieces = scan(text, separator(gaps.map(|removed| &*removed.text)));
        let mut places: Vec<(usize, &Removed)> = match is_known {
            true => removed.iter().map(|removed| (removed.offset, removed)).collect(),
            false => {
                let places = Places::new(text, &pieces);
                removed.iter().map(|removed| (places.find(removed), removed)).collect()
            }
        };
        places.sort_by_key(|(offset, _)| *offset);
        let mut places = places.into_iter().peekable();
        let mut blocks = Vec::with_capacity(pieces.len() + removed.len());
        let mut offset = 0;
        for piece in pieces {
            while let Some((_, removed)) = places.next_if(|(at, _)| *at <= offset) {
                blocks.push(Block::out(removed));
            }
            offset += piece.text.len();
            blocks.push(Block::of(piece));
        }
        blocks.extend(places.map(|(_, removed)| Block::out(removed)));
        Self { blocks }
    }

    /// Gives the memories that are in the file their ids.
    pub(super) fn name(&mut self, mut id: impl FnMut(&Memory) -> String) {
        for block in &mut self.blocks {
            if let Some(memory) = block.memory() {
                block.id = id(memory);
            }
        }
    }

    /// Returns the memories in the file, in its order.
    pub(super) fn live(&self) -> impl Iterator<Item = Live<'_>> {
        let mut line = 1;
        let is_titled = self.has_title();
        self.blocks.iter().filter(|block| !block.is_out).filter_map(move |block| {
            let at = line;
            line += block.text.matches('\n').count();
            Some(Live {
                id: &block.id,
                memory: block.memory()?,
                raw: &block.text,
                line: at,
                is_titled,
            })
        })
    }

    /// Returns the memories that were taken out.
    pub(super) fn removed(&self) -> impl Iterator<Item = &OriginRecord> {
        self.blocks.iter().filter_map(|block| block.record.as_deref())
    }

    pub(super) fn find(&self, id: &str) -> Option<Live<'_>> {
        self.live().find(|live| live.id == id)
    }

    pub(super) fn find_removed(&self, id: &str) -> Option<&OriginRecord> {
        self.removed().find(|record| record.id == id)
    }

    fn block(&mut self, id: &str) -> Option<&mut Block> {
        let is_memory = |block: &&mut Block| block.record.is_some() || block.memory().is_some();
        self.blocks.iter_mut().filter(is_memory).find(|block| block.id == id)
    }

    /// Takes a memory out; one that is out is kept as this record now.
    pub(super) fn take_out(&mut self, record: OriginRecord) {
        if let Some(block) = self.block(&record.id) {
            block.is_touched |= !block.is_out;
            block.is_out = true;
            block.kind = Kind::Memory(Memory::default());
            block.record = Some(Box::new(record));
        }
    }

    /// Puts a memory back.
    pub(super) fn put_back(&mut self, id: &str) {
        if let Some(block) = self.block(id)
            && let Some(record) = block.record.take()
        {
            block.kind = Kind::Memory(Memory { text: record.text, ..Memory::default() });
            (block.is_out, block.is_touched) = (false, true);
        }
    }

    /// Takes out or puts back the links to files; `is_gone` tells of a target whether its file is out.
    pub(super) fn follow_links(&mut self, is_gone: impl Fn(&str) -> Option<bool>) {
        for block in &mut self.blocks {
            if let Kind::Link { target } = &block.kind
                && let Some(is_out) = is_gone(target)
                && is_out != block.is_out
            {
                (block.is_out, block.is_touched) = (is_out, true);
            }
        }
    }

    /// Gives a memory in the file other bytes.
    pub(super) fn rewrite(&mut self, id: &str, raw: String, text: &str) {
        if let Some(block) = self.block(id) {
            block.text = raw;
            if let Kind::Memory(memory) = &mut block.kind {
                text.clone_into(&mut memory.text);
            }
        }
    }

    /// Adds text at the end, which is one memory.
    pub(super) fn append(&mut self, text: &str, id: &str, said: &str) {
        self.settle();
        let (whole, removed) = self.to_keep();
        let mut ids: Vec<String> = self.live().map(|live| live.id.to_owned()).collect();
        ids.push(id.to_owned());
        let mut document = Self::new(&(whole + text), &removed, true);
        let count = document.live().count();
        if count == ids.len() && document.live().last().is_some_and(|live| live.memory.text == said)
        {
            document.name_in_order(ids);
            *self = document;
        }
    }

    /// Takes a memory away for good, with the text that was written before it if nothing follows.
    pub(super) fn erase(&mut self, id: &str, lead: &str) {
        self.settle();
        let is_it = |block: &Block| block.memory().is_some() && block.id == id;
        let Some(at) = self.blocks.iter().position(is_it) else { return };
        let start = self.render().1[at];
        let end = start + self.blocks[at].text.len();
        let (text, mut removed) = self.to_keep();
        let is_last = end == text.len() && text[..start].ends_with(lead);
        let start = if is_last { start - lead.len() } else { start };
        for removed in removed.iter_mut().filter(|removed| removed.offset > start) {
            removed.offset = start.max(removed.offset.saturating_sub(end - start));
        }
        let ids = self.live().map(|live| live.id).filter(|known| *known != id);
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        let mut document = Self::new(&(text[..start].to_owned() + &text[end..]), &removed, true);
        document.name_in_order(ids);
        *self = document;
    }

    fn name_in_order(&mut self, ids: Vec<String>) {
        let mut ids = ids.into_iter();
        self.name(|_| ids.next().unwrap_or_default());
    }

    /// Returns the separator of the blocks of the file, if it consists of blocks.
    pub(super) fn separator(&self) -> Option<&str> {
        let gaps = self.blocks.iter().filter(|block| block.kind == Kind::Gap);
        separator(gaps.map(|block| &*block.text))
    }

    /// Tells whether the file has a title above all sections: one heading of level 1, before all others.
    fn has_title(&self) -> bool {
        let is_top = |block: &&Block| block.kind == Kind::Heading { level: 1 };
        let mut headings = self.blocks.iter().filter(|block| block.is_heading());
        headings.next().is_some_and(|block| is_top(&block)) && !headings.any(|block| is_top(&block))
    }

    /// Tells whether the last section of the file is one with a title of its own, and another one than this.
    pub(super) fn needs_title(&self, title: &str) -> bool {
        let mut headings = self.blocks.iter().filter(|block| !block.is_out && block.is_heading());
        let first = headings.next();
        let last =
            headings.next_back().or(first.filter(|block| block.kind != Kind::Heading { level: 1 }));
        last.is_some_and(|block| block.text.trim().trim_matches('#').trim() != title)
    }

    /// Tells whether a list at the end needs a blank line before it.
    pub(super) fn needs_line(&self) -> bool {
        let last = self.blocks.iter().rfind(|block| !block.is_out);
        last.is_some_and(|block| match &block.kind {
            Kind::Memory(memory) => !matches!(memory.form, Form::Item { .. }),
            Kind::Heading { .. } | Kind::Other => block.text != "\u{feff}",
            Kind::Link { .. } | Kind::Gap => false,
        })
    }

    /// Takes out headings without content and blank lines that separate nothing, around the touched pieces, and puts them
    /// back where they are needed again.
    pub(super) fn settle(&mut self) {
        if self.blocks.iter().any(|block| block.is_touched) {
            self.settle_headings();
            self.settle_gaps();
            self.blocks.iter_mut().for_each(|block| block.is_touched = false);
        }
    }

    fn settle_headings(&mut self) {
        let title = self.blocks.iter().position(Block::is_heading);
        for at in (0..self.blocks.len()).rev() {
            let Kind::Heading { level } = self.blocks[at].kind else { continue };
            if Some(at) == title && level == 1 {
                continue;
            }
            let ends = |block: &Block| matches!(block.kind, Kind::Heading { level: other } if other <= level);
            let section = &self.blocks[at + 1..];
            let section = &section[..section.iter().position(ends).unwrap_or(section.len())];
            if !section.iter().any(|block| block.is_touched) {
                continue;
            }
            let is_content = |block: &Block| block.kind != Kind::Gap;
            let has_lost = section
                .iter()
                .any(|block| block.is_out && is_content(block) && !block.is_heading());
            let is_empty = !section.iter().any(|block| !block.is_out && is_content(block));
            let block = &mut self.blocks[at];
            block.is_touched |= block.is_out != (has_lost && is_empty);
            block.is_out = has_lost && is_empty;
        }
    }

    /// Between two pieces that are in the file stands one gap, if there was one; at the start none, at the end the last.
    fn settle_gaps(&mut self) {
        let is_content = |block: &Block| block.kind != Kind::Gap;
        let mut start = 0;
        while start <= self.blocks.len() {
            let behind = &self.blocks[start..];
            let end = behind.iter().position(|block| is_content(block) && !block.is_out);
            let end = end.map_or(self.blocks.len(), |at| start + at);
            let run = &self.blocks[start..end];
            if run.iter().any(|block| block.is_touched) || self.touches(start, end) {
                let has_lost = run.iter().any(is_content);
                let gaps = (start..end).filter(|at| self.blocks[*at].kind == Kind::Gap);
                let gaps: Vec<usize> = gaps.collect();
                let is_last = gaps.last().is_some_and(|at| at + 1 == self.blocks.len());
                let kept = match (start == 0, end == self.blocks.len()) {
                    _ if !has_lost => None,
                    (false, true) if is_last => gaps.last(),
                    (false, false) => gaps.first(),
                    _ => Some(&usize::MAX),
                };
                for at in &gaps {
                    self.blocks[*at].is_out = kept.is_some_and(|kept| kept != at);
                }
            }
            start = end + 1;
        }
    }

    /// Tells whether a piece beside a run was put back.
    fn touches(&self, start: usize, end: usize) -> bool {
        let is_touched = |at: Option<usize>| {
            at.and_then(|at| self.blocks.get(at)).is_some_and(|block| block.is_touched)
        };
        is_touched(start.checked_sub(1)) || is_touched(Some(end))
    }

    /// Returns the text of the file.
    pub(super) fn text(&self) -> String {
        self.render().0
    }

    /// Returns the text and the places of all pieces in it.
    fn render(&self) -> (String, Vec<usize>) {
        let line_end =
            self.blocks.iter().find_map(|block| block.text.find('\n').map(|at| (block, at)));
        let line_end = match line_end {
            Some((block, at)) if block.text[..at].ends_with('\r') => "\r\n",
            _ => "\n",
        };
        let (mut text, mut places) = (String::new(), Vec::new());
        let mut is_open = false;
        for block in &self.blocks {
            // The last line of the file came without an end, and something follows it now.
            if is_open && block.kind != Kind::Gap && !block.is_out {
                text.push_str(line_end);
            }
            places.push(text.len());
            if block.is_out {
                continue;
            }
            text.push_str(&block.text);
            let is_block = block.memory().is_some_and(|memory| memory.form == Form::Block);
            let is_line = !matches!(block.kind, Kind::Gap | Kind::Other) && !is_block;
            is_open = is_line && !block.text.ends_with('\n');
        }
        (text, places)
    }

    /// Returns the text and the pieces that are out, to be kept.
    pub(super) fn to_keep(&self) -> (String, Vec<Removed>) {
        let (text, places) = self.render();
        let out = self.blocks.iter().zip(places).filter(|(block, _)| block.is_out);
        let keep = |(block, offset): (&Block, usize)| Removed {
            kind: block.kind.clone(),
            text: block.text.clone(),
            offset,
            above: line_above(&text[..offset]).to_owned(),
            below: line_below(&text[offset..]).to_owned(),
            record: block.record.clone(),
        };
        let removed = out.map(keep).collect();
        (text, removed)
    }

    /// Tells whether the text is read as the pieces that are in it: without one of them, two others may be read as one.
    pub(super) fn is_sound(&self) -> bool {
        let out = self.blocks.iter().filter(|block| block.is_out && block.kind == Kind::Gap);
        let separator = separator(out.map(|block| &*block.text));
        let found = scan(&self.text(), separator).into_iter();
        let found: Vec<Piece> = found.filter(|piece| piece.kind != Kind::Gap).collect();
        let wanted = self.blocks.iter().filter(|block| !block.is_out && block.kind != Kind::Gap);
        let is_same = |(found, wanted): (&Piece, &Block)| {
            let is_same = match (&found.kind, &wanted.kind) {
                (Kind::Memory(found), Kind::Memory(wanted)) => found.text == wanted.text,
                (found, wanted) => found == wanted,
            };
            is_same && found.text.trim_end() == wanted.text.trim_end()
        };
        found.len() == wanted.clone().count() && found.iter().zip(wanted).all(is_same)
    }
}

/// Returns the separator of the blocks of a file, by the removed gaps: the text alone may not tell.
fn separator<'a>(gaps: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    gaps.flat_map(str::lines).map(str::trim).find(|line| !line.is_empty())
}

impl Block {
    fn of(Piece { kind, text }: Piece) -> Self {
        Self { kind, text, id: String::new(), record: None, is_out: false, is_touched: false }
    }

    fn out(removed: &Removed) -> Self {
        let Removed { kind, text, record, .. } = removed.clone();
        let id = record.as_ref().map(|record| record.id.clone()).unwrap_or_default();
        Self { kind, text, id, record, is_out: true, is_touched: false }
    }

    /// The memory of a piece that is in the file.
    const fn memory(&self) -> Option<&Memory> {
        match &self.kind {
            Kind::Memory(memory) if !self.is_out => Some(memory),
            _ => None,
        }
    }

    const fn is_heading(&self) -> bool {
        matches!(self.kind, Kind::Heading { .. })
    }
}

fn line_above(text: &str) -> &str {
    text.trim_end().rsplit('\n').next().unwrap_or_default().trim()
}

fn line_below(text: &str) -> &str {
    text.trim_start().split('\n').next().unwrap_or_default().trim()
}

/// The places between the pieces of a text, with the lines around each.
struct Places<'a>(Vec<(usize, &'a str, &'a str)>);

impl<'a> Places<'a> {
    fn new(text: &'a str, pieces: &[Piece]) -> Self {
        let starts = pieces.iter().scan(0, |offset, piece| {
            let start = *offset;
            *offset += piece.text.len();
            Some(start)
        });
        let starts = starts.chain([text.len()]);
        Self(starts.map(|at| (at, line_above(&text[..at]), line_below(&text[at..]))).collect())
    }

    /// Returns the place with the same line above and below, as far as there is one, and the nearest of several.
    fn find(&self, removed: &Removed) -> usize {
        let rank = |(at, above, below): &(usize, &str, &str)| {
            let is_same = (*above == removed.above, *below == removed.below);
            (u8::from(!is_same.0) * 2 + u8::from(!is_same.1), at.abs_diff(removed.offset))
        };
        self.0.iter().min_by_key(|place| rank(place)).map_or(0, |(at, ..)| *at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn document(text: &str) -> Document {
        let mut document = Document::new(text, &[], true);
        let mut count = 0;
        document.name(|_| {
            count += 1;
            format!("m{count}")
        });
        document
    }

    fn record(document: &Document, id: &str) -> OriginRecord {
        let live = document.find(id).unwrap();
        OriginRecord {
            id: id.to_owned(),
            text: live.memory.text.clone(),
            raw: live.raw.to_owned(),
            ..OriginRecord::default()
        }
    }

    fn without(text: &str, ids: &[&str]) -> String {
        let mut document = document(text);
        for id in ids {
            document.take_out(record(&document, id));
        }
        document.settle();
        document.text()
    }

    #[test]
    fn a_memory_goes_with_its_line_end_and_its_empty_heading() {
        let text =
            "# Memory\n\nIntro.\n\n## A\n- a\n- b\n\n## B\n\n- c\n\n### D\n- d\n\n## E\n- e\n";
        assert_eq!(without(text, &["m2"]), text.replace("- a\n", ""));
        assert_eq!(without(text, &["m2", "m3"]), text.replace("## A\n- a\n- b\n\n", ""));
        assert_eq!(
            without(text, &["m4"]),
            text.replace("- c\n\n", ""),
            "its subheading has content"
        );
        assert_eq!(without(text, &["m4", "m5"]), text.replace("## B\n\n- c\n\n### D\n- d\n\n", ""));
        assert_eq!(without(text, &["m6"]), text.replace("\n## E\n- e\n", ""));
        assert_eq!(without("# T\n- a\n", &["m1"]), "# T\n", "the title stays");
        assert_eq!(without("a\n§\nb\n§\nc", &["m2"]), "a\n§\nc");
        assert_eq!(without("a\n§\nb\n§\nc", &["m2", "m3"]), "a");
        assert_eq!(without("a\n§\nb\n§\nc\n", &["m1"]), "b\n§\nc\n");
        assert_eq!(without("P\n\nQ\n\nR\n", &["m2"]), "P\n\nR\n");
        assert_eq!(without("\u{feff}- a\r\n- b\r\n\tb\r\n- c", &["m2"]), "\u{feff}- a\r\n- c");
        assert_eq!(without("Front:\n- a\n\nBack:\n- b\n", &["m1"]), "Back:\n- b\n");
    }

    /// Later edits of others stay, and a memory that comes back finds its place among them.
    #[test]
    fn a_place_is_found_again_in_a_file_that_others_changed() {
        let mut document = document("# A\n- a\n- b\n\n# B\n- c\n- d");
        for id in ["m2", "m4"] {
            document.take_out(record(&document, id));
        }
        document.settle();
        let (text, removed) = document.to_keep();
        assert_eq!(text, "# A\n- a\n\n# B\n- c\n");
        let edited = format!("New first line.\n\n{text}- e\n");
        let mut back = Document::new(&edited, &removed, false);
        back.put_back("m2");
        back.put_back("m4");
        back.settle();
        assert_eq!(back.text(), "New first line.\n\n# A\n- a\n- b\n\n# B\n- c\n- d\n- e\n");
    }

    fn text() -> impl Strategy<Value = String> {
        let lines = "# A¶## B¶### C¶- a¶  - b¶* c¶1. d¶text¶text:¶```¶---¶¶¶¶| a | b |\n|---|---|\n| 1 | 2 |¶- [l](l.md)¶**Bold**¶• ü¶§";
        let lines = prop::sample::select(lines.split('¶').collect::<Vec<_>>());
        let ends = prop::sample::select(vec!["\n", "\n", "\r\n", "\n\n"]);
        let last = prop::sample::select(vec!["", "\n", "\n\n"]);
        (prop::collection::vec((lines, ends), 0..25), last).prop_map(|(lines, last)| {
            let text: String = lines.iter().flat_map(|(line, end)| [*line, *end]).collect();
            text.trim_end().to_owned() + last
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        /// Memories go and come back in any order, through a file each time: the bytes are as before.
        #[test]
        fn the_bytes_return(text in text(), order in any::<u64>(), back in any::<u64>()) {
            let shuffled = |seed: u64, mut ids: Vec<String>| {
                ids.sort_by_key(|id| (id.len() as u64).wrapping_mul(31) ^ seed.rotate_left(id.bytes().map(u32::from).sum()));
                ids
            };
            let mut document = document(&text);
            let ids: Vec<String> = document.live().map(|live| live.id.to_owned()).collect();
            let gone = shuffled(order, ids);
            let pass = |document: &mut Document| {
                document.settle();
                let (text, removed) = document.to_keep();
                let names: Vec<String> = match document.is_sound() {
                    true => document.live().map(|live| live.id.to_owned()).collect(),
                    false => return false,
                };
                *document = Document::new(&text, &removed, true);
                let mut at = names.iter();
                document.name(|_| at.next().cloned().unwrap_or_default());
                true
            };
            for id in &gone {
                let before = document.clone();
                document.take_out(record(&document, id));
                if !pass(&mut document) {
                    document = before;
                }
            }
            let out: Vec<String> = document.removed().map(|record| record.id.clone()).collect();
            for id in shuffled(back, out) {
                document.put_back(&id);
                document.settle();
                let (text, removed) = document.to_keep();
                // Two that are one without a third come back together with it.
                if document.is_sound() {
                    document = Document::new(&text, &removed, true);
                }
            }
            prop_assert_eq!(document.text(), text);
        }
    }
}
