//! How a store's models write their vectors, decided over all embeddings before any is decoded.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The name of the model where no row of the store names one.
pub const MODEL_UNNAMED: &str = "unnamed";

/// Largest magnitude that a component of an embedding is believed to have.
const PLAUSIBLE_MAX: f64 = 1e12;

/// Fewer wild numbers may be a broken vector of floats.
const WILD_SINGLES_MIN: usize = 4;

/// Doubles of unit length are at most some 30 times smaller than what their halves would be as
/// floats; floats of unit length, taken as doubles, shrink more than a hundredfold.
const SHRINKING_MIN: f64 = 100.0;

/// Counts embeddings by model and blob length.
#[derive(Debug, Default)]
pub struct ShapeSurvey {
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

/// What the numbers of one blob look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    Single,
    Double,
    Unclear,
}

impl ShapeSurvey {
    /// Counts one embedding; `blob_length` (bytes) is `None` where it is no blob.
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

    /// Decides. `probe` returns some blobs of a model and length; it is asked at most twice for
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

/// Tells floats from doubles by what each would be if it were the other.
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

#[cfg(test)]
mod tests {
    use super::*;
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
}
