//! The documents of `--json` that the library makes have the schemas that are published.

use memfold::dedup::DedupReport;
use memfold::ops::{
    ApplyDocument, CheckDocument, ConsolidateDocument, FlagsDocument, PlansDocument,
    RecallDocument, RunDocument, RunsDocument, SaveDocument, SavedPlanDocument, SearchDocument,
    SettledDocument, StatusDocument, UndoDocument,
};

memfold_terminal::documents! {
    "apply" => ApplyDocument<'_>,
    "check" => CheckDocument<'_>,
    "consolidate" => ConsolidateDocument<'_>,
    "dedup" => DedupReport,
    "flags" => FlagsDocument<'_>,
    "flags-settled" => SettledDocument,
    "plans" => PlansDocument,
    "recall" => RecallDocument<'_>,
    "run" => RunDocument<'_>,
    "runs" => RunsDocument<'_>,
    "save" => SaveDocument<'_>,
    "saved-plan" => SavedPlanDocument<'_>,
    "search" => SearchDocument,
    "status" => StatusDocument<'_>,
    "undo" => UndoDocument<'_>,
}
