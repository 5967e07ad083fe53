//! The way back: lines are taken out again, so that the notes are what they were.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::git_notes::draft::Draft;
use crate::git_notes::ledger::{Book, Slot};
use crate::git_notes::library::Library;
use crate::git_notes::line::Fields;
use crate::git_notes::meta;
use memfold_store::origin::{OriginChange, OriginRecord, OriginStanding};

impl Draft {
    /// Brings a memory back to what it was when it was read, or to what it was in between; tells whether taking
    /// lines out was enough.
    pub(super) fn restore(&mut self, record: &OriginRecord) -> bool {
        let id = self.library.resolve(&record.id);
        let wanted = OriginRecord { standing: OriginStanding::Live, ..record.clone() };
        let way_back = self.way_back(&id, &wanted, Some(&record.raw));
        let is_enough = way_back.is_some();
        let taken = way_back
            .unwrap_or_else(|| self.later(&self.lines(&id), self.read_at(&id, &record.raw)));
        self.take_out(&id, &taken);
        is_enough
    }

    /// Takes lines out where that makes of a memory what a change wants: the inverse of an earlier change.
    pub(super) fn go_back(&mut self, change: &OriginChange) -> bool {
        let Some(wanted) = self.wanted(change) else { return false };
        let way_back = self.way_back(&wanted.id, &wanted, None);
        if let Some(taken) = &way_back {
            self.take_out(&wanted.id, taken);
        }
        way_back.is_some()
    }

    /// Takes out a memory that memfold made.
    pub(super) fn remove(&mut self, id: &str) {
        let id = self.library.resolve(id);
        let ledger = &self.library.ledger;
        let lines = ledger.about(Book::Summaries, &id).chain(ledger.about(Book::Meta, &id));
        let ours = lines.filter(|(_, fields)| fields.contains_key("unit"));
        let taken: Vec<Rc<Slot>> = ours.map(|(slot, _)| Rc::clone(slot)).collect();
        self.take_out(&id, &taken);
    }

    /// Returns the lines to take out so that a memory says what is wanted; `None` where no earlier state does.
    ///
    /// The state that was read goes before all others: an undo leads there.
    fn way_back(
        &self,
        id: &str,
        wanted: &OriginRecord,
        raw: Option<&str>,
    ) -> Option<Vec<Rc<Slot>>> {
        let lines = self.lines(id);
        let read_at = raw.map(|raw| self.read_at(id, raw));
        let cuts = read_at.into_iter().chain((read_at.unwrap_or(0)..=lines.len()).rev());
        let mut ways = cuts.map(|cut| self.later(&lines, cut));
        ways.find(|taken| {
            let state = self.library.state(id, |slot, _| !taken.contains(slot));
            state.is_some_and(|state| meta::says_the_same(&state, wanted))
        })
    }

    /// Returns the lines of a memory, the one that counts last.
    fn lines(&self, id: &str) -> Vec<(&Rc<Slot>, &Fields)> {
        let mut lines: Vec<_> = self.library.ledger.about(Book::Meta, id).collect();
        lines.sort_by_key(|(slot, fields)| meta::order(fields, &slot.line));
        lines
    }

    /// Counts the lines up to the one that counted when the record was read.
    fn read_at(&self, id: &str, raw: &str) -> usize {
        let counted = |(slot, _): &(&Rc<Slot>, &Fields)| {
            raw.strip_suffix(&slot.line).is_some_and(|above| above.ends_with('\n'))
        };
        self.lines(id).iter().position(counted).map_or(0, |at| at + 1)
    }

    /// Returns the lines of ours from a position on.
    fn later(&self, lines: &[(&Rc<Slot>, &Fields)], cut: usize) -> Vec<Rc<Slot>> {
        let ours = lines[cut..].iter().filter(|(_, fields)| fields.contains_key("unit"));
        ours.map(|(slot, _)| Rc::clone(slot)).collect()
    }

    /// Takes lines out, the edges of their units at this memory, and what is left of units that have no
    /// memory any more.
    fn take_out(&mut self, id: &str, taken: &[Rc<Slot>]) {
        let Library { ledger, ids, .. } = &mut self.library;
        let unit = |slot: &Rc<Slot>| ledger.unit(slot).map(str::to_owned);
        let units: BTreeSet<String> = taken.iter().filter_map(unit).collect();
        let beside = ledger.about(Book::Edges, id).chain(ledger.about(Book::Runs, id));
        let beside: Vec<(Rc<Slot>, String)> =
            beside.filter_map(|(slot, _)| Some((Rc::clone(slot), unit(slot)?))).collect();
        for slot in taken {
            ledger.remove(slot, ids);
        }
        for (slot, unit) in &beside {
            let is_edge_of_taken = slot.sheet.book == Book::Edges && units.contains(unit);
            let mut lines = ledger.of_unit(unit);
            let is_left =
                lines.any(|(slot, _)| matches!(slot.sheet.book, Book::Meta | Book::Summaries));
            drop(lines);
            if is_edge_of_taken || !is_left {
                ledger.remove(slot, ids);
            }
        }
    }
}
