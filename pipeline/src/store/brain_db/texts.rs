//! Short agent memories made from templates, for generated stores of any size.

use std::fmt::Write as _;

/// Two wordings of one statement; `{…}` are slots that a group fills the same way in both.
const TEMPLATES: [(&str, &str); 16] = [
    (
        "The staging server of {project} listens on port {port}.",
        "{project}'s staging server listens on port {port}.",
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
        "Run `{tool} deploy --env {project} --port {port}` before every release.",
        "Before every release, run `{tool} deploy --env {project} --port {port}`.",
    ),
    (
        "The meeting with {person} about {topic} is on {date} at {time}.",
        "On {date} at {time}: the meeting with {person} about {topic}.",
    ),
    (
        "Backups of {project} are kept for {days} days in {place}.",
        "{project}: backups are kept for {days} days in {place}.",
    ),
    (
        "{person} lives in {place} and works on {project} with {tool}.",
        "{person} works on {project} with {tool} and lives in {place}.",
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
        "Never restart {project} during the {topic} run between {time} and {time2}.",
        "Between {time} and {time2}, never restart {project} during the {topic} run.",
    ),
];

const PEOPLE: [&str; 16] = [
    "Amara", "Bjorn", "Chen", "Dalia", "Emeka", "Farah", "Goran", "Hana", "Ivo", "Jana", "Kofi",
    "Lena", "Mateo", "Nadia", "Oskar", "Priya",
];
const PROJECTS: [&str; 16] = [
    "Atlas", "Borealis", "Cobalt", "Dynamo", "Ember", "Falcon", "Granite", "Horizon", "Indigo",
    "Juniper", "Kestrel", "Lantern", "Meridian", "Nimbus", "Orchid", "Pelican",
];
const TOOLS: [&str; 12] = [
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
];
const TOPICS: [&str; 12] = [
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
];
const PLACES: [&str; 12] = [
    "Lisbon", "Nairobi", "Osaka", "Quito", "Riga", "Tallinn", "Utrecht", "Valencia", "Windhoek",
    "Zagreb", "Bergen", "Cork",
];

/// Every this many members of a group say it in the other wording.
const REWORDED_EVERY: u64 = 5;

/// Returns the text of `member` in a group: what it says depends on (`seed`, `group`) alone, and
/// most members say it in the same words.
///
/// Groups differ in names, numbers, dates, versions or paths, so that they are different facts.
#[must_use]
pub fn templated(group: u64, member: u64, seed: u64) -> String {
    let mut draws = Draws { state: mix(seed) ^ mix(group.wrapping_add(1)) };
    let (first, second) = pick(&TEMPLATES, draws.next());
    let wording = if member % REWORDED_EVERY == REWORDED_EVERY - 1 { second } else { first };
    let slots = Slots::draw(&mut draws);
    let mut text = String::with_capacity(wording.len() + 40);
    let mut rest = wording;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let Some((name, tail)) = after.split_once('}') else { break };
        slots.fill(name, &mut text);
        rest = tail;
    }
    text.push_str(rest);
    text
}

struct Slots {
    person: &'static str,
    project: &'static str,
    tool: &'static str,
    topic: &'static str,
    place: &'static str,
    number: u64,
    port: u64,
    days: u64,
    version: (u64, u64, u64),
    date: (u64, u64, u64),
    minutes: u64,
}

impl Slots {
    fn draw(draws: &mut Draws) -> Self {
        Self {
            person: pick(&PEOPLE, draws.next()),
            project: pick(&PROJECTS, draws.next()),
            tool: pick(&TOOLS, draws.next()),
            topic: pick(&TOPICS, draws.next()),
            place: pick(&PLACES, draws.next()),
            number: 1000 + draws.below(9_000_000),
            port: 1024 + draws.below(64_000),
            days: 2 + draws.below(900),
            version: (draws.below(12), draws.below(40), draws.below(30)),
            date: (2021 + draws.below(6), 1 + draws.below(12), 1 + draws.below(28)),
            minutes: draws.below(22 * 60),
        }
    }

    fn fill(&self, name: &str, text: &mut String) {
        let clock = |minutes: u64| format!("{:02}:{:02}", minutes / 60, minutes % 60);
        // Writing to a String cannot fail.
        let _ = match name {
            "person" => write!(text, "{}", self.person),
            "project" => write!(text, "{}", self.project),
            "tool" => write!(text, "{}", self.tool),
            "topic" => write!(text, "{}", self.topic),
            "place" => write!(text, "{}", self.place),
            "number" => write!(text, "{}", self.number),
            "port" => write!(text, "{}", self.port),
            "days" => write!(text, "{}", self.days),
            "version" => write!(text, "{}.{}.{}", self.version.0, self.version.1, self.version.2),
            "date" => write!(text, "{}-{:02}-{:02}", self.date.0, self.date.1, self.date.2),
            "time" => write!(text, "{}", clock(self.minutes)),
            "time2" => write!(text, "{}", clock(self.minutes + 95)),
            unknown => unreachable!("template names the unknown slot {unknown}"),
        };
    }
}

/// splitmix64.
struct Draws {
    state: u64,
}

impl Draws {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Bounds are far below 2^32, so that the remainder's bias does not show.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn pick<T: Copy>(items: &[T], draw: u64) -> T {
    items[(draw % items.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_group_says_one_thing_in_two_wordings_at_most() {
        for group in 0..200 {
            let texts: BTreeSet<_> = (0..10).map(|member| templated(group, member, 7)).collect();
            assert_eq!(texts.len(), 2, "{texts:?}");
            let words = |text: &String| {
                let lower = text.to_lowercase().replace("'s ", " ");
                let tokens = lower.split(|c: char| !c.is_alphanumeric());
                tokens.filter(|t| t.chars().any(|c| c.is_ascii_digit())).map(String::from).collect()
            };
            let numbers: BTreeSet<BTreeSet<String>> = texts.iter().map(words).collect();
            assert_eq!(numbers.len(), 1, "{texts:?}");
        }
    }

    #[test]
    fn groups_differ_and_seeds_repeat() {
        let texts: BTreeSet<_> = (0..10_000).map(|group| templated(group, 0, 1)).collect();
        assert!(texts.len() > 9_950, "only {} of 10,000 groups differ", texts.len());
        assert_eq!(templated(3, 0, 1), templated(3, 0, 1));
        assert_ne!(templated(3, 0, 1), templated(3, 0, 2));
        assert!(texts.iter().all(|text| !text.contains(['{', '}'])));
    }
}
