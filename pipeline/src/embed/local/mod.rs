//! A model in a folder, run in this process; only with the feature `local-models`.
//!
//! The folder has the usual files of a published sentence model: `config.json`, `tokenizer.json`
//! and `model.safetensors`, and optionally `sentence_bert_config.json` (how much of a text is
//! read), `modules.json` and `1_Pooling/config.json` (how vectors of tokens become one).

#[cfg(feature = "local-models")]
pub(crate) mod model;
#[cfg(all(test, feature = "local-models"))]
mod tests;

use super::{EmbedError, EmbedSettings, Embedder};

/// Reads the model of the configured folder.
#[cfg(feature = "local-models")]
pub(super) fn open(
    settings: &EmbedSettings,
    store_model: Option<&str>,
) -> Result<Box<dyn Embedder>, EmbedError> {
    let folder = settings.dir.as_deref().ok_or_else(|| EmbedError::Setting {
        key: "embed.url",
        problem: "is not set: there is no model to run".to_owned(),
        advice: "name the folder with config.json, tokenizer.json and model.safetensors: --set embed.url=FOLDER"
            .to_owned(),
    })?;
    let name = settings.model.as_deref().or(store_model);
    Ok(Box::new(model::LocalEmbedder::read(folder, name)?))
}

/// Says that this program was built without local models.
#[cfg(not(feature = "local-models"))]
pub(super) fn open(
    _settings: &EmbedSettings,
    _store_model: Option<&str>,
) -> Result<Box<dyn Embedder>, EmbedError> {
    Err(EmbedError::NotBuilt)
}

#[cfg(all(test, not(feature = "local-models")))]
mod without {
    use memfold_core::policy::ConfigLoader;

    #[test]
    fn without_the_feature_the_error_says_how_to_build() {
        let loader = ConfigLoader::new().set("embed.provider=local").set("embed.url=model");
        let settings = loader.load().unwrap().settings.embed;
        let error = crate::embed::embedder(&settings, None, &|_| None).err().unwrap();
        assert!(error.hint().unwrap().contains("--features local-models"), "{error}");
    }
}
