//! HDF5 in a build without the feature `hdf5`: such a file is recognised, so that the error names the feature.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::ReadError;

/// A data set of an HDF5 file; there is none in this build.
#[derive(Debug, Clone)]
pub(crate) enum Hdf5File {}

impl Hdf5File {
    /// Refuses: the error names the feature.
    pub(super) fn open(path: &Path, _member: Option<&str>) -> Result<Self, ReadError> {
        Err(ReadError::NotBuilt { path: path.into(), format: "an HDF5 file", feature: "hdf5" })
    }

    pub(crate) const fn schema(&self) -> &SchemaRef {
        match *self {}
    }

    pub(crate) const fn row_count(&self) -> usize {
        match *self {}
    }

    pub(crate) fn batches(
        &self,
    ) -> impl Iterator<Item = Result<RecordBatch, ReadError>> + Send + use<> {
        match *self {}
        #[expect(unreachable_code, reason = "names the type of what is never returned")]
        std::iter::empty()
    }

    pub(crate) fn batch_of_row(&self, _row: usize) -> Result<RecordBatch, ReadError> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::Hdf5File;

    #[test]
    fn hdf5_file_names_the_feature() {
        let error = Hdf5File::open("rows.hdf5".as_ref(), None).unwrap_err();
        assert!(error.to_string().contains("built without the feature hdf5"), "{error}");
        assert!(error.hint().unwrap().contains("--features hdf5"), "{error}");
    }
}
