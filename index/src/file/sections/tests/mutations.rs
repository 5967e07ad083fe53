//! A fuzzer in a loop: files mutated by a fixed stream of numbers, so every failure can be repeated.

use super::damage::{is_accepted, seal};
use super::*;

/// splitmix64, the whole state of a run.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn number(&mut self) -> u64 {
        const EDGES: [u64; 12] = [
            0,
            1,
            7,
            64,
            4_095,
            4_096,
            65_536,
            u32::MAX as u64,
            1 << 32,
            1 << 56,
            u64::MAX - 4_095,
            u64::MAX,
        ];
        match self.below(3) {
            0 => self.next(),
            1 => self.next() % 20_000,
            _ => EDGES[self.below(EDGES.len())],
        }
    }

    /// A place in the file; most of them where numbers decide.
    fn place(&mut self, length: usize) -> usize {
        match self.below(4) {
            0 => self.below(length),
            1 => self.below(128),
            2 => 1_024 + self.below(160),
            _ => (length + 7 - self.below(32)).saturating_sub(8),
        }
        .min(length.saturating_sub(1))
    }
}

fn mutate(bytes: &mut Vec<u8>, draws: &mut Draws) {
    let at = draws.place(bytes.len());
    match draws.below(8) {
        0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << draws.below(8),
        2 | 3 => {
            let number = draws.number().to_le_bytes();
            let field = [4, 8][draws.below(2)];
            let end = bytes.len().min(at / 4 * 4 + field);
            let start = (at / 4 * 4).min(end);
            bytes[start..end].copy_from_slice(&number[..end - start]);
        }
        4 => bytes.truncate(draws.below(bytes.len() + 1)),
        5 => bytes.extend(std::iter::repeat_n(draws.next() as u8, draws.below(9_000))),
        6 => {
            let length = draws.below(5_000).min(bytes.len() - at);
            let to = draws.below(bytes.len() - length + 1);
            bytes.copy_within(at..at + length, to);
        }
        _ => {
            let entry = |number: usize| 1_024 + number * 32;
            if bytes.len() >= entry(8) {
                bytes.copy_within(entry(draws.below(4))..entry(4), entry(draws.below(3)));
            }
        }
    }
}

/// Asks for every section as everything and touches both ends.
fn use_all(file: &SectionFile) {
    fn touch<T: Element + PartialEq>(file: &SectionFile, id: SectionId) -> bool {
        file.section::<T>(id).is_ok_and(|values| values.first() == values.last())
    }
    for id in (1..=SectionId::MAX).map(SectionId::new) {
        touch::<u8>(file, id);
        touch::<i8>(file, id);
        touch::<u16>(file, id);
        touch::<u32>(file, id);
        touch::<i32>(file, id);
        touch::<u64>(file, id);
        touch::<i64>(file, id);
        touch::<f32>(file, id);
        touch::<f64>(file, id);
    }
    for section in file.sections() {
        assert!(section.offset + section.bytes <= file.byte_count());
    }
}

/// What became of the files of a run.
#[derive(Debug, Default)]
struct Outcome {
    executions: u64,
    opened: u64,
    accepted: u64,
}

fn run(executions: u64) -> Outcome {
    let intact = small_file();
    let mut outcome = Outcome::default();
    for seed in 0..executions {
        let mut draws = Draws(seed);
        let mut bytes = intact.clone();
        for _ in 0..1 + draws.below(4) {
            mutate(&mut bytes, &mut draws);
        }
        let forged = draws.below(4) != 0;
        if forged {
            seal(&mut bytes);
        }
        outcome.executions += 1;
        if let Ok(file) = open(&bytes) {
            outcome.opened += 1;
            use_all(&file);
        }
        if is_accepted(&bytes) {
            outcome.accepted += 1;
            assert!(forged || bytes == intact, "seed {seed}: a change went unnoticed");
        }
    }
    outcome
}

#[test]
fn mutated_files_are_errors_or_files() {
    let outcome = run(10_000);
    // The stream is worth something only if it gets behind every door.
    assert_eq!(outcome.executions, 10_000);
    assert!(outcome.opened > 500 && outcome.accepted > 100, "{outcome:?}");
    assert!(outcome.opened > outcome.accepted && outcome.opened < 9_000, "{outcome:?}");
}

#[test]
#[ignore = "a million files; run with --release"]
fn a_million_mutated_files_are_errors_or_files() {
    assert_eq!(run(1_000_000).executions, 1_000_000);
}
