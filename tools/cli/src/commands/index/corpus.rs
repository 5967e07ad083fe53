//! `memfold index` for a file of vectors.

use std::time::Duration;

use memfold::lookup::corpus::{
    BuildCorpusIndex, CorpusIndex, build_corpus_index, verify_corpus_index,
};
use memfold::lookup::{IndexDifference, IndexError};
use memfold::ops::{self, IndexBuildDocument, IndexInfoDocument};
use memfold_simd::Kernels;

use super::output::{built_screen, files_screen, open, verified_screen};
use crate::args::{IndexBuildArgs, IndexInfoArgs};
use crate::call::Call;
use crate::context::{data_hint, open_columns};
use crate::failure::{Exit, Failure};
use crate::progress::Bars;

pub(super) fn build(call: Call<'_>, args: &IndexBuildArgs) -> Result<Exit, Failure> {
    let (input, bars) = (&args.place.db, Bars::new(call.printer));
    refuse_options_of_stores(args)?;
    let built = IndexBuildDocument::measure(|| {
        let mode = ops::mode_of(input)?;
        let folder = ops::index_to_build(input, args.place.index_dir.as_deref())?;
        let request = BuildCorpusIndex {
            folder: &folder,
            mode,
            columns: &args.columns,
            tier: args.tier,
            pool: &ops::pool(call.global.threads)?,
            kernels: Kernels::active(),
            scratch_dir: &ops::scratch_dir(),
            progress: &bars,
            wait: Duration::from_secs(args.wait.into()),
        };
        let built = build_corpus_index(input, &request).map_err(|error| {
            let failure = Failure::of(&format!("build the index of {}", input.display()), &error);
            match &error {
                IndexError::Corpus(error) => Failure { hint: data_hint(error), ..failure },
                _ => failure,
            }
        })?;
        Ok((folder, built))
    })?;
    let of = input.file_name().unwrap_or_default().to_string_lossy();
    call.show(&built, || built_screen(&built, "rows", &of, "rows have no usable vector"))
}

fn refuse_options_of_stores(args: &IndexBuildArgs) -> Result<(), Failure> {
    let (option, hint) = match args {
        IndexBuildArgs { append: true, .. } => {
            ("--append", "leave it out: a file that has changed is indexed anew")
        }
        IndexBuildArgs { model: Some(_), .. } => {
            ("--model", "choose the column of the vectors with --vector-column NAME")
        }
        _ => return Ok(()),
    };
    let shown = args.place.db.display();
    Err(Failure::usage(format!("{option} is for stores, and {shown} is a file of vectors"), hint))
}

pub(super) fn info(call: Call<'_>, args: &IndexInfoArgs) -> Result<Exit, Failure> {
    let db = &args.place.db;
    let folder = ops::index_to_read(db, args.place.index_dir.as_deref())?;
    let index = open(&folder, CorpusIndex::open)?;
    let fits = index
        .fits(db)
        .map_err(|error| Failure::new(&format!("read {}", db.display()), &error, None))?;
    let verify = || {
        let (bars, pool) = (Bars::new(call.printer), ops::pool(call.global.threads)?);
        let corpus = open_columns(db, &index.origin().columns, &bars)?;
        verify_corpus_index(&index, Some(&corpus), &pool, Kernels::active(), &bars)
            .map_err(|error| Failure::of("verify the index", &error))
    };
    let verified = args.verify.then(verify).transpose()?;
    call.show(&IndexInfoDocument::of_corpus(&index, fits, &folder, verified), || {
        let name = &index.origin().corpus.name;
        let mut text = files_screen(index.files(), "rows", name, &folder);
        text.push_str(match fits {
            true => "the file has not changed since\n",
            false => "the file has changed since: lookups do without it until `memfold index build`\n",
        });
        let compared = |IndexDifference { same, changed, gone, fresh }| {
            format!(
                "compared with the file: {same} rows are the same, {changed} have another id or vector,\n\
                 {gone} are gone, {fresh} came since\n"
            )
        };
        text + &verified.map_or_else(String::new, |it| verified_screen(&it, "ids and vectors", compared))
    })
}
