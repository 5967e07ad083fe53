//! [`NliJudge`]: a classifier that says of two texts whether one entails or contradicts the other, run in this process.
//!
//! The folder holds `config.json` (with `id2label`), `tokenizer.json` and `model.safetensors` of a
//! BERT, DeBERTa-v2/v3 or ModernBERT sequence classifier. Each pair of a group is classified in
//! both directions. A group says the same with the smallest probability of entailment among its
//! pairs and directions.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use candle_core::{D, DType, Device, IndexOp as _, Tensor};
use candle_nn::{Linear, Module as _, VarBuilder, linear, ops::softmax};
use candle_transformers::models::bert::{BertModel, Config as BertConfig};
use candle_transformers::models::debertav2::{
    Config as DebertaConfig, DebertaV2SeqClassificationModel,
};
use candle_transformers::models::modernbert::{
    ClassifierConfig, ClassifierPooling, Config as ModernBertConfig,
    ModernBertForSequenceClassification,
};
use memfold_core::judge::{
    Group, GroupScores, Judge, JudgeError, Opinion, Prompt, Reply, ScoreThresholds, Task, Usage,
};
use memfold_core::policy::NliSettings;
use memfold_guard::text::excerpt;
use serde::Deserialize;
use tokenizers::{Encoding, Tokenizer};

use crate::embed::local::model::{
    Reason, cutting_tokenizer, json, of_weights, weight_bytes, weights,
};
use crate::judging::{ClassifierError, thresholds};
use crate::machine::Stopwatch;

/// Tokens of a pair that are read, at most: the usual length in the training of these classifiers.
const TOKENS_MAX: usize = 512;
/// Tokens, padding included, that go through the model at once: bounds the memory of a batch.
const TOKENS_AT_ONCE: usize = 4_096;
/// Characters of a library's error that are reported.
const REASON_CHARS: usize = 200;
/// Hex digits of the weights' digest in the name.
const DIGEST_CHARS: usize = 8;

/// The output of a classifier for two texts in one direction, each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scores {
    /// How probable it is that the first text entails the second.
    pub entailment: f64,
    /// How probable it is that it contradicts it.
    pub contradiction: f64,
}

/// A classifier that is loaded.
pub struct NliJudge {
    name: String,
    tokenizer: Tokenizer,
    pad_id: u32,
    classifier: Classifier,
    labels: Labels,
    thresholds: ScoreThresholds,
}

enum Classifier {
    Bert { model: BertModel, pooler: Linear, head: Linear },
    Deberta(DebertaV2SeqClassificationModel),
    ModernBert(ModernBertForSequenceClassification),
}

/// The positions of the outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Labels {
    entailment: usize,
    contradiction: usize,
    count: usize,
}

/// The fields that every kind of configuration has.
#[derive(Deserialize)]
struct Shape {
    model_type: String,
    #[serde(default)]
    id2label: BTreeMap<String, String>,
    max_position_embeddings: usize,
    #[serde(default)]
    pad_token_id: u32,
    /// Of ModernBERT.
    #[serde(default)]
    classifier_pooling: ClassifierPooling,
}

impl Labels {
    /// Finds entailment and contradiction among the names of the outputs.
    fn of(names: &BTreeMap<String, String>) -> Result<Self, Reason> {
        let at = |wanted: &str| {
            let is_it = |(_, name): &(&String, &String)| {
                let name = name.to_lowercase();
                name.contains(wanted) && !name.contains("not") && !name.contains("non")
            };
            let found = names.iter().find(is_it).and_then(|(at, _)| at.parse().ok());
            let found = found.filter(|at| *at < names.len());
            found.ok_or_else(|| format!("config.json: id2label names no {wanted}"))
        };
        let (entailment, contradiction) = (at("entail")?, at("contradict")?);
        Ok(Self { entailment, contradiction, count: names.len() })
    }
}

impl Classifier {
    fn read(folder: &Path, shape: &Shape, labels: Labels, bytes: Vec<u8>) -> Result<Self, Reason> {
        fn config<C: serde::de::DeserializeOwned>(folder: &Path) -> Result<C, Reason> {
            json(&folder.join("config.json"))?.ok_or_else(|| "config.json is missing".to_owned())
        }
        let weights = weights(bytes)?;
        let loaded = match shape.model_type.as_str() {
            "bert" => Self::bert(weights, &config(folder)?, labels),
            "deberta-v2" => {
                let mut config: DebertaConfig = config(folder)?;
                config.pooler_hidden_size.get_or_insert(config.hidden_size);
                config.pooler_dropout.get_or_insert(0.0);
                DebertaV2SeqClassificationModel::load(weights.pp("deberta"), &config, None)
                    .map(Self::Deberta)
            }
            "modernbert" => {
                let mut config: ModernBertConfig = config(folder)?;
                // It reads only configurations with texts in `label2id`, and published ones hold
                // numbers.
                config.classifier_config = Some(ClassifierConfig {
                    id2label: shape.id2label.clone().into_iter().collect(),
                    label2id: HashMap::new(),
                    classifier_pooling: shape.classifier_pooling,
                });
                ModernBertForSequenceClassification::load(weights, &config).map(Self::ModernBert)
            }
            other => return Err(format!("config.json: model_type {other:?} is not known here")),
        };
        loaded.map_err(|error| of_weights(&error))
    }

    /// The head is that of `BertForSequenceClassification`: the first token through a layer with tanh, then one output for
    /// each label.
    fn bert(
        weights: VarBuilder<'_>,
        config: &BertConfig,
        labels: Labels,
    ) -> candle_core::Result<Self> {
        let size = config.hidden_size;
        Ok(Self::Bert {
            pooler: linear(size, size, weights.pp("bert.pooler.dense"))?,
            head: linear(size, labels.count, weights.pp("classifier"))?,
            model: BertModel::load(weights, config)?,
        })
    }

    /// Returns a row of probabilities for each row of tokens.
    fn probabilities(&self, tokens: &Tokens) -> candle_core::Result<Vec<Vec<f32>>> {
        let Tokens { ids, types, mask } = tokens;
        let logits = match self {
            Self::Bert { model, pooler, head } => {
                let states = model.forward(ids, types, Some(mask))?;
                let first = states.i((.., 0))?.contiguous()?;
                head.forward(&pooler.forward(&first)?.tanh()?)?
            }
            Self::Deberta(model) => model.forward(ids, Some(types.clone()), Some(mask.clone()))?,
            // It returns probabilities.
            Self::ModernBert(model) => return model.forward(ids, mask)?.to_vec2(),
        };
        softmax(&logits, D::Minus1)?.to_dtype(DType::F32)?.to_vec2()
    }
}

/// Token ids, types and mask of some pairs, filled up to one length.
struct Tokens {
    ids: Tensor,
    types: Tensor,
    mask: Tensor,
}

impl Tokens {
    fn of(encodings: &[&Encoding], pad_id: u32) -> candle_core::Result<Self> {
        let length = encodings.iter().map(|encoding| encoding.len()).max().unwrap_or(0);
        let rows = |of: fn(&Encoding) -> &[u32], filler: u32| {
            let row = |encoding: &&Encoding| {
                let mut row = of(encoding).to_vec();
                row.resize(length, filler);
                row
            };
            Tensor::new(encodings.iter().map(row).collect::<Vec<_>>(), &Device::Cpu)
        };
        Ok(Self {
            ids: rows(Encoding::get_ids, pad_id)?,
            types: rows(Encoding::get_type_ids, 0)?,
            mask: rows(Encoding::get_attention_mask, 0)?,
        })
    }
}

impl NliJudge {
    /// Reads the classifier of a folder.
    ///
    /// # Errors
    /// When a file is missing or cannot be read, the kind of model is unknown, or no label says entailment or contradiction.
    pub fn read(folder: &Path, settings: &NliSettings) -> Result<Self, ClassifierError> {
        Self::load(folder, settings).map_err(|reason| ClassifierError {
            folder: folder.display().to_string(),
            reason: excerpt(&reason, REASON_CHARS),
        })
    }

    fn load(folder: &Path, settings: &NliSettings) -> Result<Self, Reason> {
        let shape: Option<Shape> = json(&folder.join("config.json"))?;
        let shape = shape.ok_or("config.json is missing")?;
        let labels = Labels::of(&shape.id2label)?;
        let mut tokenizer =
            cutting_tokenizer(folder, TOKENS_MAX.min(shape.max_position_embeddings))?;
        tokenizer.with_padding(None);
        let bytes = weight_bytes(folder)?;
        let digest = blake3::hash(&bytes).to_hex();
        let model = folder.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let thresholds = thresholds(settings);
        Ok(Self {
            name: format!("nli {model}@{} {thresholds}", &digest[..DIGEST_CHARS]),
            classifier: Classifier::read(folder, &shape, labels, bytes)?,
            pad_id: shape.pad_token_id,
            tokenizer,
            labels,
            thresholds,
        })
    }

    /// Returns the name under which its answers are kept: model, weights and thresholds.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Scores pairs, of each whether the first text entails or contradicts the second; memory does
    /// not grow with their number, except for their tokens. Ends early if `cancelled`.
    ///
    /// # Errors
    /// When the model cannot be run.
    pub fn scores(
        &self,
        pairs: &[(&str, &str)],
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Option<(Vec<Scores>, u64)>, String> {
        let encodings = self.tokenizer.encode_batch(pairs.to_vec(), true);
        let encodings = encodings.map_err(|error| error.to_string())?;
        // Pairs of like length go together: little is filled up.
        let mut order: Vec<usize> = (0..encodings.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(encodings[at].len()));
        let mut scores = vec![Scores { entailment: 0.0, contradiction: 0.0 }; pairs.len()];
        let mut rest = &order[..];
        while let Some(&longest) = rest.first() {
            if cancelled() {
                return Ok(None);
            }
            let fits = TOKENS_AT_ONCE / encodings[longest].len().max(1);
            let (some, others) = rest.split_at(fits.clamp(1, rest.len()));
            let batch: Vec<&Encoding> = some.iter().map(|&at| &encodings[at]).collect();
            let found = Tokens::of(&batch, self.pad_id)
                .and_then(|tokens| self.classifier.probabilities(&tokens))
                .map_err(|error| error.to_string())?;
            for (&at, row) in some.iter().zip(found) {
                let of = |label: usize| row.get(label).map_or(0.0, |value| f64::from(*value));
                scores[at] = Scores {
                    entailment: of(self.labels.entailment),
                    contradiction: of(self.labels.contradiction),
                };
            }
            rest = others;
        }
        let tokens = encodings.iter().map(|encoding| encoding.len() as u64).sum();
        Ok(Some((scores, tokens)))
    }

    /// Combines the scores of a group's pairs.
    fn opinion(&self, group: &Group, scores: &[Scores]) -> Opinion {
        let same = scores.iter().map(|score| score.entailment).fold(1.0, f64::min);
        let conflict = scores.iter().map(|score| score.contradiction).fold(0.0, f64::max);
        let reason = format!("entailment both ways {same:.2}, contradiction {conflict:.2}");
        self.thresholds.opinion(group, GroupScores { same, conflict }, reason)
    }
}

/// Each two texts of a group, both ways.
fn both_ways(group: &Group) -> impl Iterator<Item = (&str, &str)> {
    let texts = group.pairs().map(|pair| pair.map(|member| member.text.as_str()));
    texts.flat_map(|[one, other]| [(one, other), (other, one)])
}

impl Judge for NliJudge {
    fn names(&self) -> Vec<String> {
        vec![self.name.clone()]
    }

    fn answer(
        &mut self,
        prompt: &Prompt,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Reply, JudgeError> {
        if !matches!(prompt.task, Task::Duplicates { .. }) {
            let reasons = vec![format!("{} answers about duplicates only", self.name)];
            return Err(JudgeError::Unanswered { reasons, is_final: true });
        }
        let watch = Stopwatch::start();
        let groups = &prompt.batch.groups;
        let pairs: Vec<(&str, &str)> = groups.iter().flat_map(both_ways).collect();
        let scored = self.scores(&pairs, cancelled).map_err(|reason| JudgeError::Unanswered {
            reasons: vec![format!("{}: {}", self.name, excerpt(&reason, REASON_CHARS))],
            is_final: true,
        })?;
        let Some((scores, tokens)) = scored else { return Err(JudgeError::Cancelled) };
        let mut rest = &scores[..];
        let mut opinions = Vec::with_capacity(groups.len());
        for group in groups {
            let (own, others) = rest.split_at(both_ways(group).count());
            opinions.push(self.opinion(group, own));
            rest = others;
        }
        let latency_ms = (watch.seconds() * 1_000.0) as u64;
        let usage = Usage { requests: 1, prompt_tokens: tokens, latency_ms, ..Usage::default() };
        Ok(Reply { judge: self.name.clone(), opinions, usage })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::path::PathBuf;

    use memfold_core::judge::ask::Asking;
    use memfold_core::judge::{Judgement, Member, OpinionKind, Records, Vote, ask_all};
    use memfold_core::memory::MemoryId;
    use memfold_core::policy::ConfigLoader;

    use super::*;

    const KINDS: [&str; 3] = ["bert", "deberta", "modernbert"];

    /// Probabilities of another program for a tiny random model; bench/guard/nli_models.py makes both.
    #[derive(Deserialize)]
    struct Expected {
        pairs: Vec<ExpectedPair>,
    }

    #[derive(Deserialize)]
    struct ExpectedPair {
        texts: [String; 2],
        entailment: f64,
        contradiction: f64,
    }

    fn folder(kind: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests_data/nli").join(kind)
    }

    fn settings() -> NliSettings {
        ConfigLoader::new().load().unwrap().settings.judge.nli
    }

    fn judge(kind: &str, same_min: f64, conflict_min: f64) -> NliJudge {
        NliJudge::read(&folder(kind), &NliSettings { same_min, conflict_min, ..settings() })
            .unwrap()
    }

    fn expected(kind: &str) -> Expected {
        json(&folder(kind).join("expected.json")).unwrap().unwrap()
    }

    #[test]
    fn each_kind_gives_the_probabilities_of_another_implementation() {
        for kind in KINDS {
            let Expected { pairs } = expected(kind);
            let judge = judge(kind, 0.9, 0.9);
            let texts: Vec<(&str, &str)> =
                pairs.iter().map(|pair| (&*pair.texts[0], &*pair.texts[1])).collect();
            let (together, _) = judge.scores(&texts, &|| false).unwrap().unwrap();
            for ((pair, found), texts) in pairs.iter().zip(&together).zip(&texts) {
                // The other pairs of a batch change nothing.
                let (alone, _) = judge.scores(&[*texts], &|| false).unwrap().unwrap();
                for score in [found, &alone[0]] {
                    let near = |value: f64, expected: f64| (value - expected).abs() < 1e-4;
                    assert!(
                        near(score.entailment, pair.entailment)
                            && near(score.contradiction, pair.contradiction),
                        "{kind} {:?}: {score:?}, expected {} {}",
                        pair.texts,
                        pair.entailment,
                        pair.contradiction
                    );
                }
            }
            let least = together.iter().map(|score| score.entailment).fold(1.0, f64::min);
            let most = together.iter().map(|score| score.entailment).fold(0.0, f64::max);
            assert!(most - least > 0.05, "{kind}: the pairs of the test look alike");
        }
    }

    fn group(texts: &[&str]) -> Group {
        let member = |text: &&str| Member {
            handle: String::new(),
            id: MemoryId::new(*text),
            text: (*text).to_owned(),
            categories: Vec::new(),
            importance: 1.0,
            created: String::new(),
            source: String::new(),
        };
        Group::new(texts.iter().map(member).collect())
    }

    #[derive(Default)]
    struct Kept(BTreeMap<String, Vote>);

    impl Records for Kept {
        type Error = Infallible;

        fn find(&self, key: &str) -> Result<Option<Vote>, Infallible> {
            Ok(self.0.get(key).cloned())
        }

        fn keep(&mut self, judgements: &[Judgement]) -> Result<(), Infallible> {
            for Judgement { vote, .. } in judgements {
                self.0.insert(vote.key.clone(), vote.clone());
            }
            Ok(())
        }
    }

    fn asking(task: Task, cancelled: &dyn Fn() -> bool) -> Asking<'_> {
        Asking {
            batch_size: 8,
            votes: 2,
            task,
            recorded_only: false,
            cancelled,
            progress: &|_, _, _| {},
        }
    }

    #[test]
    fn thresholds_make_opinions_of_scores_and_answers_are_kept() {
        let Expected { pairs } = expected("bert");
        let texts: Vec<&str> = pairs[..4].iter().map(|pair| &*pair.texts[0]).collect();
        let groups: Vec<Group> = [&texts[..2], &texts[1..4]].map(group).to_vec();
        let duplicates = Task::Duplicates { rewrite: false };
        for (same_min, conflict_min, action) in [
            (0.0, 1.0, OpinionKind::Merge),
            (1.0, 1.0, OpinionKind::Skip),
            (0.0, 0.0, OpinionKind::KeepSeparate),
        ] {
            let mut judge = judge("bert", same_min, conflict_min);
            let mut kept = Kept::default();
            let asked =
                ask_all(&groups, &mut judge, &mut kept, &asking(duplicates, &|| false)).unwrap();
            for (votes, group) in asked.votes.iter().zip(&groups) {
                let opinion = &votes[0].opinions[0];
                assert_eq!((opinion.action, opinion.ids.len()), (action, group.memories.len()));
                assert_eq!(opinion.keep.is_some(), action == OpinionKind::Merge);
                // The least probable of all pairs and directions.
                let pairs: Vec<_> = both_ways(group).collect();
                let (scores, _) = judge.scores(&pairs, &|| false).unwrap().unwrap();
                let least = scores.iter().map(|score| score.entailment).fold(1.0, f64::min);
                assert!((opinion.probability.unwrap() - least).abs() <= 0.005 + 1e-9);
                let keeps = votes.iter().map(|vote| &vote.opinions[0].keep);
                assert!(keeps.clone().all(|keep| keep == &opinion.keep), "votes agree");
            }
            assert!(asked.tally.usage.prompt_tokens > 0 && asked.tally.unanswered == 0);
            let again =
                ask_all(&groups, &mut judge, &mut kept, &asking(duplicates, &|| true)).unwrap();
            assert_eq!((&again.votes, again.tally.answered), (&asked.votes, 0));
        }
    }

    #[test]
    fn other_tasks_and_a_stop_are_no_answer() {
        let groups = [group(&["one text", "another text"])];
        for (task, stops) in
            [(Task::Supersession, false), (Task::Duplicates { rewrite: false }, true)]
        {
            let mut judge = judge("bert", 0.5, 0.9);
            let asked =
                ask_all(&groups, &mut judge, &mut Kept::default(), &asking(task, &|| stops));
            let asked = asked.unwrap();
            assert_eq!((asked.votes[0].len(), asked.is_cancelled), (0, stops));
            assert_eq!(asked.tally.unanswered, 1);
        }
    }

    #[test]
    fn names_tell_models_and_thresholds_apart() {
        let names: Vec<String> = [("bert", 0.9), ("bert", 0.8), ("deberta", 0.9)]
            .map(|(kind, same)| judge(kind, same, 0.9).name().to_owned())
            .to_vec();
        assert!(
            names[0].starts_with("nli bert@") && names[0].ends_with("(same 0.9, conflict 0.9)")
        );
        assert!(names[0] != names[1] && names[0] != names[2], "{names:?}");
    }

    #[test]
    fn labels_are_found_by_name() {
        let names = |names: &[&str]| {
            let numbered = names.iter().enumerate();
            Labels::of(&numbered.map(|(at, name)| (at.to_string(), (*name).to_owned())).collect())
        };
        let found = names(&["ENTAILMENT", "Neutral", "contradiction"]).unwrap();
        assert_eq!(found, Labels { entailment: 0, contradiction: 2, count: 3 });
        for wrong in [&["LABEL_0", "LABEL_1"][..], &["not_entailment", "contradiction"], &[]] {
            assert!(names(wrong).unwrap_err().contains("id2label"), "{wrong:?}");
        }
    }

    #[test]
    fn a_folder_that_holds_no_classifier_is_named() {
        let place = tempfile::tempdir().unwrap();
        let read = || NliJudge::read(place.path(), &settings()).err().unwrap().to_string();
        let copy = |name: &str| {
            std::fs::copy(folder("bert").join(name), place.path().join(name)).unwrap();
        };
        assert!(read().contains("config.json is missing"), "{}", read());
        std::fs::write(place.path().join("config.json"), "{").unwrap();
        assert!(read().contains("config.json: "), "{}", read());
        copy("config.json");
        assert!(read().contains("tokenizer.json: "), "{}", read());
        copy("tokenizer.json");
        assert!(read().contains("model.safetensors: "), "{}", read());
        std::fs::write(place.path().join("model.safetensors"), "no weights").unwrap();
        assert!(read().contains("model.safetensors: "), "{}", read());
        let weights = std::fs::read(folder("bert").join("model.safetensors")).unwrap();
        std::fs::write(place.path().join("model.safetensors"), &weights[..weights.len() / 2])
            .unwrap();
        assert!(read().contains("model.safetensors: "), "{}", read());
        copy("model.safetensors");
        assert!(NliJudge::read(place.path(), &settings()).is_ok());
        let config = std::fs::read_to_string(folder("bert").join("config.json")).unwrap();
        let other = config.replace("\"model_type\": \"bert\"", "\"model_type\": \"t5\"");
        std::fs::write(place.path().join("config.json"), other).unwrap();
        assert!(read().contains("model_type \"t5\" is not known"), "{}", read());
        assert!(read().contains(&place.path().display().to_string()));
    }
}
