//! [`LocalEmbedder`]: a BERT-style sentence model.

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};
use memfold_guard::text::excerpt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokenizers::{PaddingParams, PaddingStrategy, Tokenizer, TruncationParams};

use crate::embed::provider::checked;
use crate::embed::{EmbedError, Embedder};

/// Characters of a library's error that are reported.
const REASON_CHARS: usize = 200;

/// A model that is loaded.
pub(super) struct LocalEmbedder {
    place: String,
    name: Option<String>,
    tokenizer: Tokenizer,
    model: BertModel,
    usage: Usage,
}

/// Something of a folder that does not do.
pub(crate) type Reason = String;

impl LocalEmbedder {
    /// Reads the model of a folder; without a name it gets the folder's.
    pub(super) fn read(folder: &Path, name: Option<&str>) -> Result<Self, EmbedError> {
        let place = folder.display().to_string();
        let own = || folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let read = || -> Result<_, Reason> {
            let config: Option<Config> = json(&folder.join("config.json"))?;
            let config = config.ok_or("config.json is missing")?;
            if config.num_attention_heads == 0
                || config.hidden_size % config.num_attention_heads != 0
            {
                return Err("config.json: hidden_size is no multiple of num_attention_heads".into());
            }
            let usage = Usage::read(folder, config.max_position_embeddings)?;
            Ok((tokenizer(folder, &config, usage)?, model(folder, &config)?, usage))
        };
        let (tokenizer, model, usage) = read().map_err(|reason| failed(&place, &reason))?;
        let name = name.map(str::to_owned).or_else(own);
        Ok(Self { place, name, tokenizer, model, usage })
    }

    fn vectors(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, Reason> {
        let encodings = self.tokenizer.encode_batch(texts.to_vec(), true);
        let encodings = encodings.map_err(|error| error.to_string())?;
        let tokens = |of: fn(&tokenizers::Encoding) -> &[u32]| -> candle_core::Result<Tensor> {
            let rows: Vec<Vec<u32>> = encodings.iter().map(|row| of(row).to_vec()).collect();
            Tensor::new(rows, &Device::Cpu)
        };
        let run = || -> candle_core::Result<Vec<Vec<f32>>> {
            let ids = tokens(tokenizers::Encoding::get_ids)?;
            let types = tokens(tokenizers::Encoding::get_type_ids)?;
            let mask = tokens(tokenizers::Encoding::get_attention_mask)?;
            let states = self.model.forward(&ids, &types, Some(&mask))?;
            self.pooled(&states, &mask)?.to_vec2()
        };
        run().map_err(|error| error.to_string())
    }

    /// One vector for each text, pooled from its tokens' vectors.
    fn pooled(&self, states: &Tensor, mask: &Tensor) -> candle_core::Result<Tensor> {
        let pooled = match self.usage.pooling {
            Pooling::First => states.narrow(1, 0, 1)?.squeeze(1)?,
            Pooling::Mean => {
                let mask = mask.to_dtype(DType::F32)?.unsqueeze(2)?;
                let sum = states.broadcast_mul(&mask)?.sum(1)?;
                sum.broadcast_div(&mask.sum(1)?)?
            }
        };
        if !self.usage.normalize {
            return Ok(pooled);
        }
        pooled.broadcast_div(&pooled.sqr()?.sum_keepdim(1)?.sqrt()?)
    }
}

impl Embedder for LocalEmbedder {
    fn model(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn place(&self) -> &str {
        &self.place
    }

    fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let vectors = self.vectors(texts).map_err(|reason| failed(&self.place, &reason))?;
        checked(&self.place, texts.len(), vectors)
    }
}

/// Reads the tokenizer: it cuts texts to the model's length, and pads the shorter ones of a batch.
fn tokenizer(folder: &Path, config: &Config, usage: Usage) -> Result<Tokenizer, Reason> {
    let mut tokenizer = cutting_tokenizer(folder, usage.tokens_max)?;
    let pad_id = u32::try_from(config.pad_token_id).map_err(|error| error.to_string())?;
    let padding = tokenizer.get_padding().cloned().unwrap_or_else(|| PaddingParams {
        pad_id,
        pad_token: tokenizer.id_to_token(pad_id).unwrap_or_else(|| "[PAD]".to_owned()),
        ..PaddingParams::default()
    });
    tokenizer
        .with_padding(Some(PaddingParams { strategy: PaddingStrategy::BatchLongest, ..padding }));
    Ok(tokenizer)
}

/// Reads a folder's tokenizer; it cuts texts to this many tokens, the longer one of two first.
pub(crate) fn cutting_tokenizer(folder: &Path, tokens_max: usize) -> Result<Tokenizer, Reason> {
    let named = |error: tokenizers::Error| format!("tokenizer.json: {error}");
    let mut tokenizer = Tokenizer::from_file(folder.join("tokenizer.json")).map_err(named)?;
    let truncation = TruncationParams { max_length: tokens_max, ..TruncationParams::default() };
    tokenizer.with_truncation(Some(truncation)).map_err(named)?;
    Ok(tokenizer)
}

fn model(folder: &Path, config: &Config) -> Result<BertModel, Reason> {
    let bytes = weight_bytes(folder)?;
    BertModel::load(weights(bytes)?, config).map_err(|error| of_weights(&error))
}

/// Reads the bytes of a folder's weights.
pub(crate) fn weight_bytes(folder: &Path) -> Result<Vec<u8>, Reason> {
    std::fs::read(folder.join("model.safetensors")).map_err(|error| of_weights(&error))
}

/// Makes the weights of their bytes, on the processor.
pub(crate) fn weights(bytes: Vec<u8>) -> Result<VarBuilder<'static>, Reason> {
    let weights = VarBuilder::from_buffered_safetensors(bytes, DType::F32, &Device::Cpu);
    weights.map_err(|error| of_weights(&error))
}

/// Says that the weights do not do.
pub(crate) fn of_weights(error: &dyn std::fmt::Display) -> Reason {
    // Below the first line is where in the library it happened.
    let error = error.to_string();
    format!("model.safetensors: {}", error.lines().next().unwrap_or_default())
}

fn failed(place: &str, reason: &str) -> EmbedError {
    EmbedError::Model { folder: place.to_owned(), reason: excerpt(reason, REASON_CHARS) }
}

/// Default length of a text in tokens: small sentence models were trained on this length.
const TOKENS_DEFAULT: usize = 256;

/// How vectors of tokens become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    /// Their mean.
    Mean,
    /// That of the first token.
    First,
}

/// How a model is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    /// Tokens of a text that are read, the marks at its ends included.
    pub(super) tokens_max: usize,
    pub(super) pooling: Pooling,
    /// Whether vectors are brought to length 1.
    pub(super) normalize: bool,
}

#[derive(Deserialize)]
struct Transformer {
    max_seq_length: Option<usize>,
}

#[derive(Deserialize)]
struct Module {
    path: String,
    r#type: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PoolingConfig {
    pooling_mode_cls_token: bool,
    pooling_mode_mean_tokens: bool,
    pooling_mode_max_tokens: bool,
    pooling_mode_mean_sqrt_len_tokens: bool,
    pooling_mode_weightedmean_tokens: bool,
    pooling_mode_lasttoken: bool,
}

impl Usage {
    /// Reads how the model of a folder is used; it has places for `positions` tokens.
    ///
    /// # Errors
    /// A file that cannot be read, or an unknown setting.
    pub(super) fn read(folder: &Path, positions: usize) -> Result<Self, String> {
        let transformer: Option<Transformer> = json(&folder.join("sentence_bert_config.json"))?;
        let read = transformer.and_then(|config| config.max_seq_length).unwrap_or(TOKENS_DEFAULT);
        let modules: Option<Vec<Module>> = json(&folder.join("modules.json"))?;
        let usage = Self {
            tokens_max: read.min(positions).max(2),
            pooling: Pooling::Mean,
            normalize: true,
        };
        modules.map_or(Ok(usage), |modules| usage.with_modules(folder, &modules))
    }

    fn with_modules(self, folder: &Path, modules: &[Module]) -> Result<Self, String> {
        let mut usage = Self { normalize: false, ..self };
        for module in modules {
            match module.r#type.rsplit('.').next().unwrap_or_default() {
                "Transformer" => {}
                "Normalize" => usage.normalize = true,
                "Pooling" => {
                    let place = folder.join(&module.path).join("config.json");
                    let config: Option<PoolingConfig> = json(&place)?;
                    usage.pooling = config.map_or(Ok(Pooling::Mean), |config| config.pooling())?;
                }
                other => return Err(format!("modules.json has a module {other:?}, unknown here")),
            }
        }
        Ok(usage)
    }
}

impl PoolingConfig {
    fn pooling(&self) -> Result<Pooling, String> {
        let others = self.pooling_mode_max_tokens
            || self.pooling_mode_mean_sqrt_len_tokens
            || self.pooling_mode_weightedmean_tokens
            || self.pooling_mode_lasttoken;
        match (self.pooling_mode_cls_token, self.pooling_mode_mean_tokens, others) {
            (false, true, false) => Ok(Pooling::Mean),
            (true, false, false) => Ok(Pooling::First),
            _ => Err("its pooling is neither the mean nor the first token".to_owned()),
        }
    }
}

/// Reads a JSON file; `None` where there is none.
pub(crate) fn json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match std::fs::read(path) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map(Some).map_err(|error| format!("{name}: {error}"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(files: &[(&str, &str)]) -> Result<Usage, String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Usage::read(folder.path(), 512)
    }

    const MODULES: &str = r#"[{"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]"#;

    #[test]
    fn a_bare_folder_is_read_as_most_models_are() {
        let expected = Usage { tokens_max: 256, pooling: Pooling::Mean, normalize: true };
        assert_eq!(usage(&[]), Ok(expected));
    }

    #[test]
    fn what_stands_beside_the_model_holds() {
        let found = usage(&[
            ("sentence_bert_config.json", r#"{"max_seq_length": 128, "do_lower_case": false}"#),
            ("modules.json", MODULES),
            ("1_Pooling/config.json", r#"{"pooling_mode_cls_token": true}"#),
        ]);
        let expected = Usage { tokens_max: 128, pooling: Pooling::First, normalize: false };
        assert_eq!(found, Ok(expected));
        let long = [("sentence_bert_config.json", r#"{"max_seq_length": 9999}"#)];
        assert_eq!(usage(&long).unwrap().tokens_max, 512);
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let dense = r#"[{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]"#;
        let max = r#"{"pooling_mode_max_tokens": true}"#;
        for (files, word) in [
            (&[("modules.json", dense)][..], "Dense"),
            (&[("modules.json", "[")], "modules.json: "),
            (&[("modules.json", MODULES), ("1_Pooling/config.json", max)], "pooling"),
        ] {
            let error = usage(files).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
