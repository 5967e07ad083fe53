//! Which time does a text name, and when did the events of a memory happen?
//!
//! [`resolve`] finds the times that an English text names and computes them from the moment it was
//! written, in the writer's zone: "yesterday" in a memory of 2025-03-02 is 2025-03-01.
//! [`answer()`] answers a question about time from memories, with the steps written out.
//!
//! Conventions, where people differ:
//!
//! * Weeks start on Monday; a weekend is Saturday and Sunday.
//! * "last week|month|quarter|year" is the whole calendar period before, "the last 3 weeks" the three
//!   weeks before the day of writing, "the next 3 weeks" the three from the day after.
//! * "N days|weeks|months|years ago" is one day; its grain says how roughly it was meant.
//! * "last Friday" is the nearest one before, "this Friday" that of the week, "next Friday" that of
//!   the week after.
//! * Morning is 05:00 to 12:00, afternoon to 18:00, evening to 24:00, night 20:00 to 05:00.
//! * Ranges of days hold their last day; ranges of clock times end at the second time.
//! * A weekday, month or day without a year lies before the writing where the clause tells of the
//!   past, after it where it tells of the future. Where it shows neither, the confidence says so;
//!   taken is the nearest for a day with its month, else the one before: memories mostly report.
//!
//! Nothing is guessed in silence: a confidence below [`Confidence::CLEAR`] comes with a note.
//!
//! The text is split into tokens, of which words know their meaning (a weekday, a unit, a part of
//! the day, a number). From each token on, the rules are tried in their order: ranges, then times of
//! a day, then days, then periods. A rule moves a position over the tokens it takes and computes a
//! local interval; the first that fits wins, and reading goes on behind it. Two functions place most
//! times: `calendar::period` (a day, a unit and an offset give an interval) and `At::by_tense` (the
//! tense chooses one of a series of years, months or weekends).

mod resolve;
mod tokens;
mod calendar;
mod reader;
mod grammar;
mod times;
mod answer;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Candidate, answer, wants_time};
pub use resolve::{Confidence, Grain, Relation, TimeInterval, TimeReference, resolve};
