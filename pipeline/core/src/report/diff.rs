//! Word diffs: from what goes to what stays.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a piece of a diff is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PieceKind {
    /// In both texts.
    Same,
    /// In the first text only.
    Gone,
    /// In the second text only.
    New,
}

/// Words in a row of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Piece {
    /// What they are.
    pub kind: PieceKind,
    /// The words, with single spaces between.
    pub text: String,
}

/// Tables larger than this are not filled: the differing middles then stand as a whole.
const TABLE_CELLS_MAX: usize = 250_000;

/// Returns the pieces that lead from one text to another, by a longest common subsequence of words.
///
/// Quadratic in the words between the common beginning and the common end, up to 250,000 cells; beyond
/// that linear: everything between is gone and new.
#[must_use]
pub fn word_diff(from: &str, to: &str) -> Vec<Piece> {
    let from: Vec<&str> = from.split_whitespace().collect();
    let to: Vec<&str> = to.split_whitespace().collect();
    let head = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let (from_rest, to_rest) = (&from[head..], &to[head..]);
    let tail = from_rest.iter().rev().zip(to_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (gone, end) = from_rest.split_at(from_rest.len() - tail);
    let new = &to_rest[..to_rest.len() - tail];

    let mut pieces = Pieces::default();
    from[..head].iter().for_each(|word| pieces.push(PieceKind::Same, word));
    if gone.len() * new.len() <= TABLE_CELLS_MAX {
        push_subsequence(&mut pieces, gone, new);
    } else {
        gone.iter().for_each(|word| pieces.push(PieceKind::Gone, word));
        new.iter().for_each(|word| pieces.push(PieceKind::New, word));
    }
    end.iter().for_each(|word| pieces.push(PieceKind::Same, word));
    pieces.0
}

#[derive(Default)]
struct Pieces(Vec<Piece>);

impl Pieces {
    fn push(&mut self, kind: PieceKind, word: &str) {
        match self.0.last_mut() {
            Some(last) if last.kind == kind => {
                last.text.push(' ');
                last.text.push_str(word);
            }
            _ => self.0.push(Piece { kind, text: word.to_owned() }),
        }
    }
}

/// Walks a longest common subsequence; what goes stands before what comes.
fn push_subsequence(pieces: &mut Pieces, gone: &[&str], new: &[&str]) {
    let width = new.len() + 1;
    let mut lengths = vec![0_u32; (gone.len() + 1) * width];
    for i in (0..gone.len()).rev() {
        for j in (0..new.len()).rev() {
            lengths[i * width + j] = if gone[i] == new[j] {
                lengths[(i + 1) * width + j + 1] + 1
            } else {
                lengths[(i + 1) * width + j].max(lengths[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < gone.len() || j < new.len() {
        if i < gone.len() && j < new.len() && gone[i] == new[j] {
            pieces.push(PieceKind::Same, gone[i]);
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || (i < gone.len() && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])
        {
            pieces.push(PieceKind::Gone, gone[i]);
            i += 1;
        } else {
            pieces.push(PieceKind::New, new[j]);
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn side(pieces: &[Piece], without: PieceKind) -> String {
        let words: Vec<&str> =
            pieces.iter().filter(|p| p.kind != without).map(|p| p.text.as_str()).collect();
        words.join(" ")
    }

    #[test]
    fn what_goes_stands_before_what_comes() {
        let pieces = word_diff("port is 8080 now", "port is 9090 now");
        let shown: Vec<_> = pieces.iter().map(|p| (p.kind, p.text.as_str())).collect();
        use PieceKind::{Gone, New, Same};
        assert_eq!(shown, [(Same, "port is"), (Gone, "8080"), (New, "9090"), (Same, "now")]);
    }

    #[test]
    fn long_texts_are_diffed_as_a_whole() {
        let (from, to) = ("a ".repeat(2_000) + "x", "b ".repeat(2_000) + "x");
        assert_eq!(word_diff(&from, &to).len(), 3);
    }

    proptest! {
        #[test]
        fn both_texts_can_be_read_back(from in "([abc] ){0,12}", to in "([abc] ){0,12}") {
            let pieces = word_diff(&from, &to);
            let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            prop_assert_eq!(side(&pieces, PieceKind::New), plain(&from));
            prop_assert_eq!(side(&pieces, PieceKind::Gone), plain(&to));
        }
    }
}
