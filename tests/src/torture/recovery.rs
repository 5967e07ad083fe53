//! Operations that a disturbed store must still support.

use std::path::Path;

use super::fixture::{expect_none, latest_plan, latest_run, left_running};
use super::memfold::{self, Ended};
use super::{Fixture, Trial};
use crate::{Draws, StoreImage, diff, integrity};

/// The disturbed command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// `consolidate --execute`.
    Execute,
    /// `undo --execute` of an undisturbed run.
    Undo,
}

/// How a disturbed store was brought to a whole state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recovery {
    /// `apply` of the plan, to the end state of an undisturbed run.
    Applied,
    /// `consolidate --execute` again, to the same.
    Replanned,
    /// `undo`, to the original.
    Undone,
    /// Undo of the interrupted undo, to the end state of the run.
    Redone,
}

impl Phase {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Execute, Self::Undo];

    /// Copies the store that the command works on.
    #[must_use]
    pub fn trial(self, fixture: &Fixture<'_>) -> Trial {
        match self {
            Self::Execute => fixture.fresh(),
            Self::Undo => fixture.executed(),
        }
    }

    /// Returns the command.
    #[must_use]
    pub fn command(self, fixture: &Fixture<'_>, store: &Path) -> Vec<String> {
        match self {
            Self::Execute => memfold::execute(store),
            Self::Undo => memfold::undo(store, &fixture.run_id),
        }
    }

    /// Draws a way to recover.
    #[must_use]
    pub fn draw(self, draws: &mut Draws) -> Recovery {
        match self {
            Self::Execute => {
                draws.pick(&[Recovery::Applied, Recovery::Replanned, Recovery::Undone])
            }
            Self::Undo => draws.pick(&[Recovery::Undone, Recovery::Undone, Recovery::Redone]),
        }
    }

    /// Checks that the command did all of its work.
    ///
    /// # Errors
    /// When it did not.
    pub fn check_done(self, fixture: &Fixture<'_>, store: &Path) -> Result<(), String> {
        let recovery = if self == Self::Execute { Recovery::Applied } else { Recovery::Undone };
        recovery.check(fixture, store)
    }
}

impl Recovery {
    /// Recovers, and compares every bit with the undisturbed state.
    ///
    /// # Errors
    /// When the store is not as it should be before or afterwards.
    pub fn recover(self, phase: Phase, fixture: &Fixture<'_>, store: &Path) -> Result<(), String> {
        fixture.check(store)?;
        let ended = self.run(phase, fixture, store)?;
        let said = ended.as_ref().map_or_else(|| "nothing to do".to_owned(), Ended::summary);
        // Equal to a state in which every fact was searched, bit by bit and answer by answer.
        let fine = expect_none("integrity", integrity(store));
        let fine = fine.and_then(|()| self.check(fixture, store));
        fine.map_err(|error| format!("{self:?} after a disturbed {phase:?} ({said}): {error}"))?;
        match left_running(store).map_err(|error| error.to_string())? {
            Some(run) => Err(format!("run {run} is still said to be running")),
            None => Ok(()),
        }
    }

    /// Runs the command that leads there; `None` where none is needed.
    fn run(
        self,
        phase: Phase,
        fixture: &Fixture<'_>,
        store: &Path,
    ) -> Result<Option<Ended>, String> {
        let failed = |error: rusqlite::Error| error.to_string();
        let arguments = match (self, phase) {
            (Self::Applied, _) => match latest_plan(store).map_err(failed)? {
                Some(plan) => memfold::apply(store, &plan),
                None => memfold::execute(store),
            },
            (Self::Replanned, _) => memfold::execute(store),
            (Self::Undone, Phase::Undo) => memfold::undo(store, &fixture.run_id),
            (Self::Undone, Phase::Execute) => match latest_run(store, "execute").map_err(failed)? {
                Some(run) => memfold::undo(store, &run),
                None => return Ok(None),
            },
            (Self::Redone, _) => match latest_run(store, "undo").map_err(failed)? {
                Some(run) => memfold::undo(store, &run),
                None => return Ok(None),
            },
        };
        let ended = fixture.memfold.run(&arguments);
        if ended.code == Some(0) || self.check(fixture, store).is_ok() {
            return Ok(Some(ended));
        }
        Err(format!("{self:?} after a disturbed {phase:?}: {}", ended.summary()))
    }

    fn check(self, fixture: &Fixture<'_>, store: &Path) -> Result<(), String> {
        let image = StoreImage::of(store);
        match self {
            Self::Undone => expect_none("unlike the original", diff(&fixture.before, &image)),
            Self::Applied | Self::Replanned | Self::Redone => {
                expect_none("unlike an undisturbed run", diff(&fixture.after, &image.without_run()))
            }
        }
    }
}
