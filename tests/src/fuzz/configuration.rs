//! Configuration files and values.

use std::sync::OnceLock;

use memfold_core::policy::{ConfigLoader, config_hash};

use super::Changes;
use super::files::with_file;

const YAML: &str = "\
# memfold.yaml, beside the store
consolidation:
  threshold: 0.96
  profile: strict
guard: &guard
  enabled: yes
cluster: { separate_by: [private, 'work'] }
rules:
  - id: R4-archive-low-utility
    enabled: false
  - id: R9-own
    when: { min_similarity: 0.99, older_than: 30d }
    then: { action: merge }
time_zone: |
  some
  zone
";

const WORDS: &str = "\
    brain consolidation enabled read_only threshold trigger time_zone rules when then action \
    merge promote archive params minSimilarity id guard cluster protection profile quick_check \
    null ~ true no .inf .nan *guard &guard << !!binary --- ... - ? | > \t 0x7f 1_000 90d \
    Europe/Oslo \u{feff} ' \" R1-exact-duplicate-merge";

/// Every key, as JSON.
fn json() -> &'static str {
    static JSON: OnceLock<String> = OnceLock::new();
    JSON.get_or_init(|| {
        let configuration = ConfigLoader::new().load().expect("what is built in is valid");
        format!("{:#}", configuration.merged())
    })
}

/// Takes a configuration file, or a value on the command line or of a variable.
pub(super) fn run(bytes: &[u8]) {
    let mut changes = Changes::new(bytes);
    let (name, intact) = match changes.below(8) {
        0..=3 => ("fuzzed.yaml", YAML),
        4 | 5 => ("fuzzed.json", json()),
        6 => return load(ConfigLoader::new().set(String::from_utf8_lossy(changes.rest()))),
        _ => {
            let key =
                changes.pick(&["THRESHOLD", "GUARD_ENABLED", "CLUSTER_SEPARATE_BY", "TIME_ZONE"]);
            let value = String::from_utf8_lossy(changes.rest()).into_owned();
            return load(ConfigLoader::new().environment([(format!("MEMFOLD_{key}"), value)]));
        }
    };
    let mut text = intact.as_bytes().to_vec();
    if changes.below(8) == 0 {
        text = changes.rest().to_vec();
    } else {
        changes.apply_to_text(&mut text, WORDS);
    }
    with_file(name, &text, |path| load(ConfigLoader::new().file(path)));
}

fn load(loader: ConfigLoader) {
    match loader.load() {
        Ok(configuration) => {
            assert!(!configuration.entries().is_empty());
            assert!(config_hash(&configuration.policy, b"").starts_with("sha256:"));
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let _ = error.hint();
        }
    }
}
