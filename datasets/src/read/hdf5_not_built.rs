//! HDF5 in a build without the feature `hdf5`: such a file is recognised, so that the error names the feature.

use std::sync::Arc;

use super::source::Source;
use crate::DataError;
use crate::error::HDF5_NOT_BUILT;
use crate::input::InputBytes;

/// Refuses the file.
#[expect(clippy::needless_pass_by_value, reason = "as in a build with the feature")]
pub(super) fn open(bytes: InputBytes, _: Option<&str>) -> Result<Arc<dyn Source>, DataError> {
    Err(DataError::format(bytes.path(), HDF5_NOT_BUILT))
}

#[cfg(test)]
mod tests {
    use crate::VectorFile;

    #[test]
    fn hdf5_file_names_the_feature() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests-data/hdf5/h5py_contiguous.hdf5");
        let error = VectorFile::open(file.as_ref()).unwrap_err();
        assert!(error.to_string().ends_with("built without the feature hdf5"), "{error}");
        assert!(error.hint().unwrap().contains("--features hdf5"), "{error}");
    }
}
