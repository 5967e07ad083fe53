//! The questions of a review in their order, where answers come from and where they go.

use std::cmp::Reverse;
use std::io::{self, BufRead};

use console::{Key, Term};
use memfold::execute::Selection;
use memfold_core::plan::{
    Action, ActionState, ActionType, ONE_SAYS_MORE, Risk, SavedAction, SavedPlan, SwapInput,
    UPDATE, superseding, swap_survivor,
};
use memfold_guard::text::excerpt;
use serde::Serialize;

use crate::commands::review::card::{Card, Material};
use crate::failure::Failure;
use crate::printer::{COLUMNS, Printer, cut, wrap};

const HELP: &str = "\
y  yes: `memfold apply` will do it
n  no: it will not be done; a later plan may propose it again
k  keep both: no, and never again while the texts stay as they are
s  swap: the next memory of the merge survives instead
a  yes to this and all that follow in which one only says more
Of two that contradict each other, or of which one is an update:
n  the newer one holds, o the older one holds: the other merges into it
b  both hold: they are never asked about again while the texts stay
s  skip: it stays open; y flags it for `memfold review --flags`
v  show the whole texts: [-only here-], {+only in the survivor or newer one+}
u  back: take the last answer or swap back
q  quit: what was answered is kept";

/// Characters and lines of a message.
const MESSAGE_CHARS: usize = 150;
const MESSAGE_LINES: usize = 2;

/// The counts of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Tally {
    /// Answered with yes.
    pub(crate) approved: u64,
    /// Answered with no.
    pub(crate) rejected: u64,
    /// Kept apart.
    pub(crate) kept_both: u64,
    /// Skipped, or not answered.
    pub(crate) undecided: u64,
    /// Whether Ctrl-C ended it.
    #[serde(skip)]
    pub(crate) interrupted: bool,
}

/// A person's way through the undecided changes of a plan, the most urgent ones first.
pub(crate) struct Walk<'a> {
    material: &'a Material<'a>,
    plan: SavedPlan,
    /// Places in the plan's actions, in the order of the questions.
    questions: Vec<usize>,
    at: usize,
    answers: Vec<Given>,
    /// The steps, the last one last.
    steps: Vec<Step>,
    message: Option<String>,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    Yes,
    No,
    KeepBoth,
    /// It stays open.
    Skipped,
}

/// The step that `u` reverts.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// The last answer.
    Answered,
    /// The last answer, which made a merge of a flag.
    Settled,
    /// A swap, after which the action was no longer this amendment.
    Swapped(Option<Box<Action>>),
}

/// Whether a walk goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Ask,
    Quit,
    Interrupted,
}

impl<'a> Walk<'a> {
    /// Makes the walk over the undecided changes that are chosen.
    pub(crate) fn new(material: &'a Material<'a>, plan: SavedPlan, chosen: &Selection) -> Self {
        let is_open = |at: &usize| {
            let action = &plan.actions[*at];
            action.is_change() && action.state == ActionState::Proposed && chosen.picks(action)
        };
        let mut questions: Vec<usize> = (0..plan.actions.len()).filter(is_open).collect();
        questions.sort_by_key(|&at| kind(plan.actions[at].effective()));
        Self {
            material,
            plan,
            questions,
            at: 0,
            answers: Vec::new(),
            steps: Vec::new(),
            message: None,
        }
    }

    /// Tells whether there is anything to ask.
    pub(crate) fn is_over(&self) -> bool {
        self.at == self.questions.len()
    }

    /// Asks until all is answered or the person quits.
    pub(crate) fn run(
        mut self,
        dialogue: &mut dyn Dialogue,
        store: &mut dyn ReviewStore,
    ) -> Result<Tally, Failure> {
        let mut next = Next::Ask;
        while next == Next::Ask && !self.is_over() {
            next = match dialogue.ask(&self.screen())? {
                Answer::Key('v') => {
                    dialogue.show(&self.card().whole())?;
                    Next::Ask
                }
                Answer::Key('?') => {
                    dialogue.show(HELP)?;
                    Next::Ask
                }
                Answer::Key('q') | Answer::End => Next::Quit,
                Answer::Interrupt => Next::Interrupted,
                Answer::Key(key) => {
                    self.answer(key, store);
                    Next::Ask
                }
                Answer::Other(other) => {
                    self.message = Some(unknown(&other));
                    Next::Ask
                }
            };
        }
        Ok(self.tally(next == Next::Interrupted))
    }

    fn action(&self) -> &SavedAction {
        &self.plan.actions[self.questions[self.at]]
    }

    fn card(&self) -> Card {
        let (number, total) = (self.at + 1, self.questions.len());
        Card::of(self.material, &self.plan, self.action(), number, total)
    }

    fn screen(&mut self) -> String {
        let message = self.message.take().map_or(String::new(), |message| {
            let lines = wrap(&excerpt(&message, MESSAGE_CHARS), COLUMNS);
            let lines = cut(lines, MESSAGE_LINES, COLUMNS).into_iter();
            lines.map(|line| line + "\n").collect()
        });
        let card = self.card().screen();
        let action = self.action().action.action;
        let keys = match action {
            ActionType::Merge => "y yes · n no · k keep both · s swap · ",
            ActionType::ProposeMerge => "y merge · s swap · k both · n not now · ",
            ActionType::FlagContradiction => "n newer · o older · b both · s skip · ",
            _ => "y yes · n no · ",
        };
        let alike = self.alike_ahead();
        let all = if alike > 1 {
            format!("In {alike} questions from here one only says more: a merges them all\n")
        } else {
            String::new()
        };
        format!("{card}\n\n{message}{all}{keys}v text · u back · q quit · ? help")
    }

    /// Does the action of a key; an impossible action becomes a message.
    fn answer(&mut self, key: char, store: &mut dyn ReviewStore) {
        let is_flag = self.action().effective().action == ActionType::FlagContradiction;
        let done = match key {
            'n' | 'o' if is_flag => self.settle(key == 'n', store),
            'b' if is_flag => self.keep_both(store),
            's' if is_flag => self.give(Given::Skipped, Ok(())),
            'y' => self.give(Given::Yes, store.approve(self.action())),
            'n' => self.give(Given::No, store.reject(self.action())),
            'a' if self.alike_ahead() > 0 => self.give_all(store),
            'k' => self.keep_both(store),
            's' => self.swap(store),
            'u' => self.back(store),
            other => Err(unknown(&other.to_string())),
        };
        self.message = done.err();
    }

    fn give(&mut self, given: Given, written: Result<(), Failure>) -> Result<(), String> {
        written.map_err(|failure| failure.message)?;
        self.answers.push(given);
        self.steps.push(Step::Answered);
        self.at += 1;
        Ok(())
    }

    /// How many of the questions from here on are proposals in which one only says more.
    fn alike_ahead(&self) -> usize {
        let alike = |at: &&usize| says_more(self.plan.actions[**at].effective());
        self.questions[self.at..].iter().take_while(alike).count()
    }

    /// Yes to all proposals from here on in which one only says more.
    fn give_all(&mut self, store: &mut dyn ReviewStore) -> Result<(), String> {
        for _ in 0..self.alike_ahead() {
            self.give(Given::Yes, store.approve(self.action()))?;
        }
        Ok(())
    }

    fn keep_both(&mut self, store: &mut dyn ReviewStore) -> Result<(), String> {
        let action = self.action();
        match action.action.action {
            ActionType::Merge | ActionType::ProposeMerge | ActionType::FlagContradiction => {
                let written = store.keep_both(action);
                self.give(Given::KeepBoth, written)
            }
            _ => Err("it speaks of one memory: there is nothing to keep apart".to_owned()),
        }
    }

    /// The newer or the older side of a flag takes the place of the other.
    fn settle(&mut self, newer: bool, store: &mut dyn ReviewStore) -> Result<(), String> {
        let saved = self.action();
        let flag = saved.effective();
        if let Some((id, what)) = self.material.changed(&self.plan, flag).first() {
            return Err(format!("it cannot be settled: {id} {what}"));
        }
        let side =
            |at: usize| flag.target_ids.get(at).and_then(|id| self.material.memories.get(id));
        let (Some(old), Some(new)) = (side(0), side(1)) else {
            return Err("a memory of it is gone".to_owned());
        };
        let (stays, goes) = if newer { (new, old) } else { (old, new) };
        let merge = superseding(flag, stays, goes, &self.material.policy.merge);
        store.amend(saved, Some(&merge)).map_err(|failure| failure.message)?;
        if let Err(failure) = store.approve(saved) {
            store.amend(saved, None).map_err(|failure| failure.message)?;
            return Err(failure.message);
        }
        self.plan.actions[self.questions[self.at]].amended = Some(merge);
        self.answers.push(Given::Yes);
        self.steps.push(Step::Settled);
        self.at += 1;
        Ok(())
    }

    fn swap(&mut self, store: &mut dyn ReviewStore) -> Result<(), String> {
        let saved = self.action();
        let action = saved.effective();
        if let Some((id, what)) = self.material.changed(&self.plan, action).first() {
            return Err(format!("no swap: {id} {what}"));
        }
        if let Some(label) = self.resting_on_survivor() {
            return Err(format!("no swap: {label} rests on this survivor; answer it with n first"));
        }
        let Material { memories, policy, guard, .. } = self.material;
        let swapped = swap_survivor(&SwapInput { action, memories, policy, guard })
            .map_err(|refusal| format!("no swap: {refusal}"))?;
        let is_as_planned = swapped.target_ids == saved.action.target_ids;
        let amended = (!is_as_planned).then_some(swapped);
        store.amend(saved, amended.as_ref()).map_err(|failure| failure.message)?;
        let before =
            std::mem::replace(&mut self.plan.actions[self.questions[self.at]].amended, amended);
        self.steps.push(Step::Swapped(before.map(Box::new)));
        Ok(())
    }

    /// The action that promotes or archives the survivor of the merge in question.
    fn resting_on_survivor(&self) -> Option<String> {
        let survivor = self.action().effective().target_ids.first()?;
        let rests = |other: &&SavedAction| {
            let action = other.effective();
            matches!(action.action, ActionType::Promote | ActionType::Archive)
                && action.target_ids.first() == Some(survivor)
                && other.state != ActionState::Rejected
                && !self.is_answered_with_no(other.position)
        };
        self.plan.actions.iter().find(rests).map(SavedAction::label)
    }

    fn is_answered_with_no(&self, position: usize) -> bool {
        let answered = self.questions.iter().zip(&self.answers);
        answered
            .into_iter()
            .any(|(&at, given)| self.plan.actions[at].position == position && *given != Given::Yes)
    }

    fn back(&mut self, store: &mut dyn ReviewStore) -> Result<(), String> {
        match self.steps.last() {
            None => return Err("there is nothing to take back".to_owned()),
            Some(Step::Swapped(before)) => {
                let before = before.as_deref().cloned();
                store.amend(self.action(), before.as_ref()).map_err(|failure| failure.message)?;
                self.plan.actions[self.questions[self.at]].amended = before;
            }
            Some(step @ (Step::Answered | Step::Settled)) => {
                let place = self.questions[self.at - 1];
                let last = &self.plan.actions[place];
                if self.answers.last() != Some(&Given::Skipped) {
                    store.take_back(last).map_err(|failure| failure.message)?;
                }
                if *step == Step::Settled {
                    store.amend(last, None).map_err(|failure| failure.message)?;
                    self.plan.actions[place].amended = None;
                }
                self.answers.pop();
                self.at -= 1;
            }
        }
        self.steps.pop();
        Ok(())
    }

    fn tally(&self, interrupted: bool) -> Tally {
        let count = |wanted| self.answers.iter().filter(|given| **given == wanted).count() as u64;
        Tally {
            approved: count(Given::Yes),
            rejected: count(Given::No),
            kept_both: count(Given::KeepBoth),
            undecided: (self.questions.len() - self.answers.len()) as u64 + count(Given::Skipped),
            interrupted,
        }
    }
}

fn says_more(action: &Action) -> bool {
    let reasons = &action.rationale.reasons;
    action.action == ActionType::ProposeMerge && reasons.iter().any(|it| it == ONE_SAYS_MORE)
}

/// The order of questions: proposals come last, of these the sure ones first, or as a judge scored
/// them; before them the largest changes come first; a flag changes no text.
fn kind(action: &Action) -> (bool, Reverse<Risk>, Reverse<bool>, ActionType, bool) {
    let signal = action.rationale.evidence.contradiction_signals.first();
    let is_update = signal.is_some_and(|signal| signal == UPDATE);
    let is_proposal = action.action == ActionType::ProposeMerge;
    let is_flag = action.action == ActionType::FlagContradiction;
    let risk = if is_flag { Risk::Identical } else { action.risk };
    let is_scored = action.rationale.evidence.probability_by.is_some();
    let is_sure = says_more(action) && !is_scored;
    (is_proposal, Reverse(risk), Reverse(is_sure), action.action, is_update)
}

fn unknown(answer: &str) -> String {
    format!("\"{answer}\" is no answer; ? tells them")
}

/// Lines of a screen that a page of text takes.
const PAGE_LINES: usize = 22;

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A key, or a line of one letter.
    Key(char),
    /// Anything else.
    Other(String),
    /// There is nobody to answer any more.
    End,
    /// Ctrl-C.
    Interrupt,
}

/// Shows texts and takes answers.
pub(crate) trait Dialogue {
    /// Shows a screen and waits for an answer.
    fn ask(&mut self, screen: &str) -> Result<Answer, Failure>;

    /// Shows a text of any length.
    fn show(&mut self, text: &str) -> Result<(), Failure>;
}

/// Answers are lines of stdin.
pub(crate) struct Lines<R> {
    /// Where they come from.
    pub(crate) input: R,
    /// Where questions go.
    pub(crate) printer: Printer,
    /// Questions go to stderr: stdout is for a document.
    pub(crate) aside: bool,
}

impl<R: BufRead> Dialogue for Lines<R> {
    fn ask(&mut self, screen: &str) -> Result<Answer, Failure> {
        self.show(screen)?;
        let mut line = String::new();
        let read = self.input.read_line(&mut line);
        match read.map_err(|error| Failure::new("read an answer", &error, None))? {
            0 => Ok(Answer::End),
            _ => Ok(answer(line.trim())),
        }
    }

    fn show(&mut self, text: &str) -> Result<(), Failure> {
        if self.aside {
            self.printer.note(text);
            return Ok(());
        }
        self.printer.data(&format!("{text}\n\n"))
    }
}

fn answer(line: &str) -> Answer {
    let mut characters = line.chars();
    match (characters.next(), characters.next()) {
        (Some(key), None) => Answer::Key(key.to_ascii_lowercase()),
        _ => Answer::Other(line.to_owned()),
    }
}

/// Answers are keys of the terminal.
pub(crate) struct Keyboard {
    /// The terminal.
    pub(crate) terminal: Term,
    /// Where questions go.
    pub(crate) printer: Printer,
}

impl Keyboard {
    fn key(&self) -> Result<Answer, Failure> {
        match self.terminal.read_key_raw() {
            Ok(Key::Char('\u{3}') | Key::CtrlC) => Ok(Answer::Interrupt),
            Ok(Key::Char('\u{4}')) => Ok(Answer::End),
            Ok(Key::Char(key)) => Ok(Answer::Key(key.to_ascii_lowercase())),
            Ok(Key::Escape) => Ok(Answer::Key('q')),
            Ok(_) => Ok(Answer::Other("this key".to_owned())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Answer::Interrupt),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Answer::End),
            Err(error) => Err(Failure::new("read a key", &error, None)),
        }
    }
}

impl Dialogue for Keyboard {
    fn ask(&mut self, screen: &str) -> Result<Answer, Failure> {
        self.printer.page(&self.terminal, screen)?;
        self.key()
    }

    fn show(&mut self, text: &str) -> Result<(), Failure> {
        let lines: Vec<&str> = text.lines().collect();
        let pages = lines.chunks(PAGE_LINES).count();
        for (number, page) in (1..).zip(lines.chunks(PAGE_LINES)) {
            let prompt = format!("page {number} of {pages}: any key goes on, q goes back");
            self.printer.page(&self.terminal, &format!("{}\n\n{prompt}", page.join("\n")))?;
            if self.key()? != Answer::Key('q') {
                continue;
            }
            return Ok(());
        }
        Ok(())
    }
}

/// Takes each answer at once. A failure leaves the action unchanged.
pub(crate) trait ReviewStore {
    /// The action is to be done.
    fn approve(&mut self, action: &SavedAction) -> Result<(), Failure>;

    /// The action is not to be done.
    fn reject(&mut self, action: &SavedAction) -> Result<(), Failure>;

    /// The action is not to be done, and its memories are kept apart from now on.
    fn keep_both(&mut self, action: &SavedAction) -> Result<(), Failure>;

    /// The action is another one; `None` is as planned.
    fn amend(&mut self, action: &SavedAction, amended: Option<&Action>) -> Result<(), Failure>;

    /// The last answer about the action counts no longer.
    fn take_back(&mut self, action: &SavedAction) -> Result<(), Failure>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_letter_are_keys() {
        assert_eq!(answer("Y"), Answer::Key('y'));
        assert_eq!(answer("yes"), Answer::Other("yes".to_owned()));
        assert_eq!(answer(""), Answer::Other(String::new()));
    }

    #[test]
    fn the_end_of_a_pipe_is_an_answer() {
        let printer = Printer::new(true, false, true);
        let mut lines = Lines { input: &b"n\r\n y"[..], printer, aside: true };
        let answers: Vec<_> = (0..3).map(|_| lines.ask("?").unwrap()).collect();
        assert_eq!(answers, [Answer::Key('n'), Answer::Key('y'), Answer::End]);
    }
}
