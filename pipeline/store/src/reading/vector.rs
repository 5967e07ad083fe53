//! How a store's models write their vectors, decided over all embeddings before any is decoded.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::reading::memory::RawEmbedding;
use memfold_core::memory::InvalidEmbedding;
use memfold_core::row::{MEMORY_CELLS, RawMemory};
use memfold_core::value::ValueRef;

/// The name of the model where no row of the store names one.
pub const MODEL_UNNAMED: &str = "unnamed";

/// Largest magnitude that is plausible for a component of an embedding.
const PLAUSIBLE_MAX: f64 = 1e12;

/// Fewer wild numbers may be a broken vector of floats.
const WILD_SINGLES_MIN: usize = 4;

/// Doubles of unit length are at most some 30 times smaller than their halves read as floats;
/// floats of unit length, taken as doubles, shrink more than a hundredfold.
const SHRINKING_MIN: f64 = 100.0;

/// Counts embeddings by model and blob length.
#[derive(Debug, Default)]
pub(crate) struct ShapeSurvey {
    models: BTreeMap<Box<str>, ModelSurvey>,
}

#[derive(Debug, Default)]
struct ModelSurvey {
    rows: u64,
    blob_lengths: BTreeMap<usize, u64>,
}

/// Which model NULL stands for, and which blob length of each model means f64.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ModelShapes {
    modal_model: Box<str>,
    f64_lengths: BTreeMap<Box<str>, usize>,
}

/// The width of the numbers of one blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    Single,
    Double,
    Unclear,
}

impl ShapeSurvey {
    /// Counts one embedding; `blob_length` (bytes) is `None` where it is not a blob.
    pub(crate) fn add(&mut self, model: Option<&str>, blob_length: Option<usize>) {
        let model = model.unwrap_or_default();
        if !self.models.contains_key(model) {
            self.models.insert(model.into(), ModelSurvey::default());
        }
        let Some(survey) = self.models.get_mut(model) else { return };
        survey.rows += 1;
        if let Some(length) = blob_length {
            *survey.blob_lengths.entry(length).or_insert(0) += 1;
        }
    }

    /// Counts one embedding; returns its model and its blob, where it has them.
    pub(crate) fn add_raw<'a>(
        &mut self,
        raw: &RawEmbedding<'a>,
    ) -> (Option<Cow<'a, str>>, Option<&'a [u8]>) {
        let named = raw.model.text().ok().flatten();
        let blob = if let ValueRef::Blob(bytes) = raw.embedding { Some(bytes) } else { None };
        self.add(named.as_deref(), blob.map(<[u8]>::len));
        (named, blob)
    }

    /// Decides. `probe` returns some blobs of a model and length; it is called at most twice for
    /// each model.
    ///
    /// A model's modal blob length is f32 unless its blobs look like f64; twice that length is f64
    /// unless its blobs look like f32.
    pub(crate) fn decide<E>(
        mut self,
        mut probe: impl FnMut(Option<&str>, usize) -> Result<Vec<Vec<u8>>, E>,
    ) -> Result<ModelShapes, E> {
        let unnamed = self.models.remove("");
        let modal_model = modal(self.models.iter().map(|(model, survey)| (model, survey.rows)))
            .map_or_else(|| MODEL_UNNAMED.into(), Clone::clone);
        if let Some(unnamed) = unnamed {
            self.models.entry(modal_model.clone()).or_default().join(unnamed);
        }
        let mut f64_lengths = BTreeMap::new();
        for (model, survey) in self.models {
            let named = (*model != *MODEL_UNNAMED).then_some(&*model);
            let Some(length) = survey.modal_length() else { continue };
            let twice = 2 * length;
            if length % 8 == 0 && vote(&probe(named, length)?) == Width::Double {
                f64_lengths.insert(model, length);
            } else if survey.blob_lengths.contains_key(&twice)
                && vote(&probe(named, twice)?) != Width::Single
            {
                f64_lengths.insert(model, twice);
            }
        }
        Ok(ModelShapes { modal_model, f64_lengths })
    }
}

impl ModelSurvey {
    fn modal_length(&self) -> Option<usize> {
        let whole =
            self.blob_lengths.iter().filter(|(length, _)| **length > 0 && **length % 4 == 0);
        modal(whole.map(|(length, rows)| (*length, *rows)))
    }

    fn join(&mut self, other: Self) {
        self.rows += other.rows;
        for (length, rows) in other.blob_lengths {
            *self.blob_lengths.entry(length).or_insert(0) += rows;
        }
    }
}

impl ModelShapes {
    /// Returns the model a row belongs to.
    pub fn model<'a>(&'a self, named: Option<Cow<'a, str>>) -> Cow<'a, str> {
        named.unwrap_or_else(|| self.modal_model.as_ref().into())
    }

    /// Tells whether a blob of `length` bytes of `model` holds f64 components.
    pub(crate) fn holds_f64(&self, model: &str, length: usize) -> bool {
        self.f64_lengths.get(model) == Some(&length)
    }
}

/// Returns the key with the largest count, the smallest among equals (keys ascend).
fn modal<K>(counts: impl Iterator<Item = (K, u64)>) -> Option<K> {
    counts
        .fold(None, |best: Option<(K, u64)>, (key, count)| match best {
            Some((_, most)) if most >= count => best,
            _ => Some((key, count)),
        })
        .map(|(key, _)| key)
}

fn vote(blobs: &[Vec<u8>]) -> Width {
    let votes = |width| blobs.iter().filter(|blob| look_at(blob) == width).count();
    match votes(Width::Double).cmp(&votes(Width::Single)) {
        Ordering::Greater => Width::Double,
        Ordering::Less => Width::Single,
        Ordering::Equal => Width::Unclear,
    }
}

/// Distinguishes floats from doubles by their values when read as the other.
///
/// The lower half of a double is a wild float as often as not (for doubles made of floats: one time
/// in four). Two floats below 1 make a double that is smaller by orders of magnitude.
fn look_at(blob: &[u8]) -> Width {
    let doubles = || blob.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes));
    let singles = || blob.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    if !doubles().all(|value| value.abs() < PLAUSIBLE_MAX) {
        return Width::Single;
    }
    let values = || singles().map(f64::from);
    let wild = values().filter(|value| value.is_finite() && value.abs() >= PLAUSIBLE_MAX).count();
    if wild >= WILD_SINGLES_MIN.max(blob.len() / 64) {
        return Width::Double;
    }
    if !values().all(f64::is_finite) {
        return Width::Single;
    }
    let tame = values().filter(|value| value.abs() < PLAUSIBLE_MAX);
    let as_singles = tame.map(|value| value * value).sum::<f64>().sqrt();
    let as_doubles = doubles().map(|value| value * value).sum::<f64>().sqrt();
    if as_doubles * SHRINKING_MIN < as_singles { Width::Single } else { Width::Unclear }
}

/// More components than a vector matrix takes.
const DIM_MAX: usize = 65_536;

/// Decodes `cell` into `vector`, finite and not zero, −0 made +0.
pub(crate) fn decode_components(
    cell: ValueRef<'_>,
    holds_f64: bool,
    vector: &mut Vec<f32>,
) -> Result<(), InvalidEmbedding> {
    vector.clear();
    match cell {
        ValueRef::Text(bytes) => decode_json(bytes, vector)?,
        ValueRef::Blob(bytes) if is_json(bytes) => decode_json(bytes, vector)?,
        ValueRef::Blob(bytes) => decode_numbers(bytes, holds_f64, vector)?,
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => {
            return Err(InvalidEmbedding::Unreadable);
        }
    }
    check(vector)
}

fn decode_numbers(
    bytes: &[u8],
    holds_f64: bool,
    vector: &mut Vec<f32>,
) -> Result<(), InvalidEmbedding> {
    let (singles, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() || singles.is_empty() {
        return Err(InvalidEmbedding::Length);
    }
    if holds_f64 {
        let (doubles, _) = bytes.as_chunks::<8>();
        vector.extend(doubles.iter().map(|bytes| f64::from_le_bytes(*bytes) as f32 + 0.0));
    } else {
        // Adding zero makes −0 positive and changes nothing else.
        vector.extend(singles.iter().map(|bytes| f32::from_le_bytes(*bytes) + 0.0));
    }
    Ok(())
}

/// Two bytes of chance look like brackets in one of 65,536 blobs; they must also hold only JSON.
fn is_json(bytes: &[u8]) -> bool {
    let inside = bytes.trim_ascii().strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    inside.is_some_and(|inside| inside.iter().all(|byte| b"0123456789+-.eE, \t\r\n".contains(byte)))
}

fn decode_json(bytes: &[u8], vector: &mut Vec<f32>) -> Result<(), InvalidEmbedding> {
    let numbers: Vec<f64> =
        serde_json::from_slice(bytes).map_err(|_| InvalidEmbedding::Unreadable)?;
    vector.extend(numbers.iter().map(|number| *number as f32 + 0.0));
    Ok(())
}

fn check(vector: &[f32]) -> Result<(), InvalidEmbedding> {
    if vector.is_empty() || vector.len() > DIM_MAX {
        return Err(InvalidEmbedding::Length);
    }
    // Without a branch for each component.
    if !vector.iter().fold(true, |finite, component| finite & component.is_finite()) {
        return Err(InvalidEmbedding::NotFinite);
    }
    if vector.iter().all(|component| *component == 0.0) {
        return Err(InvalidEmbedding::Zero);
    }
    Ok(())
}

/// Bytes of cells after which a pack is full: enough to be worth waking a thread for, few enough to be found in a cache.
const PACK_BYTES: usize = 1 << 20;

/// Rows of a memory table, each with its embedding, in memory that is used again.
#[derive(Debug, Default)]
pub(crate) struct PackedRows {
    rows: Vec<PackedRow>,
    /// Each row's own, then its embedding's.
    cells: Vec<PackedCell>,
    /// Texts and blobs, end to end.
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct PackedRow {
    rowid: i64,
    first_cell: usize,
    has_embedding: bool,
}

#[derive(Debug, Clone, Copy)]
enum PackedCell {
    Null,
    Integer(i64),
    Real(f64),
    Text { start: usize, end: usize },
    Blob { start: usize, end: usize },
}

/// A row of the memory table, with its embedding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawRow<'a> {
    pub(crate) rowid: i64,
    pub(crate) memory: RawMemory<'a>,
    pub(crate) embedding: Option<RawEmbedding<'a>>,
}

impl PackedRows {
    /// Begins a row; its cells follow: the cells of [`RawMemory`], then the cells of
    /// [`RawEmbedding`] where it has one.
    pub(crate) fn begin(&mut self, rowid: i64, has_embedding: bool) {
        self.rows.push(PackedRow { rowid, first_cell: self.cells.len(), has_embedding });
    }

    /// Copies a cell.
    pub(crate) fn push(&mut self, cell: ValueRef<'_>) {
        let start = self.bytes.len();
        let mut copy = |bytes: &[u8]| {
            self.bytes.extend_from_slice(bytes);
            start + bytes.len()
        };
        let packed = match cell {
            ValueRef::Null => PackedCell::Null,
            ValueRef::Integer(value) => PackedCell::Integer(value),
            ValueRef::Real(value) => PackedCell::Real(value),
            ValueRef::Text(bytes) => PackedCell::Text { start, end: copy(bytes) },
            ValueRef::Blob(bytes) => PackedCell::Blob { start, end: copy(bytes) },
        };
        self.cells.push(packed);
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.bytes.len() >= PACK_BYTES
    }

    /// Forgets the rows and keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.cells.clear();
        self.bytes.clear();
    }

    /// Returns the rows in the order in which they came.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RawRow<'_>> {
        self.rows.iter().map(|row| RawRow {
            rowid: row.rowid,
            memory: RawMemory::of_cells(self.cells(row.first_cell)),
            embedding: row
                .has_embedding
                .then(|| RawEmbedding::of_cells(self.cells(row.first_cell + MEMORY_CELLS))),
        })
    }

    fn cells<const N: usize>(&self, first: usize) -> [ValueRef<'_>; N] {
        std::array::from_fn(|at| match self.cells[first + at] {
            PackedCell::Null => ValueRef::Null,
            PackedCell::Integer(value) => ValueRef::Integer(value),
            PackedCell::Real(value) => ValueRef::Real(value),
            PackedCell::Text { start, end } => ValueRef::Text(&self.bytes[start..end]),
            PackedCell::Blob { start, end } => ValueRef::Blob(&self.bytes[start..end]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::memory::EMBEDDING_CELLS;
    use std::convert::Infallible;

    fn doubles() -> Vec<u8> {
        (1..=64).flat_map(|i| (f64::from(i) / 700.0).to_le_bytes()).collect()
    }

    fn singles() -> Vec<u8> {
        (1..=128).flat_map(|i| part(i).to_le_bytes()).collect()
    }

    fn part(i: u8) -> f32 {
        f32::from(i) / 700.0
    }

    fn decide(survey: ShapeSurvey, blob: &[u8]) -> ModelShapes {
        let shapes = survey.decide(|_, _| Ok::<_, Infallible>(vec![blob.to_vec()]));
        shapes.unwrap()
    }

    #[test]
    fn null_joins_the_modal_model_and_ties_take_the_smaller_name() {
        let mut survey = ShapeSurvey::default();
        for model in ["b", "a", "b", "a"] {
            survey.add(Some(model), Some(16));
        }
        survey.add(None, Some(16));
        let shapes = decide(survey, &[0; 16]);
        assert_eq!(shapes.model(None), "a");
        assert_eq!(shapes.model(Some("b".into())), "b");
        assert_eq!(decide(ShapeSurvey::default(), &[]).model(None), MODEL_UNNAMED);
    }

    #[test]
    fn twice_the_modal_length_is_f64_unless_it_looks_like_f32() {
        let survey = || {
            let mut survey = ShapeSurvey::default();
            for length in [512, 512, 1024, 7] {
                survey.add(Some("m"), Some(length));
            }
            survey
        };
        let by_length = |long: Vec<u8>| {
            let probe = |_: Option<&str>, length| {
                Ok::<_, Infallible>(vec![if length == 512 { singles() } else { long.clone() }])
            };
            survey().decide(probe).unwrap()
        };
        let shapes = by_length([doubles(), doubles()].concat());
        assert!(shapes.holds_f64("m", 1024));
        assert!(!shapes.holds_f64("m", 512) && !shapes.holds_f64("m", 2048));
        assert!(!shapes.holds_f64("other", 1024));
        assert!(!by_length([singles(), singles()].concat()).holds_f64("m", 1024));
    }

    #[test]
    fn a_store_of_doubles_is_recognised() {
        let mut survey = ShapeSurvey::default();
        survey.add(Some("m"), Some(512));
        assert!(decide(survey, &doubles()).holds_f64("m", 512));
    }

    #[test]
    fn floats_and_doubles_are_told_apart() {
        let widened: Vec<u8> = (1..=64).flat_map(|i| f64::from(part(i)).to_le_bytes()).collect();
        assert_eq!(look_at(&doubles()), Width::Double);
        assert_eq!(look_at(&widened), Width::Double);
        assert_eq!(look_at(&singles()), Width::Single);
        let coarse: Vec<u8> =
            [0.5, -0.25, 0.125].iter().flat_map(|v: &f64| v.to_le_bytes()).collect();
        assert_eq!(look_at(&coarse), Width::Unclear);
        let broken = |values: [f32; 4]| look_at(&values.map(f32::to_le_bytes).concat());
        assert_eq!(broken([f32::NAN, 0.0, f32::INFINITY, 0.5]), Width::Single);
        assert_eq!(broken([0.5, f32::NAN, 0.0, 0.5]), Width::Single);
        assert_eq!(broken([3e38, 0.1, 0.2, 0.3]), Width::Single);
        assert_eq!(broken([0.0; 4]), Width::Unclear);
    }

    fn read(cell: ValueRef<'_>, holds_f64: bool) -> Result<Vec<f32>, InvalidEmbedding> {
        let mut vector = vec![9.0];
        decode_components(cell, holds_f64, &mut vector).map(|()| vector)
    }

    fn blob(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn reads_three_encodings() {
        let expected = Ok(vec![0.5, -2.0]);
        assert_eq!(read(ValueRef::Blob(&blob(&[0.5, -2.0])), false), expected);
        let doubles: Vec<u8> = [0.5_f64, -2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(read(ValueRef::Blob(&doubles), true), expected);
        assert_eq!(read(ValueRef::Text(b" [0.5, -2]"), false), expected);
        assert_eq!(read(ValueRef::Blob(b"[0.5, -2e0]"), false), expected);
    }

    #[test]
    fn minus_zero_becomes_zero() {
        let vector = read(ValueRef::Blob(&blob(&[-0.0, 1.0])), false).unwrap();
        assert_eq!(vector[0].to_bits(), 0);
        assert_eq!(read(ValueRef::Text(b"[-0.0, 1]"), false).unwrap()[0].to_bits(), 0);
    }

    #[test]
    fn says_what_is_wrong() {
        use InvalidEmbedding::{Length, NotFinite, Unreadable, Zero};
        assert_eq!(read(ValueRef::Blob(&[]), false), Err(Length));
        assert_eq!(read(ValueRef::Blob(&[0; 7]), false), Err(Length));
        assert_eq!(read(ValueRef::Text(b"[]"), false), Err(Length));
        assert_eq!(read(ValueRef::Blob(&vec![1; 4 * (DIM_MAX + 1)]), false), Err(Length));
        assert_eq!(read(ValueRef::Blob(&blob(&[1.0, f32::NAN])), false), Err(NotFinite));
        assert_eq!(read(ValueRef::Blob(&blob(&[f32::NEG_INFINITY])), false), Err(NotFinite));
        assert_eq!(read(ValueRef::Blob(&1e300_f64.to_le_bytes()), true), Err(NotFinite));
        assert_eq!(read(ValueRef::Text(b"[1e300]"), false), Err(NotFinite));
        assert_eq!(read(ValueRef::Blob(&blob(&[0.0, -0.0])), false), Err(Zero));
        assert_eq!(read(ValueRef::Text(b"[\"a\"]"), false), Err(Unreadable));
        assert_eq!(read(ValueRef::Text(b"[[1.0]]"), false), Err(Unreadable));
        assert_eq!(read(ValueRef::Integer(4), false), Err(Unreadable));
    }

    type Row =
        (i64, [ValueRef<'static>; MEMORY_CELLS], Option<[ValueRef<'static>; EMBEDDING_CELLS]>);

    fn pack(packed: &mut PackedRows, (rowid, memory, embedding): &Row) {
        packed.begin(*rowid, embedding.is_some());
        memory.iter().chain(embedding.iter().flatten()).for_each(|cell| packed.push(*cell));
    }

    #[test]
    fn rows_come_out_as_they_went_in() {
        let mut memory = [ValueRef::Text(b"one"); MEMORY_CELLS];
        (memory[1], memory[3], memory[8]) =
            (ValueRef::Text(b"\xff"), ValueRef::Real(0.5), ValueRef::Null);
        let embedding = [
            ValueRef::Integer(-7),
            ValueRef::Text(b""),
            ValueRef::Blob(&[1, 2]),
            ValueRef::Text(b"model"),
        ];
        let rows: [Row; 4] = [
            (7, memory, Some(embedding)),
            (-1, [ValueRef::Null; MEMORY_CELLS], None),
            (0, [ValueRef::Blob(b"same"); MEMORY_CELLS], Some([ValueRef::Null; EMBEDDING_CELLS])),
            (i64::MAX, memory, None),
        ];
        let mut packed = PackedRows::default();
        for _ in 0..2 {
            rows.iter().for_each(|row| pack(&mut packed, row));
            let found: Vec<_> = packed.iter().collect();
            assert_eq!(found.len(), rows.len());
            for (found, (rowid, memory, embedding)) in found.into_iter().zip(&rows) {
                assert_eq!(found.rowid, *rowid);
                let RawMemory { id, content, importance, archived_by, .. } = found.memory;
                let known = [memory[0], memory[1], memory[3], memory[8]];
                assert_eq!([id, content, importance, archived_by], known);
                let known = embedding.map(|[source_id, content, embedding, model]| RawEmbedding {
                    source_id,
                    content,
                    embedding,
                    model,
                });
                assert_eq!(format!("{:?}", found.embedding), format!("{known:?}"));
            }
            packed.clear();
        }
        assert_eq!(packed.iter().count(), 0);
    }

    #[test]
    fn packs_are_full_by_bytes() {
        const CONTENT: &[u8] = &[b'x'; PACK_BYTES / 4];
        let mut memory = [ValueRef::Null; MEMORY_CELLS];
        memory[1] = ValueRef::Text(CONTENT);
        let mut packed = PackedRows::default();
        let pushed = (1..).find(|&rowid| {
            pack(&mut packed, &(rowid, memory, None));
            packed.is_full()
        });
        assert_eq!(pushed, Some(4));
    }
}
