//! [`Slot`]: what can be filled into a template, and in how many ways.

use std::fmt::{self, Write as _};

/// A place in a template that a group fills with one of numbered values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Slot {
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

const FIRST_NAMES: [&str; 32] = [
    "Amara", "Bjorn", "Chen", "Dalia", "Emeka", "Farah", "Goran", "Hana", "Ivo", "Jana", "Kofi",
    "Lena", "Mateo", "Nadia", "Oskar", "Priya", "Rafael", "Selma", "Tomasz", "Ulrike", "Vikram",
    "Wanjiru", "Ximena", "Yusuf", "Zofia", "Anouk", "Dmitri", "Elif", "Giulia", "Henrik", "Ines",
    "Kenji",
];
const SURNAMES: [&str; 32] = [
    "Adeyemi",
    "Bergman",
    "Castillo",
    "Dvorak",
    "Eriksen",
    "Fontaine",
    "Gupta",
    "Haddad",
    "Ivanova",
    "Jensen",
    "Kowalski",
    "Lindqvist",
    "Moreau",
    "Nakamura",
    "Okafor",
    "Petrov",
    "Quispe",
    "Rahman",
    "Santos",
    "Tanaka",
    "Uchida",
    "Vasquez",
    "Weber",
    "Yilmaz",
    "Zhang",
    "Almeida",
    "Bianchi",
    "Dimitrov",
    "Horvath",
    "Kaur",
    "Mwangi",
    "Novak",
];
const PROJECTS: [&str; 32] = [
    "Atlas", "Borealis", "Cobalt", "Dynamo", "Ember", "Falcon", "Granite", "Horizon", "Indigo",
    "Juniper", "Kestrel", "Lantern", "Meridian", "Nimbus", "Orchid", "Pelican", "Quartz", "Raven",
    "Saffron", "Tundra", "Umbra", "Vortex", "Willow", "Xenon", "Yarrow", "Zephyr", "Aurora",
    "Basalt", "Cypress", "Delphi", "Everest", "Fjord",
];
const TOOLS: [&str; 24] = [
    "ruff",
    "terraform",
    "pgbouncer",
    "kubectl",
    "webpack",
    "gradle",
    "redis",
    "nginx",
    "poetry",
    "ansible",
    "grafana",
    "sqlite",
    "pytest",
    "mypy",
    "esbuild",
    "rsync",
    "ffmpeg",
    "haproxy",
    "logstash",
    "clickhouse",
    "podman",
    "pandoc",
    "celery",
    "buildkit",
];
const TOPICS: [&str; 24] = [
    "billing",
    "search",
    "login",
    "export",
    "caching",
    "logging",
    "training",
    "travel",
    "indexing",
    "migration",
    "review",
    "onboarding",
    "payroll",
    "telemetry",
    "scheduling",
    "reporting",
    "licensing",
    "invoicing",
    "monitoring",
    "ranking",
    "translation",
    "checkout",
    "messaging",
    "archiving",
];
const PLACES: [&str; 32] = [
    "Lisbon",
    "Nairobi",
    "Osaka",
    "Quito",
    "Riga",
    "Tallinn",
    "Utrecht",
    "Valencia",
    "Windhoek",
    "Zagreb",
    "Bergen",
    "Cork",
    "Dakar",
    "Edinburgh",
    "Freiburg",
    "Genoa",
    "Helsinki",
    "Izmir",
    "Jaipur",
    "Krakow",
    "Lagos",
    "Montevideo",
    "Nantes",
    "Oslo",
    "Porto",
    "Rotterdam",
    "Seville",
    "Turin",
    "Uppsala",
    "Vienna",
    "Wellington",
    "Yokohama",
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
    pub(super) fn named(name: &str) -> Self {
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
    pub(super) const fn value_count(self) -> u64 {
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
    pub(super) fn write(self, value: u64, text: &mut String) {
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

/// Minutes since midnight, shown as hours and minutes.
struct Clock(u64);

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Slot {
        /// Returns the number of a value from how it reads.
        pub(in super::super) fn read(self, text: &str) -> Option<u64> {
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
