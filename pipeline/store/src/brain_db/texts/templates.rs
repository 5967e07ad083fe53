//! [`templated`]: what a group says, in one of two wordings.

use memfold_datasets::generate::Shuffle;

use super::slots::Slot;

/// Groups that say what no other group says: as many as there are numbers of rows.
pub const GROUPS_MAX: u64 = 1 << 32;

/// Two wordings of one statement; `{…}` are slots that a group fills the same way in both.
///
/// What stands between slots tells templates and wordings apart and where a slot ends, so that a text can
/// be read back. Slots of each template have [`STATEMENTS`] values together, or more.
const TEMPLATES: [(&str, &str); 16] = [
    (
        "The staging server of {project} in {place} runs {tool} {version} on port {port}.",
        "{project}'s staging server in {place} runs {tool} {version} on port {port}.",
    ),
    (
        "{person} prefers {tool} for {topic} since {date}.",
        "Since {date}, {person} prefers {tool} for {topic}.",
    ),
    (
        "Upgraded {tool} in {project} to version {version} on {date}.",
        "On {date}, upgraded {tool} in {project} to version {version}.",
    ),
    (
        "Ticket #{number} ({topic}) is assigned to {person}.",
        "Ticket #{number} ({topic}): assigned to {person}.",
    ),
    (
        "The {topic} budget of {project} is {number} EUR.",
        "{project}: the {topic} budget is {number} EUR.",
    ),
    (
        "{person} decided on {date} to keep {project} on {tool} {version}.",
        "On {date} {person} decided to keep {project} on {tool} {version}.",
    ),
    (
        "Run `{tool} deploy --env {project} --tag {version} --port {port}` before every release.",
        "Before every release, run `{tool} deploy --env {project} --tag {version} --port {port}`.",
    ),
    (
        "The meeting with {person} about {topic} is on {date} at {time}.",
        "On {date} at {time}: the meeting with {person} about {topic}.",
    ),
    (
        "Backups of {project} are made at {time} and kept for {days} days in {place}.",
        "{project}: backups are made at {time} and kept for {days} days in {place}.",
    ),
    (
        "{person} lives in {place} and works on {project} with {tool} since {date}.",
        "{person} works on {project} with {tool} since {date} and lives in {place}.",
    ),
    (
        "The timeout of the {topic} service in {project} is {number} ms.",
        "In {project}, the timeout of the {topic} service is {number} ms.",
    ),
    (
        "Build {number} of {project} failed in the {topic} step on {date}.",
        "On {date}, build {number} of {project} failed in the {topic} step.",
    ),
    (
        "{project} stores its {topic} data in /srv/{place}/{number}.",
        "The {topic} data of {project} is stored in /srv/{place}/{number}.",
    ),
    (
        "Measured {number} requests per second for {project} with {tool} {version}.",
        "{project} with {tool} {version}: measured {number} requests per second.",
    ),
    (
        "The invoice {number} from {place} was paid on {date} by {person}.",
        "{person} paid the invoice {number} from {place} on {date}.",
    ),
    (
        "Never restart {project} in {place} during the {topic} run between {period}.",
        "Between {period}, never restart {project} in {place} during the {topic} run.",
    ),
];

/// Every this many members of a group say it in the other wording.
const REWORDED_EVERY: u64 = 5;

/// Statements that are made of each template.
const STATEMENTS: u64 = GROUPS_MAX / TEMPLATES.len() as u64;

/// Returns the text of `member` in a group: what it says depends on (`seed`, `group`) alone, and
/// most members say it in the same words.
///
/// No two groups below [`GROUPS_MAX`] have a text in common: a group's number is permuted and written down in
/// names, numbers, dates, versions and places as in the digits of a number. Beyond, texts come again.
#[must_use]
pub fn templated(group: u64, member: u64, seed: u64) -> String {
    let (template, number) = statement(group, seed);
    let (first, second) = TEMPLATES[template];
    let wording = if member % REWORDED_EVERY == REWORDED_EVERY - 1 { second } else { first };
    let values = values(first, number);
    let mut text = String::with_capacity(wording.len() + 60);
    for part in parts(wording) {
        match part {
            Part::Words(words) => text.push_str(words),
            Part::Slot(slot) => {
                let at = values.iter().position(|(other, _)| *other == slot);
                let (_, value) = values[at.expect("both wordings have the same slots")];
                slot.write(value, &mut text);
            }
        }
    }
    text
}

/// Returns a group's template and which of its fillings: no two groups have both in common.
fn statement(group: u64, seed: u64) -> (usize, u64) {
    let statement = Shuffle::new(GROUPS_MAX, seed).apply(group % GROUPS_MAX);
    let template = (statement / STATEMENTS) as usize;
    // Spread over all fillings, of which there are more than are used.
    let fillings = Shuffle::new(filling_count(TEMPLATES[template].0), seed);
    (template, fillings.apply(statement % STATEMENTS))
}

/// A part of a wording.
#[derive(Debug, Clone, Copy)]
enum Part {
    Words(&'static str),
    Slot(Slot),
}

/// Returns the parts of a wording in order; words may be empty.
fn parts(wording: &'static str) -> impl Iterator<Item = Part> {
    // Between braces stands every second piece.
    wording.split(['{', '}']).enumerate().map(|(at, piece)| match at % 2 {
        0 => Part::Words(piece),
        _ => Part::Slot(Slot::named(piece)),
    })
}

fn slots(wording: &'static str) -> impl Iterator<Item = Slot> {
    parts(wording).filter_map(|part| match part {
        Part::Slot(slot) => Some(slot),
        Part::Words(_) => None,
    })
}

/// Returns in how many ways the slots of a wording can be filled.
fn filling_count(wording: &'static str) -> u64 {
    slots(wording).map(Slot::value_count).product()
}

/// Returns the value of each slot in the filling of that number: its digits, each in the base of its slot.
fn values(wording: &'static str, mut number: u64) -> Vec<(Slot, u64)> {
    let mut digit = |slot: Slot| {
        let value = number % slot.value_count();
        number /= slot.value_count();
        (slot, value)
    };
    slots(wording).map(&mut digit).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use memfold_guard::{Guard, Verdict};
    use memfold_plan::policy::Policy;

    /// Numbers of groups from the whole range, its ends and small ones among them.
    fn groups() -> impl Iterator<Item = u64> {
        const STEP: u64 = 214_763;
        (0..2_000).chain((0..GROUPS_MAX).step_by(STEP as usize)).chain([GROUPS_MAX - 1])
    }

    /// Reads template and filling back; each part ends where the next one's words begin.
    fn read_back(text: &str) -> Vec<(usize, u64)> {
        let wordings = TEMPLATES.iter().enumerate();
        let wordings = wordings.flat_map(|(at, (first, second))| [(at, *first), (at, *second)]);
        wordings.filter_map(|(at, wording)| Some((at, filling(wording, at, text)?))).collect()
    }

    fn filling(wording: &'static str, template: usize, text: &str) -> Option<u64> {
        let parts: Vec<Part> = parts(wording).collect();
        let mut rest = text;
        let mut read = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            match *part {
                Part::Words(words) => rest = rest.strip_prefix(words)?,
                Part::Slot(slot) => {
                    let Some(Part::Words(next)) = parts.get(at + 1) else { unreachable!() };
                    let is_last = at + 2 == parts.len();
                    let end = if is_last { rest.rfind(next) } else { rest.find(next) }?;
                    read.push((slot, slot.read(&rest[..end])?));
                    rest = &rest[end..];
                }
            }
        }
        let value = |slot| read.iter().find(|(other, _)| *other == slot).map(|(_, value)| value);
        // The digits of a number, the lowest first.
        let digits: Vec<Slot> = slots(TEMPLATES[template].0).collect();
        let number = |number, &slot: &Slot| Some(number * slot.value_count() + value(slot)?);
        if rest.is_empty() { digits.iter().rev().try_fold(0, number) } else { None }
    }

    #[test]
    fn what_groups_say_can_be_read_back() {
        for group in groups() {
            for (member, seed) in [(0, 1), (4, 1), (0, u64::MAX)] {
                let text = templated(group, member, seed);
                assert_eq!(read_back(&text), [statement(group, seed)], "group {group}: {text}");
            }
        }
    }

    #[test]
    fn there_is_room_for_every_group() {
        assert_eq!(STATEMENTS * TEMPLATES.len() as u64, GROUPS_MAX);
        for (first, second) in TEMPLATES {
            assert!(filling_count(first) >= STATEMENTS, "{first}: {}", filling_count(first));
            let [mut slots, mut others] =
                [first, second].map(|wording| slots(wording).collect::<Vec<_>>());
            slots.sort_unstable();
            others.sort_unstable();
            assert_eq!(slots, others, "{first}");
            assert!(slots.windows(2).all(|pair| pair[0] != pair[1]), "{first}");
        }
    }

    #[test]
    fn groups_have_no_text_in_common() {
        const GROUPS: usize = 100_000;
        let wordings = |group| [0, 4].map(|member| templated(group, member, 7));
        let texts: BTreeSet<_> = (0..GROUPS as u64).flat_map(wordings).collect();
        assert_eq!(texts.len(), 2 * GROUPS);
        assert!(texts.iter().all(|text| !text.contains(['{', '}'])));
    }

    #[test]
    fn a_group_says_one_thing_in_two_wordings() {
        let guard = Guard::new(&Policy::builtin().guard).unwrap();
        for group in 0..500 {
            let texts: BTreeSet<_> = (0..10).map(|member| templated(group, member, 7)).collect();
            let readings: Vec<_> = texts.iter().map(|text| guard.read(text)).collect();
            assert_eq!(readings.len(), 2, "{texts:?}");
            let judgement = guard.judge(&readings[0], &readings[1]);
            assert_eq!(judgement.verdict, Verdict::Compatible, "{texts:?} {judgement:?}");
        }
    }

    #[test]
    fn texts_are_the_same_on_every_machine() {
        assert_eq!(templated(3, 0, 1), templated(3, 1, 1));
        assert_ne!(templated(3, 0, 1), templated(3, 0, 2));
        assert_eq!(templated(3, 0, 1), templated(3 + GROUPS_MAX, 0, 1));
        let texts: String = (0..1000).map(|row| templated(row / 2, row, 1) + "\n").collect();
        assert_eq!(&blake3::hash(texts.as_bytes()).to_hex()[..16], "299999c7eeb5b37a");
    }
}
