//! A real model gives the vectors that its makers' own program gives.
//!
//! `MEMFOLD_MINILM_DIR` names a folder with all-MiniLM-L6-v2 and `expected.json`: texts, and their vectors as another
//! program made them. `bench/peers/minilm.py` prepares one.

use std::path::PathBuf;

use serde::Deserialize;

use crate::embed::{Embedder, embedder};
use memfold_core::policy::ConfigLoader;

const COSINE_MIN: f64 = 0.9999;

#[derive(Deserialize)]
struct Expected {
    made_by: String,
    texts: Vec<String>,
    vectors: Vec<Vec<f32>>,
}

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("MEMFOLD_MINILM_DIR").map(PathBuf::from);
    if folder.is_none() {
        report("skipped: MEMFOLD_MINILM_DIR is not set");
    }
    folder
}

#[expect(clippy::print_stderr, reason = "a skipped test says so, and a measured figure is shown")]
fn report(line: &str) {
    eprintln!("{line}");
}

fn model(folder: &std::path::Path) -> Box<dyn Embedder> {
    let loader = ConfigLoader::new().set("embed.provider=local");
    let settings = loader.set(format!("embed.url={}", folder.display())).load().unwrap();
    embedder(&settings.settings.embed, Some("all-MiniLM-L6-v2"), &|_| None).unwrap().unwrap()
}

fn cosine(left: &[f32], right: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
    };
    dot(left, right) / (dot(left, left) * dot(right, right)).sqrt()
}

#[test]
fn vectors_are_those_of_the_models_own_program() {
    let Some(folder) = folder() else { return };
    let bytes = std::fs::read(folder.join("expected.json")).unwrap();
    let expected: Expected = serde_json::from_slice(&bytes).unwrap();
    let mut model = model(&folder);
    let mut cosines = Vec::new();
    for (texts, vectors) in expected.texts.chunks(32).zip(expected.vectors.chunks(32)) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let found = model.embed(&texts).unwrap();
        cosines.extend(found.iter().zip(vectors).map(|(found, made)| cosine(found, made)));
    }
    assert_eq!(cosines.len(), expected.texts.len());
    let lowest = cosines.iter().copied().fold(f64::INFINITY, f64::min);
    let count = cosines.len();
    report(&format!("texts {count}, made by {}, lowest cosine {lowest:.9}", expected.made_by));
    assert!(lowest >= COSINE_MIN, "{lowest}");
}

#[test]
fn a_text_has_its_vector_whatever_stands_beside_it_and_is_cut_where_the_model_ends() {
    let Some(folder) = folder() else { return };
    let mut model = model(&folder);
    let (short, long) = ("The kiln is fired on Mondays.", "kiln ".repeat(300));
    let longer = format!("{long} and something that the model never reads");
    let together = model.embed(&[short, &long, &longer]).unwrap();
    let alone = model.embed(&[short]).unwrap();
    assert!(cosine(&together[0], &alone[0]) > 0.999_999);
    assert_eq!(together[1], together[2]);
    assert!(cosine(&together[0], &together[1]) < 0.99);
    for vector in &together {
        let length: f32 = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
    }
    assert_eq!(model.model(), Some("all-MiniLM-L6-v2"));
}

#[test]
fn a_folder_that_holds_no_model_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = r#"{"vocab_size": 9, "hidden_size": 6, "num_hidden_layers": 1, "num_attention_heads": HEADS,
        "intermediate_size": 8, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "max_position_embeddings": 16,
        "type_vocab_size": 2, "initializer_range": 0.02, "layer_norm_eps": 1e-12, "pad_token_id": 0}"#;
    let opened = || {
        let loader = ConfigLoader::new().set("embed.provider=local");
        let settings = loader.set(format!("embed.url={}", folder.path().display())).load().unwrap();
        embedder(&settings.settings.embed, None, &|_| None).err().unwrap()
    };
    assert!(opened().to_string().contains("config.json is missing"), "{}", opened());
    for (file, text, words) in [
        ("config.json", "{", "config.json: "),
        ("config.json", &*config.replace("HEADS", "0"), "no multiple of"),
        ("config.json", &*config.replace("HEADS", "4"), "no multiple of"),
        ("config.json", &*config.replace("HEADS", "2"), "tokenizer.json: "),
        ("tokenizer.json", "{}", "tokenizer.json: "),
    ] {
        std::fs::write(folder.path().join(file), text).unwrap();
        let error = opened();
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.to_string().contains(&folder.path().display().to_string()), "{error}");
        assert!(error.hint().unwrap().contains("model.safetensors"));
    }
}
