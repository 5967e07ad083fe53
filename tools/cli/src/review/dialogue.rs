//! [`Dialogue`]: asking a person, at a keyboard or through a pipe.

use std::io::{self, BufRead};

use console::{Key, Term};

use crate::failure::Failure;
use crate::printer::Printer;

/// Lines of a screen that a page of text takes.
const PAGE_LINES: usize = 22;

/// What a person answers.
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
