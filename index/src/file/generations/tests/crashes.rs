//! A failure, a death and a loss of power at each step of publishing.
//!
//! A writer that fails at every step from the k-th on is, to the disk, one that died there. A loss of power also takes
//! what was not made durable: contents of files, and names in folders.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex};

use super::*;

type Trace = Arc<Mutex<Vec<Step>>>;

/// From which step on the disk refuses.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Never,
    Once(usize),
    From(usize),
}

fn faulty(fault: Fault) -> (Disk, Trace) {
    let trace = Trace::default();
    let steps = Arc::clone(&trace);
    let hook = move |step: Step| {
        let mut steps = steps.lock().unwrap();
        match fault {
            // Steps after death do not happen.
            Fault::From(first) if steps.len() >= first => return Err(io::ErrorKind::Other.into()),
            _ => steps.push(step),
        }
        match fault {
            Fault::Once(only) if steps.len() == only + 1 => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    };
    (Disk::hooked(hook), trace)
}

/// Publishes the next generation on such a disk.
fn publish_on(folder: &Path, fault: Fault) -> (Result<u64, GenerationError>, Vec<Step>) {
    let (disk, trace) = faulty(fault);
    let run = || {
        let writer = GenerationWriter::begin_on(disk, folder, FileMode::PRIVATE, LONG)?;
        let stamp = writer.number();
        write_sections(writer.create(INDEX_FILE)?, FileKind::Index, stamp);
        writer.create(COLUMNS_FILE)?.write_all(&columns(stamp)).unwrap();
        writer.publish()
    };
    let result = run();
    let steps = trace.lock().unwrap().clone();
    (result, steps)
}

/// A folder in which so many generations were published.
fn published(generations: usize) -> (TempDir, PathBuf) {
    let place = place();
    let folder = place.path().join("index");
    (0..generations).for_each(|_| assert!(publish(&folder) > 0));
    (place, folder)
}

/// Asserts that the old or the new generation is live, and that a new writer mends everything.
fn assert_recovers(folder: &Path, before: u64, context: &str) {
    let found = live(folder);
    assert!(found == before || found == before + 1, "{found} is live: {context}");
    let next = publish(folder);
    assert!(next > found, "{context}");
    assert_eq!(live(folder), next, "{context}");
    let mut expected = vec!["LOCK".to_owned(), "MANIFEST".into()];
    expected.extend((found > 0).then(|| names::generation(found)));
    expected.push(names::generation(next));
    assert_eq!(list(folder), expected, "{context}");
    assert_eq!(list(&folder.join(names::generation(next))), [COLUMNS_FILE, INDEX_FILE]);
}

#[test]
fn steps_come_in_the_order_that_makes_them_safe() {
    let (_place, folder) = published(2);
    let (result, steps) = publish_on(&folder, Fault::Never);
    assert_eq!(result.unwrap(), 3);
    let short = |path: &Path| {
        let path = path.strip_prefix(&folder).unwrap().to_string_lossy().into_owned();
        if path.is_empty() { ".".into() } else { path }
    };
    let steps: Vec<_> = steps
        .iter()
        .map(|step| match step {
            Step::CreateFolder(path) => format!("mkdir {}", short(path)),
            Step::CreateFile(path) => format!("create {}", short(path)),
            Step::Write(path) => format!("write {}", short(path)),
            Step::SetMode(path) => format!("chmod {}", short(path)),
            Step::SyncFile(path) => format!("fsync {}", short(path)),
            Step::SyncFolder(path) => format!("fsync {}", short(path)),
            Step::Rename(from, to) => format!("rename {} {}", short(from), short(to)),
            Step::Remove(path) => format!("remove {}", short(path)),
        })
        .collect();
    let expected = [
        "remove MANIFEST.pending",
        "mkdir gen-000003.pending",
        "create gen-000003.pending/index.mfi",
        "chmod gen-000003.pending/index.mfi",
        "create gen-000003.pending/columns.arrow",
        "chmod gen-000003.pending/columns.arrow",
        "chmod gen-000003.pending/columns.arrow",
        "fsync gen-000003.pending/columns.arrow",
        "chmod gen-000003.pending/index.mfi",
        "fsync gen-000003.pending/index.mfi",
        "chmod gen-000003.pending",
        "fsync gen-000003.pending",
        "rename gen-000003.pending gen-000003",
        "fsync .",
        "remove MANIFEST.pending",
        "create MANIFEST.pending",
        "chmod MANIFEST.pending",
        "write MANIFEST.pending",
        "fsync MANIFEST.pending",
        "rename MANIFEST.pending MANIFEST",
        "fsync .",
        "remove MANIFEST.pending",
        "rename gen-000001 gen-000001.pending",
        "remove gen-000001.pending",
    ];
    assert_eq!(steps, expected);
}

/// Tells whether this step makes a generation live.
fn is_manifest(step: &Step) -> bool {
    matches!(step, Step::Rename(_, to) if to.ends_with("MANIFEST"))
}

#[test]
fn a_failure_at_any_step_is_an_error_and_leaves_no_mess() {
    for generations in [0, 1, 2] {
        let mut failures = 0;
        for step in 0.. {
            let (_place, folder) = published(generations);
            let (result, steps) = publish_on(&folder, Fault::Once(step));
            if steps.len() <= step {
                assert_eq!(result.unwrap() as usize, generations + 1, "nothing failed");
                break;
            }
            let context = format!("{:?} after {generations}: {result:?}", steps[step]);
            if let Err(error) = &result {
                failures += 1;
                assert!(error.hint().unwrap().contains("free some space"), "{context}");
            }
            // Live already, only its name was not made durable.
            let last_sync = step > 0 && is_manifest(&steps[step - 1]);
            let is_live = result.is_ok() || last_sync;
            assert_eq!(live(&folder), generations as u64 + u64::from(is_live), "{context}");
            assert_recovers(&folder, generations as u64, &context);
        }
        assert!(failures >= 19, "{failures}");
    }
}

/// Where a path of the trace is after the renames that followed.
fn whereabouts(path: &Path, later: &[Step]) -> PathBuf {
    let mut path = path.to_owned();
    for step in later {
        if let Step::Rename(from, to) = step
            && let Ok(rest) = path.strip_prefix(from)
        {
            path = if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) };
        }
    }
    path
}

/// Tells whether a name in `folder` that a step made is durable after the steps that followed.
fn is_name_durable(path: &Path, later: &[Step]) -> bool {
    (0..later.len()).any(|number| {
        let folder = whereabouts(path, &later[..number]);
        matches!(&later[number], Step::SyncFolder(synced) if Some(&**synced) == folder.parent())
    })
}

fn is_content_durable(path: &Path, later: &[Step]) -> bool {
    (0..later.len()).any(|number| {
        let file = whereabouts(path, &later[..number]);
        matches!(&later[number], Step::SyncFile(synced) if *synced == file)
    })
}

/// Which of the names that are not durable are lost.
#[derive(Debug, Clone, Copy)]
enum Loss {
    /// So many of the latest.
    Latest(usize),
    /// This one, counted from the latest, and no other: names may become durable in any order.
    Only(usize),
}

/// Takes back what no sync made durable: contents, and these names. Returns whether there are as many names.
fn lose_power(steps: &[Step], old_manifest: Option<&[u8]>, loss: Loss) -> bool {
    for (number, step) in steps.iter().enumerate() {
        let later = &steps[number + 1..];
        if let Step::CreateFile(path) = step
            && !is_content_durable(path, later)
            && let Ok(file) = File::options().write(true).open(whereabouts(path, later))
        {
            file.set_len(file.metadata().unwrap().len() / 2).unwrap();
        }
    }
    let (first, last) = match loss {
        Loss::Latest(count) => (0, count),
        Loss::Only(number) => (number, number + 1),
    };
    let mut count = 0;
    for (number, step) in steps.iter().enumerate().rev() {
        let later = &steps[number + 1..];
        if count == last {
            break;
        }
        if !is_uncertain_name(step, later) {
            continue;
        }
        count += 1;
        if count > first {
            // What came later is either lost by now or stays.
            let kept = if first == 0 { &[] } else { later };
            lose_name(step, kept, old_manifest);
        }
    }
    count == last
}

/// Tells whether a step made a name that nothing has made durable, and that no later step gave up.
fn is_uncertain_name(step: &Step, later: &[Step]) -> bool {
    let path = match step {
        Step::CreateFolder(path) | Step::CreateFile(path) => path,
        Step::Rename(_, to) => to,
        _ => return false,
    };
    let given_up = |step: &Step| matches!(step, Step::Rename(from, _) if from == path);
    !is_name_durable(path, later) && !later.iter().any(given_up)
}

fn lose_name(step: &Step, kept: &[Step], old_manifest: Option<&[u8]>) {
    match step {
        Step::CreateFolder(path) => drop(fs::remove_dir_all(whereabouts(path, kept))),
        Step::CreateFile(path) => drop(fs::remove_file(whereabouts(path, kept))),
        Step::Rename(from, to) => {
            drop(fs::rename(whereabouts(to, kept), from));
            if let Some(manifest) = old_manifest.filter(|_| is_manifest(step)) {
                fs::write(to, manifest).unwrap();
            }
        }
        _ => {}
    }
}

/// Publishes until `step`, loses power, asserts what is left and returns what was live; `None` where less can be lost.
fn lose_power_at(step: usize, generations: usize, loss: Loss) -> Option<u64> {
    let (_place, folder) = published(generations);
    let old_manifest = fs::read(folder.join("MANIFEST")).ok();
    let (result, steps) = publish_on(&folder, Fault::From(step));
    // What is swept afterwards is superfluous either way.
    let swept = |step: &Step| matches!(step, Step::Rename(from, _) if from.ends_with("gen-000001"));
    let steps = &steps[..steps.iter().position(swept).unwrap_or(steps.len())];
    if !lose_power(steps, old_manifest.as_deref(), loss) {
        return None;
    }
    let context = format!("power lost before step {step}: {loss:?}");
    let found = live(&folder);
    assert!(result.is_err() || found == generations as u64 + 1, "published, yet lost: {context}");
    assert_recovers(&folder, generations as u64, &context);
    Some(found)
}

#[test]
fn a_loss_of_power_at_any_step_leaves_the_old_or_the_new_generation() {
    let mut cases = 0;
    for generations in [0, 2] {
        let (_place, folder) = published(generations);
        let steps = publish_on(&folder, Fault::Never).1.len();
        let mut outcomes = BTreeSet::<u64>::new();
        for step in 0..=steps {
            for names in 0.. {
                let losses = [Loss::Latest(names), Loss::Only(names)];
                let ends = losses.map(|loss| lose_power_at(step, generations, loss));
                if ends == [None; 2] {
                    break;
                }
                outcomes.extend(ends.iter().flatten());
                cases += ends.iter().flatten().count();
            }
        }
        assert!(outcomes.iter().eq(&[generations as u64, generations as u64 + 1]), "{outcomes:?}");
    }
    assert!(cases > 150, "{cases}");
}

/// Seals a second segment until `step`, loses power, asserts what is left and returns how many segments there are.
fn lose_power_while_sealing(step: usize, loss: Loss) -> Option<usize> {
    let (_place, folder) = published(1);
    seal(&mut open(&folder));
    let (disk, trace) = faulty(Fault::From(step));
    let mut generation = open(&folder);
    let run = |generation: &mut Generation| {
        let writer = FreshWriter::begin_on(disk, generation, FileMode::PRIVATE, LONG)?;
        write_fresh(&writer)?;
        writer.publish()
    };
    let result = run(&mut generation);
    let steps = trace.lock().unwrap().clone();
    if !lose_power(&steps, None, loss) {
        return None;
    }
    let mut seen = open(&folder);
    assert_whole(&seen);
    let found = seen.fresh().len();
    assert!(result.is_err() || found == 2, "published, yet lost before step {step}: {loss:?}");
    assert_eq!(seal(&mut seen) as usize, found + 1);
    assert_whole(&open(&folder));
    assert!(!list(seen.folder()).iter().any(|name| name.ends_with(names::PENDING)));
    Some(found)
}

#[test]
fn a_loss_of_power_while_sealing_leaves_the_segment_whole_or_away() {
    let mut outcomes = BTreeSet::<usize>::new();
    for step in 0..12 {
        for names in 0.. {
            let losses = [Loss::Latest(names), Loss::Only(names)];
            let ends = losses.map(|loss| lose_power_while_sealing(step, loss));
            if ends == [None; 2] {
                break;
            }
            outcomes.extend(ends.iter().flatten());
        }
    }
    assert!(outcomes.iter().eq(&[1, 2]), "{outcomes:?}");
}
