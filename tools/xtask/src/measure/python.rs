//! What the wheel for Python does: joins on Ray, and checks of memories in the interpreter's process.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::data::{self, Rows, Store};
use super::session::Session;
use crate::python;
use crate::results::{ask, said};

const RAY_THRESHOLD: f64 = 0.95;
/// Cores of the cluster, as far as this machine has them.
const RAY_CORES: [usize; 3] = [1, 2, 16];

/// Joins on clusters of one and more cores, each time in a new folder, and in one piece beside.
pub(super) fn ray(session: &Session<'_>) -> Result<(), String> {
    let python = python::to_measure(session.root, &["numpy", "ray"])?;
    let here = std::thread::available_parallelism().map_or(1, usize::from);
    let sizes = [100_000].into_iter().chain(session.full.then_some(1_000_000));
    for rows in Rows::real().into_iter().chain(sizes.map(Rows::synthetic)) {
        let path = rows.file(session.root, &session.memfold)?;
        for cores in RAY_CORES.into_iter().filter(|cores| *cores <= here) {
            let mut join = script(session, &python, "ray_join.py");
            join.arg("--data").arg(&path).args(["--threshold", &RAY_THRESHOLD.to_string()]);
            let mut line = in_new_folder(session.root, |folder| {
                ask(join.args(["--cores", &cores.to_string()]).arg("--tiles").arg(folder))
            })?;
            line["what"] = "join on ray".into();
            line["data"] = rows.name.clone().into();
            line["recipe"] = rows.recipe().into();
            session.keep(vec![line])?;
        }
    }
    Ok(())
}

/// Checks of memories by `memfold.Memory.check`.
pub(super) fn checks(session: &Session<'_>) -> Result<(), String> {
    let python = python::to_measure(session.root, &["numpy"])?;
    for store in Store::looked_up(session.full).filter(|store| store.rows >= 30_000) {
        let path = store.file(session.root, &session.memfold)?;
        said(session.memfold(&["index", "build", "--json", "--quiet"]).arg(&path))?;
        let mut line = ask(script(session, &python, "checks.py").arg("--store").arg(&path))?;
        line["data"] = store.name.into();
        line["recipe"] = store.recipe().into();
        session.keep(vec![line])?;
    }
    Ok(())
}

fn script(session: &Session<'_>, python: &Path, name: &str) -> Command {
    let mut command = Command::new(python);
    command.arg(session.root.join("bench/python").join(name));
    command
}

fn in_new_folder(
    root: &Path,
    work: impl FnOnce(&PathBuf) -> Result<Value, String>,
) -> Result<Value, String> {
    let folder = root.join(data::FOLDER).join("ray-tiles");
    let _gone = std::fs::remove_dir_all(&folder);
    let result = work(&folder);
    let _gone = std::fs::remove_dir_all(&folder);
    result
}
