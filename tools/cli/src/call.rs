//! [`Call`]: the options and the output of one call, which every command gets.

use memfold::ops::{self, Settings, StorePath};
use serde::Serialize;

use crate::args::{GlobalArgs, WritingArgs};
use crate::failure::{Exit, Failure};
use crate::printer::Printer;

/// The global options of a call, and where its output goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) global: &'a GlobalArgs,
    pub(crate) printer: Printer,
}

impl Call<'_> {
    /// Loads the configuration for a store, and reports its notices.
    pub(crate) fn settings(self, store: &StorePath) -> Result<Settings, Failure> {
        let settings = Settings::load(&self.global.sources, Some(store), &[])?;
        settings.show_notices(&self.printer);
        Ok(settings)
    }

    /// Prints a result: as a document with `--json`, else as text.
    pub(crate) fn show(
        self,
        document: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<Exit, Failure> {
        self.printer.show(self.global.json, document, text)
    }

    /// Prints a result as [`Self::show`] does; after the text of a dry run a remark that it was one.
    pub(crate) fn show_run(
        self,
        has_run: bool,
        document: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<Exit, Failure> {
        self.show(document, text)?;
        if !has_run && !self.global.json {
            self.printer.note("dry run: nothing was written to the store");
        }
        Ok(Exit::Done)
    }

    /// Tells whether the command may write, and reports what forbids it.
    pub(crate) fn may_write(self, settings: &Settings, writing: &WritingArgs) -> bool {
        ops::may_write(settings, writing.execute, writing.dry_run, &self.printer)
    }
}
