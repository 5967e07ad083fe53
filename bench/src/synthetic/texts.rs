//! [`templated`]: the statement of a group, in one of two wordings.

use std::fmt;
use std::fmt::Write as _;

use super::Shuffle;

/// Groups with a statement of their own: as many as there are numbers of rows.
pub(crate) const GROUPS_MAX: u64 = 1 << 32;

/// Two wordings of one statement; `{…}` are slots that a group fills the same way in both.
///
/// The text between slots distinguishes templates and wordings and shows where a slot ends, so that
/// a text can be read back. Slots of each template have [`STATEMENTS`] values together, or more.
const TEMPLATES: [(&str, &str); 16] = [
    (
        "The staging server of {project} in {place} runs {tool} {version} on port {port}.",
        "Reminder: the staging server of {project} in {place} runs {tool} {version} on port {port}.",
    ),
    (
        "{person} prefers {tool} for {topic} since {date}.",
        "FYI: {person} prefers {tool} for {topic} since {date}.",
    ),
    (
        "Upgraded {tool} in {project} to version {version} on {date}.",
        "Note: upgraded {tool} in {project} to version {version} on {date}.",
    ),
    (
        "Ticket #{number} ({topic}) is assigned to {person}.",
        "Ticket {number} ({topic}) is assigned to {person}.",
    ),
    (
        "The {topic} budget of {project} is {number} EUR.",
        "Note: the {topic} budget of {project} is {number} EUR.",
    ),
    (
        "{person} decided on {date} to keep {project} on {tool} {version}.",
        "FYI: {person} decided on {date} to keep {project} on {tool} {version}.",
    ),
    (
        "Run `{tool} deploy --env {project} --tag {version} --port {port}` before every release.",
        "Please run `{tool} deploy --env {project} --tag {version} --port {port}` before every release.",
    ),
    (
        "The meeting with {person} about {topic} is on {date} at {time}.",
        "Reminder: the meeting with {person} about {topic} is on {date} at {time}.",
    ),
    (
        "Backups of {project} are made at {time} and kept for {days} days in {place}.",
        "Reminder: backups of {project} are made at {time} and kept for {days} days in {place}.",
    ),
    (
        "{person} lives in {place} and works on {project} with {tool} since {date}.",
        "Memo: {person} lives in {place} and works on {project} with {tool} since {date}.",
    ),
    (
        "The timeout of the {topic} service in {project} is {number} ms.",
        "The timeout of the {topic} service in {project} is {number} milliseconds.",
    ),
    (
        "Build {number} of {project} failed in the {topic} step on {date}.",
        "Note: build {number} of {project} failed in the {topic} step on {date}.",
    ),
    (
        "{project} stores its {topic} data in /srv/{place}/{number}.",
        "{project} stores its {topic} data in `/srv/{place}/{number}`.",
    ),
    (
        "Measured {number} requests per second for {project} with {tool} {version}.",
        "Measured {number} requests/s for {project} with {tool} {version}.",
    ),
    (
        "The invoice {number} from {place} was paid on {date} by {person}.",
        "FYI: the invoice {number} from {place} was paid on {date} by {person}.",
    ),
    (
        "Never restart {project} in {place} during the {topic} run between {period}.",
        "Please never restart {project} in {place} during the {topic} run between {period}.",
    ),
];

/// Every this many members of a group say it in the other wording.
const REWORDED_EVERY: u64 = 5;

/// Statements that are made of each template.
const STATEMENTS: u64 = GROUPS_MAX / TEMPLATES.len() as u64;

/// Returns the text of `member` in a group: its statement depends on (`seed`, `group`) alone, and
/// most members say it in the same words.
///
/// No two groups below ten million have a text in common: a group's number is permuted and encoded
/// in names, numbers, dates, versions and places as in the digits of a number. Beyond, texts come
/// again.
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

/// A place in a template that a group fills with one of numbered values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Slot {
    /// First name and surname.
    Person,
    Project,
    Tool,
    Topic,
    Place,
    /// Of four to seven digits.
    Number,
    Port,
    Days,
    /// Major, minor and patch.
    Version,
    /// A day of 2021 to 2026 that every month has.
    Date,
    /// A minute before 22:00.
    Time,
    /// From a minute before 22:00 to 10 to 119 minutes later.
    Period,
}

// Lists of words, many in a line.
const FIRST_NAMES: [&str; 32] = [
    "Amara", "Bjorn", "Chen", "Dalia", "Emeka", "Farah", "Goran", "Hana", "Ivo", "Jana", "Kofi",
    "Lena", "Mateo", "Nadia", "Oskar", "Priya", "Rafael", "Selma", "Tomasz", "Ulrike", "Vikram",
    "Wanjiru", "Ximena", "Yusuf", "Zofia", "Anouk", "Dmitri", "Elif", "Giulia", "Henrik", "Ines",
    "Kenji",
];
#[rustfmt::skip]
const SURNAMES: [&str; 32] = [
    "Adeyemi", "Bergman", "Castillo", "Dvorak", "Eriksen", "Fontaine", "Gupta", "Haddad", "Ivanova",
    "Jensen", "Kowalski", "Lindqvist", "Moreau", "Nakamura", "Okafor", "Petrov", "Quispe", "Rahman",
    "Santos", "Tanaka", "Uchida", "Vasquez", "Weber", "Yilmaz", "Zhang", "Almeida", "Bianchi",
    "Dimitrov", "Horvath", "Kaur", "Mwangi", "Novak",
];
const PROJECTS: [&str; 32] = [
    "Atlas", "Borealis", "Cobalt", "Dynamo", "Ember", "Falcon", "Granite", "Horizon", "Indigo",
    "Juniper", "Kestrel", "Lantern", "Meridian", "Nimbus", "Orchid", "Pelican", "Quartz", "Raven",
    "Saffron", "Tundra", "Umbra", "Vortex", "Willow", "Xenon", "Yarrow", "Zephyr", "Aurora",
    "Basalt", "Cypress", "Delphi", "Everest", "Fjord",
];
#[rustfmt::skip]
const TOOLS: [&str; 24] = [
    "ruff", "terraform", "pgbouncer", "kubectl", "webpack", "gradle", "redis", "nginx", "poetry",
    "ansible", "grafana", "sqlite", "pytest", "mypy", "esbuild", "rsync", "ffmpeg", "haproxy",
    "logstash", "clickhouse", "podman", "pandoc", "celery", "buildkit",
];
#[rustfmt::skip]
const TOPICS: [&str; 24] = [
    "billing", "search", "login", "export", "caching", "logging", "training", "travel", "indexing",
    "migration", "review", "onboarding", "payroll", "telemetry", "scheduling", "reporting",
    "licensing", "invoicing", "monitoring", "ranking", "translation", "checkout", "messaging",
    "archiving",
];
#[rustfmt::skip]
const PLACES: [&str; 32] = [
    "Lisbon", "Nairobi", "Osaka", "Quito", "Riga", "Tallinn", "Utrecht", "Valencia", "Windhoek",
    "Zagreb", "Bergen", "Cork", "Dakar", "Edinburgh", "Freiburg", "Genoa", "Helsinki", "Izmir",
    "Jaipur", "Krakow", "Lagos", "Montevideo", "Nantes", "Oslo", "Porto", "Rotterdam", "Seville",
    "Turin", "Uppsala", "Vienna", "Wellington", "Yokohama",
];

const NUMBER_MIN: u64 = 1000;
const PORT_MIN: u64 = 1024;
const DAYS_MIN: u64 = 2;
const MAJORS: u64 = 12;
const MINORS: u64 = 40;
const PATCHES: u64 = 30;
const YEAR_MIN: u64 = 2021;
const YEARS: u64 = 6;
const DAYS_OF_EVERY_MONTH: u64 = 28;
const MINUTES: u64 = 22 * 60;
const PERIOD_MINUTES_MIN: u64 = 10;
const PERIOD_LENGTHS: u64 = 110;

impl Slot {
    /// Returns the slot that templates call `{name}`.
    ///
    /// # Panics
    /// When there is none.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "person" => Self::Person,
            "project" => Self::Project,
            "tool" => Self::Tool,
            "topic" => Self::Topic,
            "place" => Self::Place,
            "number" => Self::Number,
            "port" => Self::Port,
            "days" => Self::Days,
            "version" => Self::Version,
            "date" => Self::Date,
            "time" => Self::Time,
            "period" => Self::Period,
            unknown => unreachable!("template names the unknown slot {unknown}"),
        }
    }

    /// Returns how many values it has.
    pub(crate) const fn value_count(self) -> u64 {
        match self {
            Self::Person => (FIRST_NAMES.len() * SURNAMES.len()) as u64,
            Self::Project => PROJECTS.len() as u64,
            Self::Tool => TOOLS.len() as u64,
            Self::Topic => TOPICS.len() as u64,
            Self::Place => PLACES.len() as u64,
            Self::Number => 9_000_000,
            Self::Port => 64_000,
            Self::Days => 900,
            Self::Version => MAJORS * MINORS * PATCHES,
            Self::Date => YEARS * 12 * DAYS_OF_EVERY_MONTH,
            Self::Time => MINUTES,
            Self::Period => MINUTES * PERIOD_LENGTHS,
        }
    }

    /// Appends the value of that number, below [`Self::value_count`]; two numbers never read the same.
    pub(crate) fn write(self, value: u64, text: &mut String) {
        let split = |count: u64| (value / count, value % count);
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Person => {
                let (first, last) = split(SURNAMES.len() as u64);
                write!(text, "{} {}", FIRST_NAMES[first as usize], SURNAMES[last as usize])
            }
            Self::Project => write!(text, "{}", PROJECTS[value as usize]),
            Self::Tool => write!(text, "{}", TOOLS[value as usize]),
            Self::Topic => write!(text, "{}", TOPICS[value as usize]),
            Self::Place => write!(text, "{}", PLACES[value as usize]),
            Self::Number => write!(text, "{}", NUMBER_MIN + value),
            Self::Port => write!(text, "{}", PORT_MIN + value),
            Self::Days => write!(text, "{}", DAYS_MIN + value),
            Self::Version => {
                let (rest, patch) = split(PATCHES);
                write!(text, "{}.{}.{patch}", rest / MINORS, rest % MINORS)
            }
            Self::Date => {
                let (months, day) = split(DAYS_OF_EVERY_MONTH);
                write!(text, "{}-{:02}-{:02}", YEAR_MIN + months / 12, months % 12 + 1, day + 1)
            }
            Self::Time => write!(text, "{}", Clock(value)),
            Self::Period => {
                let (start, length) = split(PERIOD_LENGTHS);
                let end = start + PERIOD_MINUTES_MIN + length;
                write!(text, "{} and {}", Clock(start), Clock(end))
            }
        };
    }
}

/// Minutes since midnight, displayed as hours and minutes.
struct Clock(u64);

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use memfold_core::policy::Policy;
    use memfold_guard::Guard;
    use memfold_guard::Verdict;

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
            assert_eq!(judgement.verdict, Verdict::Same, "{texts:?} {judgement:?}");
        }
    }

    #[test]
    fn texts_are_the_same_on_every_machine() {
        assert_eq!(templated(3, 0, 1), templated(3, 1, 1));
        assert_ne!(templated(3, 0, 1), templated(3, 0, 2));
        assert_eq!(templated(3, 0, 1), templated(3 + GROUPS_MAX, 0, 1));
        let texts: String = (0..1000).map(|row| templated(row / 2, row, 1) + "\n").collect();
        assert_eq!(&blake3::hash(texts.as_bytes()).to_hex()[..16], "4169a4da97d654c7");
    }
}

#[cfg(test)]
mod slots_tests {
    use super::*;

    impl Slot {
        /// Returns the number of a value from how it reads.
        pub(crate) fn read(self, text: &str) -> Option<u64> {
            let among =
                |words: &[&str], text| Some(words.iter().position(|word| *word == text)? as u64);
            let number = |text: &str| text.parse::<u64>().ok();
            let clock = |text: &str| {
                let (hours, minutes) = text.split_once(':')?;
                Some(number(hours)? * 60 + number(minutes)?)
            };
            let three = |separator| {
                let mut parts = text.split(separator).map(number);
                Some([parts.next()??, parts.next()??, parts.next()??])
            };
            match self {
                Self::Person => {
                    let (first, last) = text.split_once(' ')?;
                    let count = SURNAMES.len() as u64;
                    Some(among(&FIRST_NAMES, first)? * count + among(&SURNAMES, last)?)
                }
                Self::Project => among(&PROJECTS, text),
                Self::Tool => among(&TOOLS, text),
                Self::Topic => among(&TOPICS, text),
                Self::Place => among(&PLACES, text),
                Self::Number => number(text)?.checked_sub(NUMBER_MIN),
                Self::Port => number(text)?.checked_sub(PORT_MIN),
                Self::Days => number(text)?.checked_sub(DAYS_MIN),
                Self::Version => {
                    let [major, minor, patch] = three('.')?;
                    Some((major * MINORS + minor) * PATCHES + patch)
                }
                Self::Date => {
                    let [year, month, day] = three('-')?;
                    let months = (year - YEAR_MIN) * 12 + month - 1;
                    Some(months * DAYS_OF_EVERY_MONTH + day - 1)
                }
                Self::Time => clock(text),
                Self::Period => {
                    let (start, end) = text.split_once(" and ")?;
                    let length = clock(end)? - clock(start)? - PERIOD_MINUTES_MIN;
                    Some(clock(start)? * PERIOD_LENGTHS + length)
                }
            }
        }
    }

    #[test]
    fn values_read_differently() {
        let slots = [
            "person", "project", "tool", "topic", "place", "number", "port", "days", "version",
            "date", "time", "period",
        ];
        for slot in slots.map(Slot::named) {
            let count = slot.value_count();
            for value in (0..count).step_by(1 + count as usize / 50_000).chain([count - 1]) {
                let mut text = String::new();
                slot.write(value, &mut text);
                assert_eq!(slot.read(&text), Some(value), "{slot:?}: {text}");
            }
        }
    }
}
