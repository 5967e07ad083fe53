//! [`LocalEmbedder`]: a BERT-style sentence model.

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};
use tokenizers::{PaddingParams, PaddingStrategy, Tokenizer, TruncationParams};

use super::folder::{Pooling, Usage, json};
use crate::embed::check::checked;
use crate::embed::{EmbedError, Embedder};
use memfold_model::text::excerpt;

/// How much of a library's complaint is shown.
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
type Reason = String;

impl LocalEmbedder {
    /// Reads the model of a folder; without a name it goes by that of the folder.
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

    /// One vector for each text, of those of its tokens.
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

/// Reads the tokenizer: it cuts texts to what the model reads, and fills up the shorter ones of a batch.
fn tokenizer(folder: &Path, config: &Config, usage: Usage) -> Result<Tokenizer, Reason> {
    let named = |error: tokenizers::Error| format!("tokenizer.json: {error}");
    let mut tokenizer = Tokenizer::from_file(folder.join("tokenizer.json")).map_err(named)?;
    let pad_id = u32::try_from(config.pad_token_id).map_err(|error| error.to_string())?;
    let padding = tokenizer.get_padding().cloned().unwrap_or_else(|| PaddingParams {
        pad_id,
        pad_token: tokenizer.id_to_token(pad_id).unwrap_or_else(|| "[PAD]".to_owned()),
        ..PaddingParams::default()
    });
    tokenizer
        .with_padding(Some(PaddingParams { strategy: PaddingStrategy::BatchLongest, ..padding }));
    let truncation =
        TruncationParams { max_length: usage.tokens_max, ..TruncationParams::default() };
    tokenizer.with_truncation(Some(truncation)).map_err(named)?;
    Ok(tokenizer)
}

fn model(folder: &Path, config: &Config) -> Result<BertModel, Reason> {
    let named = |error: &dyn std::fmt::Display| format!("model.safetensors: {error}");
    let bytes = std::fs::read(folder.join("model.safetensors")).map_err(|error| named(&error))?;
    let weights = VarBuilder::from_buffered_safetensors(bytes, DType::F32, &Device::Cpu);
    let weights = weights.map_err(|error| named(&error))?;
    BertModel::load(weights, config).map_err(|error| named(&error))
}

fn failed(place: &str, reason: &str) -> EmbedError {
    EmbedError::Model { folder: place.to_owned(), reason: excerpt(reason, REASON_CHARS) }
}
