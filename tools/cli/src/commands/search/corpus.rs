//! `memfold search` in a file of vectors.

use std::path::Path;

use memfold::lookup::SearchError;
use memfold::lookup::Wanted;
use memfold::lookup::corpus::{RowMatch, RowQuery, SearchedRows, search_rows, search_rows_all};
use memfold::machine::Stopwatch;
use memfold::ops::{self, Elapsed, SearchDocument};
use memfold_datasets::Corpus;
use memfold_datasets::results::NeighborRow;
use memfold_index::{Pool, Row};
use memfold_simd::Kernels;

use super::results;
use crate::args::SearchArgs;
use crate::call::Call;
use crate::commands::search::results::Source;
use crate::context::{self, open_vectors};
use crate::failure::{Exit, Failure};
use crate::progress::Bars;

pub(super) fn run(
    call: Call<'_>,
    args: &SearchArgs,
    stopwatch: Stopwatch,
) -> Result<Exit, Failure> {
    if args.text.is_some() {
        return Err(Failure::usage(
            format!("--text is for stores, and {} is a file of vectors", args.place.db.display()),
            "embed the text with the model of the file and give --vector",
        ));
    }
    let (bars, pool) = (Bars::new(call.printer), ops::pool(call.global.threads)?);
    let source = Source::open(args, call.printer, &bars)?;
    source.tell(call.printer);
    let work = Work { args, rows: source.rows(), pool };
    if let (Some(queries), Some(output)) = (&args.queries, &args.output) {
        let (queries, neighbors) = work.answer_all(queries, output, &bars)?;
        let seconds = stopwatch.seconds();
        return results::tell_written(call, &queries, neighbors, output, seconds);
    }
    let open = stopwatch.seconds();
    let found = work.answer()?;
    let (rows, seconds) = (source.rows(), Elapsed { open, total: stopwatch.seconds() });
    let document = SearchDocument::of_rows(&found, rows, source.is_foreign(), seconds);
    call.show(&document, || results::rows(&found))
}

/// One call of the command.
struct Work<'a> {
    args: &'a SearchArgs,
    rows: SearchedRows<'a>,
    pool: Pool,
}

impl Work<'_> {
    fn wanted(&self) -> Wanted {
        results::wanted(self.args)
    }

    fn answer(&self) -> Result<Vec<RowMatch>, Failure> {
        let typed;
        let query = match (&self.args.id, self.args.row, &self.args.vector) {
            (Some(id), _, _) => RowQuery::Id(id),
            (None, Some(row), _) => RowQuery::Row(row),
            (None, None, vector) => {
                typed = context::typed_vector(vector.as_deref().unwrap_or_default())?;
                RowQuery::Vector(&typed)
            }
        };
        search_rows(self.rows, query, self.wanted(), &self.pool, Kernels::active())
            .map_err(|error| self.failed(&error))
    }

    /// Writes the neighbours of all queries; returns the queries and how many neighbours there are.
    fn answer_all(
        &self,
        queries: &Path,
        output: &Path,
        bars: &Bars,
    ) -> Result<(Corpus, u64), Failure> {
        let queries = open_vectors(queries, bars)?;
        let (pool, kernels) = (&self.pool, Kernels::active());
        let found =
            search_rows_all(self.rows, &queries.matrix(), self.wanted(), pool, kernels, bars)
                .map_err(|error| self.failed(&error))?;
        let rows = (0..).zip(&found).flat_map(|(at, answer)| {
            let query = queries.ordinal(Row(at));
            (0..).zip(answer).map(move |(rank, near)| NeighborRow {
                query,
                rank,
                row: near.row,
                similarity: near.similarity.get(),
                id: near.id.as_deref(),
            })
        });
        let neighbors = results::write(rows, output)?;
        Ok((queries, neighbors))
    }

    fn failed(&self, error: &SearchError) -> Failure {
        Failure::of(&format!("search {}", self.args.place.db.display()), error)
    }
}
