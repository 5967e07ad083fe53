//! Other processes: this test binary runs itself as a child, which is killed or left to compete.

use std::process::{Child, Command, Stdio};

use super::*;

/// Where a child writes, and how many generations.
const FOLDER: &str = "MEMFOLD_TEST_CHILD_FOLDER";
const COUNT: &str = "MEMFOLD_TEST_CHILD_COUNT";

#[test]
#[ignore = "started by the tests below, as another process"]
fn child_that_publishes() {
    let (Some(folder), Ok(count)) = (std::env::var_os(FOLDER), std::env::var(COUNT)) else {
        return;
    };
    let folder = PathBuf::from(folder);
    for _ in 0..count.parse().unwrap() {
        let writer = GenerationWriter::begin(&folder, FileMode::PRIVATE, LONG).unwrap();
        fill(&writer);
        writer.publish().unwrap();
        seal_somewhere(&folder);
    }
}

fn seal_somewhere(folder: &Path) {
    match try_seal(&mut open(folder)) {
        // Or two generations of another process came in between.
        Ok(_) | Err(GenerationError::Gone { .. }) => {}
        Err(error) => panic!("{error:?}"),
    }
}

fn start(folder: &Path, count: u32) -> Child {
    let name = concat!(module_path!(), "::child_that_publishes");
    let name = name.split_once("::").unwrap().1;
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(COUNT, count.to_string())
        // A failure is seen by the status.
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_writer_harms_nobody() {
    const KILLS: u64 = 40;
    let place = place();
    let mut last = publish(place.path());
    let mut left_behind = 0;
    for kill in 0..KILLS {
        let mut child = start(place.path(), 100_000);
        while live(place.path()) <= last {
            assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
        }
        // Publishing takes about a millisecond: kills fall on all of it.
        std::thread::sleep(Duration::from_micros(kill * 2_654_435_761 % 2_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = live(place.path());
        assert!(found > last, "{found} after {last}");
        left_behind += u32::from(list(place.path()).len() != 4);
        // Nothing waits for the dead.
        last = publish(place.path());
        assert_eq!(live(place.path()), last);
        let expected =
            ["LOCK".into(), "MANIFEST".into(), names::generation(found), names::generation(last)];
        assert_eq!(list(place.path()), expected);
    }
    assert!(left_behind > 0, "no kill fell into publishing");
}

#[test]
fn processes_take_turns_and_readers_see_whole_generations() {
    let place = place();
    publish(place.path());
    let mut children: Vec<_> = (0..3).map(|_| start(place.path(), 60)).collect();
    let mut last = 1;
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        let number = live(place.path());
        assert!(number >= last, "{number} after {last}");
        last = number;
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(live(place.path()), 181);
}
