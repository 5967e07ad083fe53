//! What stands beside a model: how much it reads, and how vectors of tokens become one.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// How much of a text is read where nothing says so, in tokens: what small sentence models were trained on.
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
    /// What cannot be read, or is not known here.
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
pub(super) fn json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, String> {
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
