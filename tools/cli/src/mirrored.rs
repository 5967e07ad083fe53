//! Stores of other kinds: pulled into their mirror before a command, published after it.
//!
//! The one place where commands meet stores of other kinds: a command gets the mirror of the named
//! store, and knows nothing of the rest.

use std::ops::ControlFlow;

use memfold::ops::{ConsolidateRequest, KindRequest, Mirrored, Narrowed, OpenOrigin, StorePath};
use memfold::texts;
use memfold_adapters::sqlite_table;
use memfold_store::origin::{TableChoice, Usage};

use crate::call::Call;
use crate::cli::Command;
use crate::commands::consolidate::ConsolidateArgs;
use crate::failure::{Exit, Failure};

/// The store that a command names.
pub(crate) struct Named<'a> {
    path: &'a mut StorePath,
    /// Whether the command writes, so that the store may be written.
    publishes: bool,
}

impl<'a> Named<'a> {
    /// A store that the command only reads.
    pub(crate) fn read(path: &'a mut StorePath) -> Option<Self> {
        Self::written(path, false)
    }

    /// A store that the command may write.
    pub(crate) fn written(path: &'a mut StorePath, publishes: bool) -> Option<Self> {
        Some(Self { path, publishes })
    }
}

/// Runs a command: on the mirror where the store that it names has one.
pub(crate) fn run(
    call: Call<'_>,
    mut command: Command,
    dispatch: impl FnOnce(Call<'_>, Command) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let takes_texts = matches!(
        command,
        Command::Review(_)
            | Command::Check(_)
            | Command::Recall(_)
            | Command::Explain(_)
            | Command::Status(_)
            | Command::Runs(_)
    );
    let choice = table_choice(&command);
    let names_table = choice.as_ref().is_some_and(|choice| choice.table.is_some());
    let Some(Named { path, publishes }) = command.store() else {
        return dispatch(call, command);
    };
    let request = KindRequest {
        path,
        kind: call.global.store_kind.as_deref().or(names_table.then_some(sqlite_table::KIND)),
        mirror: call.global.mirror.as_deref(),
        takes_texts,
    };
    let Some(mut origin) = OpenOrigin::find(request)? else {
        return match choice {
            Some(_) => Err(OpenOrigin::has_no_table(path.named())),
            None => dispatch(call, command),
        };
    };
    if let Some(choice) = &choice {
        origin.choose_table(choice)?;
    }
    *path = origin.mirrored().clone().into();
    if let Command::Forget(_) = command {
        return Err(origin.forget_refusal());
    }
    let is_save = matches!(command, Command::Save(_));
    let is_checkup = matches!(command, Command::Doctor(_));
    let rebuilds = matches!(&command, Command::Doctor(args) if args.rebuild_indexes);
    if let Command::Consolidate(args) = &mut command
        && narrow(args, call, &mut origin)?.is_break()
    {
        return Ok(Exit::Done);
    }
    let mirrored = origin.mirrored().clone();
    let synchronization = origin.begin(&call.global.sources, &call.printer)?;
    let publishes = publishes && mirrored.kind != texts::KIND && synchronization.may_publish();
    synchronization.check(match publishes {
        true if is_save => Usage::Add,
        true => Usage::Remove,
        false => Usage::Read,
    })?;
    if rebuilds {
        synchronization.rebuild()?;
    }
    let pulled = synchronization.pull(publishes, is_checkup)?;
    let unread = (pulled.records == 0).then_some(pulled.skipped.len()).filter(|count| *count > 0);
    if let Some(Named { path, .. }) = command.store() {
        *path = Mirrored { unread, ..mirrored }.into();
    }
    let exit = dispatch(call, command);
    match exit {
        Ok(exit @ (Exit::Done | Exit::Partial | Exit::ChangesPending)) if publishes => {
            let conflicts = synchronization.publish()?;
            Ok(if conflicts.is_empty() { exit } else { Exit::Partial })
        }
        Ok(Exit::Interrupted) if publishes => {
            synchronization.tell_of_interruption();
            exit
        }
        // A killed undo may have left changes that are not published, and nothing to undo.
        Err(_) if publishes => synchronization.publish().and(exit),
        exit => exit,
    }
}

fn table_choice(command: &Command) -> Option<TableChoice> {
    match command {
        Command::Consolidate(args) => args.table.choice(),
        _ => None,
    }
}

/// Narrows a run to the scope of its trigger; breaks if that is empty.
fn narrow(
    args: &mut ConsolidateArgs,
    call: Call<'_>,
    origin: &mut OpenOrigin,
) -> Result<ControlFlow<()>, Failure> {
    let ConsolidateRequest { scope, judge, incremental, .. } = &mut args.request;
    let has_categories = !scope.categories.is_empty();
    match origin.narrow(&call.global.sources, scope.trigger.as_deref(), has_categories)? {
        Narrowed::Whole => {}
        // Models write with all memories before them.
        Narrowed::Changed => *incremental |= judge.is_none(),
        Narrowed::Categories(categories) => scope.categories = categories,
        Narrowed::Nothing => {
            call.printer.note("no index lists more entries than it should: nothing to do");
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
