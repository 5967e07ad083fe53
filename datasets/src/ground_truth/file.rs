//! Ground truth as a file.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use memfold_index::{JoinedPairs, Neighbor, Pair, Row, VectorMatrix};
use memfold_simd::Similarity;

use super::{GroundTruth, NearestTruth, PairTruth, VectorsDigest};
use crate::atomic_file::NewFile;

const MAGIC: &[u8; 8] = b"MFTRUTH1";
/// Bytes of a checksum.
const DIGEST_BYTES: usize = 32;

/// A file of ground truth could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TruthFileError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// It is another kind of file.
    #[error("{}: no ground truth (it does not begin with MFTRUTH1)", path.display())]
    Magic {
        /// The file.
        path: PathBuf,
    },
    /// Bytes were lost or changed.
    #[error("{}: damaged: {reason} at byte {byte}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        reason: &'static str,
        /// Where.
        byte: usize,
    },
    /// It belongs to other vectors.
    #[error("{}: stale: made for {what} {expected}, found {found}", path.display())]
    Stale {
        /// The file.
        path: PathBuf,
        /// Vectors or queries.
        what: &'static str,
        /// The checksum in the file.
        expected: VectorsDigest,
        /// The checksum of what is at hand.
        found: VectorsDigest,
    },
}

impl TruthFileError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io { .. } | Self::Magic { .. } => None,
            Self::Damaged { .. } | Self::Stale { .. } => {
                Some("delete it and compute the ground truth again".into())
            }
        }
    }
}

impl GroundTruth {
    /// Returns where the ground truth of the vectors at `path` stands: beside them, `.truth` appended.
    #[must_use]
    pub fn path_beside(path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(".truth");
        name.into()
    }

    /// Writes the file; it appears whole or not at all.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn save(&self, path: &Path) -> Result<(), TruthFileError> {
        let write = || {
            let mut file = NewFile::create(path)?;
            file.write_all(&encode(self))?;
            file.publish()
        };
        write().map(drop).map_err(|source| TruthFileError::Io { path: path.into(), source })
    }

    /// Reads the file and checks that it belongs to `vectors`, and to `queries` where it answers some.
    ///
    /// `queries: None` takes the queries on trust. Reads all vectors once.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, or belongs to other vectors or queries.
    pub fn load(
        path: &Path,
        vectors: &VectorMatrix<'_>,
        queries: Option<&VectorMatrix<'_>>,
    ) -> Result<Self, TruthFileError> {
        let bytes =
            fs::read(path).map_err(|source| TruthFileError::Io { path: path.into(), source })?;
        let truth = decode(&bytes, path)?;
        let check = |what, expected, matrix: &VectorMatrix<'_>| {
            let found = VectorsDigest::of(matrix);
            let stale = || TruthFileError::Stale { path: path.into(), what, expected, found };
            if expected == found { Ok(()) } else { Err(stale()) }
        };
        check("vectors", truth.vectors, vectors)?;
        if let (Some(nearest), Some(queries)) = (&truth.nearest, queries) {
            check("queries", nearest.queries, queries)?;
        }
        Ok(truth)
    }
}

fn encode(truth: &GroundTruth) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(truth.vectors.0);
    bytes.push(truth.nearest.is_some().into());
    if let Some(nearest) = &truth.nearest {
        encode_nearest(nearest, &mut bytes);
    }
    bytes.push(truth.pairs.is_some().into());
    if let Some(pairs) = &truth.pairs {
        encode_pairs(pairs, &mut bytes);
    }
    bytes.extend(blake3::hash(&bytes).as_bytes());
    bytes
}

/// Lengths fit: queries, neighbours and groups are rows of a matrix, which has fewer than 2³².
fn encode_nearest(nearest: &NearestTruth, bytes: &mut Vec<u8>) {
    bytes.extend(nearest.queries.0);
    bytes.extend(nearest.k.to_le_bytes());
    bytes.extend((nearest.neighbors.len() as u32).to_le_bytes());
    for neighbors in &nearest.neighbors {
        bytes.extend((neighbors.len() as u32).to_le_bytes());
        for neighbor in neighbors {
            bytes.extend(neighbor.row.0.to_le_bytes());
            bytes.extend(neighbor.similarity.get().to_le_bytes());
        }
    }
}

fn encode_pairs(pairs: &PairTruth, bytes: &mut Vec<u8>) {
    let joined = &pairs.joined;
    bytes.extend(pairs.threshold.get().to_le_bytes());
    bytes.extend(joined.distinct_rows.to_le_bytes());
    bytes.extend(joined.logical_pairs.to_le_bytes());
    bytes.extend((joined.pairs.len() as u64).to_le_bytes());
    for pair in &joined.pairs {
        bytes.extend(pair.left.0.to_le_bytes());
        bytes.extend(pair.right.0.to_le_bytes());
        bytes.extend(pair.similarity.get().to_le_bytes());
    }
    bytes.extend((joined.groups.len() as u64).to_le_bytes());
    for group in &joined.groups {
        bytes.extend((group.len() as u32).to_le_bytes());
        group.iter().for_each(|row| bytes.extend(row.0.to_le_bytes()));
    }
}

fn decode(bytes: &[u8], path: &Path) -> Result<GroundTruth, TruthFileError> {
    if !bytes.starts_with(MAGIC) {
        return Err(TruthFileError::Magic { path: path.into() });
    }
    let damaged = |(reason, byte)| TruthFileError::Damaged { path: path.into(), reason, byte };
    let (content, checksum) = bytes
        .split_last_chunk::<DIGEST_BYTES>()
        .filter(|(content, _)| content.len() >= MAGIC.len())
        .ok_or_else(|| damaged(("the file ends early", bytes.len())))?;
    if blake3::hash(content).as_bytes() != checksum {
        return Err(damaged(("the checksum does not match", content.len())));
    }
    let mut cursor = Cursor { bytes: content, at: MAGIC.len() };
    cursor.truth().map_err(damaged)
}

/// What does not fit, and at which byte.
type Misfit = (&'static str, usize);

/// Reads values one after the other.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn truth(&mut self) -> Result<GroundTruth, Misfit> {
        let vectors = VectorsDigest(self.take()?);
        let nearest = if self.flag()? { Some(self.nearest()?) } else { None };
        let pairs = if self.flag()? { Some(self.pairs()?) } else { None };
        if self.at < self.bytes.len() {
            return Err(("more than expected", self.at));
        }
        Ok(GroundTruth { vectors, nearest, pairs })
    }

    fn nearest(&mut self) -> Result<NearestTruth, Misfit> {
        let queries = VectorsDigest(self.take()?);
        let k = self.u32()?;
        let query_count = self.u32()?.into();
        let neighbors = self.many(query_count, |cursor| {
            let count = cursor.u32()?.into();
            cursor.many(count, |cursor| {
                Ok(Neighbor { row: Row(cursor.u32()?), similarity: cursor.similarity()? })
            })
        })?;
        Ok(NearestTruth { queries, k, neighbors })
    }

    fn pairs(&mut self) -> Result<PairTruth, Misfit> {
        let threshold = self.similarity()?;
        let (distinct_rows, logical_pairs) = (self.u64()?, self.u64()?);
        let pair_count = self.u64()?;
        let pairs = self.many(pair_count, |cursor| {
            let (left, right) = (Row(cursor.u32()?), Row(cursor.u32()?));
            Ok(Pair { left, right, similarity: cursor.similarity()? })
        })?;
        let group_count = self.u64()?;
        let groups = self.many(group_count, |cursor| {
            let count = cursor.u32()?.into();
            cursor.many(count, |cursor| cursor.u32().map(Row))
        })?;
        let joined = JoinedPairs { pairs, groups, distinct_rows, logical_pairs };
        Ok(PairTruth { threshold, joined })
    }

    /// Reads `count` items; grows with what is there, not with what a count promises.
    fn many<T>(
        &mut self,
        count: u64,
        mut item: impl FnMut(&mut Self) -> Result<T, Misfit>,
    ) -> Result<Vec<T>, Misfit> {
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn flag(&mut self) -> Result<bool, Misfit> {
        let at = self.at;
        match self.take()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [_] => Err(("a flag is neither 0 nor 1", at)),
        }
    }

    fn similarity(&mut self) -> Result<Similarity, Misfit> {
        let at = self.at;
        let value = f64::from_le_bytes(self.take()?);
        Similarity::new(value).ok_or(("a similarity is outside -1 to 1", at))
    }

    fn u32(&mut self) -> Result<u32, Misfit> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Misfit> {
        self.take().map(u64::from_le_bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Misfit> {
        let taken = self.bytes[self.at..].first_chunk().ok_or(("the file ends early", self.at))?;
        self.at += N;
        Ok(*taken)
    }
}
