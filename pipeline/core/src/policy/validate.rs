//! From a merged configuration to a [`Policy`] and [`Settings`]: the checks that need more than one value.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use crate::lifecycle::{RetentionPolicy, WARM_MIN};
use crate::time::{Instant, in_zone};
use crate::value::{canonical_json, sha256_hex};
use jiff::civil::DateTime;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, Zoned};
use memfold_guard::GuardPolicy;
use memfold_simd::Similarity;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::config::{
    Absorbed, ClusterPolicy, Config, DetectPolicy, EmbedSettings, FlagPolicy, GuardConfig,
    JudgeSettings, KeyFromElsewhere, LifecycleConfig, MergePolicy, ProposePolicy, ProtectionPolicy,
    Provider, QuickCheckPolicy, Rule, RuleAction, ScopeConfig, Trigger, name_of,
};
use super::error::{ConfigError, Notice, Source, shown};
use super::layers::{Node, Tree};
use super::loader::{ConfigLoader, read_text};
use super::names::nearest;

/// The validated, merged semantic configuration. Nothing in it is a path, a thread count or a secret.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Policy {
    /// The rules that count, in order; the first that matches wins.
    pub rules: Vec<Rule>,
    /// How pairs are found.
    pub detect: DetectPolicy,
    /// How pairs become clusters.
    pub cluster: ClusterPolicy,
    /// How texts are compared.
    pub guard: GuardPolicy,
    /// The memories that are never touched.
    pub protection: ProtectionPolicy,
    /// How merges are made.
    pub merge: MergePolicy,
    /// How many contradictions are flagged.
    pub flags: FlagPolicy,
    /// Which near pairs are proposed to a person.
    pub propose: ProposePolicy,
    /// Which memories take part.
    pub scope: Scope,
    /// The resolved zone of naive times: an IANA name or a fixed offset.
    pub time_zone: String,
    /// Runs only the rules of this trigger (and `on_*`); `None`: all.
    pub trigger: Option<Trigger>,
}

impl Policy {
    /// Returns the rules that run, in order: the ones of [`Self::trigger`] and the `on_*` ones, or all.
    pub(crate) fn active_rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| {
            self.trigger.is_none_or(|trigger| rule.trigger == trigger || rule.trigger.is_always())
        })
    }

    /// Returns where a rule's merged memories go: the rule's own setting, else `merge.absorbed`.
    pub(crate) fn absorbed_by(&self, rule_id: &str) -> Absorbed {
        let rule = self.rules.iter().find(|rule| rule.id == rule_id);
        rule.and_then(|rule| rule.then.params.absorbed).unwrap_or(self.merge.absorbed)
    }

    /// Returns the lowest `min_similarity` of the merge rules that run: the threshold of the one
    /// clustering. `None` where no merge rule runs.
    #[must_use]
    pub fn merge_threshold(&self) -> Option<Similarity> {
        self.lowest_of_merges(|rule| self.guard.enabled || !rule.when.is_proven_same())
    }

    /// Returns the lowest similarity at which a text merges that says more than the other.
    pub(crate) fn extension_threshold(&self) -> Option<Similarity> {
        self.lowest_of_merges(|rule| !rule.when.is_proven_same())
    }

    fn lowest_of_merges(&self, counts: impl Fn(&Rule) -> bool) -> Option<Similarity> {
        self.active_rules()
            .filter(|rule| rule.then.action == RuleAction::Merge && counts(rule))
            .filter_map(|rule| rule.when.min_similarity)
            .min()
    }

    /// Returns the lowest similarity that anything looks at: that of merges, and that of
    /// contradictions where a rule flags them. `None` where no rule needs pairs.
    pub(crate) fn join_threshold(&self) -> Option<Similarity> {
        let flags =
            self.active_rules().any(|rule| rule.then.action == RuleAction::FlagContradiction);
        let contradiction = flags.then_some(self.detect.contradiction_similarity);
        self.merge_threshold().into_iter().chain(contradiction).min()
    }

    /// Returns the similarity from which another value in the same frame is an update.
    pub(crate) fn update_similarity(&self) -> Similarity {
        let contradiction = self.detect.contradiction_similarity;
        self.propose_threshold().map_or(contradiction, |proposing| proposing.min(contradiction))
    }

    /// Returns the similarity from which pairs are proposed; `None` where nothing is proposed, or nothing compares texts.
    pub(crate) fn propose_threshold(&self) -> Option<Similarity> {
        let merges = self.merge_threshold().is_some();
        let wanted = merges && self.guard.enabled && self.propose.max_per_run > 0;
        wanted.then_some(self.propose.min_similarity)
    }

    /// Returns the policy where nothing is configured; times without a zone are in UTC.
    #[must_use]
    pub fn builtin() -> Self {
        ConfigLoader::new().load().expect("the built-in configuration is valid").policy
    }

    /// Returns the zone of naive times; `None` where [`Self::time_zone`] was changed to an unknown one.
    #[must_use]
    pub fn zone(&self) -> Option<TimeZone> {
        time_zone(&self.time_zone)
    }
}

/// Returns `sha256:<hex>` of the policy and of the lexicon in use: of everything that can change a
/// plan and of nothing else (no path, thread count, output or secret).
///
/// `lexicon` is the built-in lexicon's bytes; the user's own are in the policy. The hash is taken
/// over JSON with sorted keys and without white space, numbers written as RFC 8785 wants them.
#[must_use]
pub fn config_hash(policy: &Policy, lexicon: &[u8]) -> String {
    let mut value = json!(policy);
    // Values that are fixed by now, or written elsewhere, are hashed as in the first version.
    value["lexicon"] = sha256_hex(lexicon).into();
    value["rules"] = policy.rules.iter().map(hashed_rule).collect();
    value["detect"]["contradiction_similarity"] =
        policy.detect.contradiction_similarity.get().into();
    value["cluster"]["max_component_rows"] = policy.cluster.max_component_rows.into();
    value["merge"]["importance_cap"] = policy.merge.importance_cap.into();
    value["protection"]["ids"] = json!(policy.protection.ids);
    value["protection"]["access_count_min"] = policy.protection.access_count_min.into();
    format!("sha256:{}", sha256_hex(canonical_json(value)))
}

/// Returns a rule with the conditions that are not set, but for later additions.
fn hashed_rule(rule: &Rule) -> Value {
    let mut hashed = json!({
        "id": rule.id,
        "trigger": rule.trigger,
        "then": { "action": rule.then.action },
        "when": {
            "min_similarity": null, "proven_same": false, "min_cluster_size": null,
            "min_age_days": null, "min_access_count": null, "max_access_count": null,
            "min_importance": null, "max_importance": null, "categories_any": [],
            "categories_none": [], "categories_all": [], "tag_overlap_min": null,
        },
    });
    for (condition, value) in json!(rule.when).as_object().into_iter().flatten() {
        hashed["when"][condition] = value.clone();
    }
    if rule.then.action == RuleAction::Merge {
        hashed["then"]["canonical"] = json!(rule.then.params.canonical);
        hashed["then"]["absorbed"] = json!(rule.then.params.absorbed);
    }
    hashed
}

/// Which live memories take part.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Scope {
    /// Any of these categories; empty: all.
    pub categories: Vec<String>,
    /// Created at or after.
    #[serde(serialize_with = "instant_micros")]
    pub since: Option<Instant>,
    /// Created before.
    #[serde(serialize_with = "instant_micros")]
    pub until: Option<Instant>,
    /// Root sources starting with any of these; empty: all.
    pub sources: Vec<String>,
}

/// Serializes an instant as its microseconds, or null.
fn instant_micros<S: Serializer>(value: &Option<Instant>, to: S) -> Result<S::Ok, S::Error> {
    value.map(|Instant(microseconds)| microseconds).serialize(to)
}

/// Settings that do not change a plan.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// Whether the store may be consolidated; `false` beats `--execute`.
    pub enabled: bool,
    /// Whether nothing may be written; beats `--execute`.
    pub read_only: bool,
    /// How long to wait for a store that others hold, in milliseconds.
    pub busy_timeout_ms: u32,
    /// How a memory is judged when it is saved.
    pub quick_check: QuickCheckPolicy,
    /// How vectors of texts are made.
    pub embed: EmbedSettings,
    /// Which models decide about proposals.
    pub judge: JudgeSettings,
    /// How retention and tiers are computed, and when a run is due.
    pub lifecycle: LifecycleSettings,
}

/// How retention and tiers are computed, and when a run is due.
#[derive(Debug, Clone, PartialEq)]
pub struct LifecycleSettings {
    /// Half-life, and the score below which a memory is archived.
    pub retention: RetentionPolicy,
    /// New memories that make a run due.
    pub new_memories_min: u64,
}

/// The zone of a machine that tells none.
pub(super) const UNKNOWN_ZONE: &str = "UTC";

/// Makes the policy and the settings of a complete configuration.
pub(super) fn validate(merged: &Node, config: Config) -> Result<(Policy, Settings), ConfigError> {
    let name = config.time_zone.as_deref().unwrap_or(UNKNOWN_ZONE);
    let zone = time_zone(name).and_then(|zone| zone_name(&zone).map(|name| (zone, name)));
    let (zone, zone_name) = zone.ok_or_else(|| {
        let hint = "write an IANA name such as Europe/Berlin, or an offset such as +02:00";
        let problem = format!("unknown time zone \"{}\"", shown(name));
        ConfigError::at(&merged.source("time_zone"), problem, hint)
    })?;
    let of_profile = ProtectionPolicy::of(config.profile);
    let rules = rules(merged).iter().zip(&config.rules).filter(|(_, rule)| rule.enabled);
    rules.into_iter().try_for_each(|(node, rule)| check_rule(node, rule))?;
    let policy = Policy {
        rules: config.rules.into_iter().filter(|rule| rule.enabled).collect(),
        detect: config.detect,
        cluster: config.cluster,
        guard: guard(merged, config.guard)?,
        protection: ProtectionPolicy {
            ids: of_profile.ids,
            access_count_min: of_profile.access_count_min,
            ..config.protection
        },
        merge: config.merge,
        flags: config.flags,
        propose: config.propose,
        scope: scope(merged, config.scope, &zone)?,
        time_zone: zone_name,
        trigger: config.trigger,
    };
    check_order(merged, "", "quick_check.flag_threshold", "quick_check.auto_dedup_threshold")?;
    let settings = Settings {
        enabled: config.enabled,
        read_only: config.read_only,
        busy_timeout_ms: config.busy_timeout_ms,
        quick_check: config.quick_check,
        embed: embed(merged, config.embed)?,
        judge: judge(merged, config.judge)?,
        lifecycle: lifecycle(merged, &config.lifecycle)?,
    };
    Ok((policy, settings))
}

fn rules(merged: &Node) -> &[Node] {
    match merged.child("rules") {
        Some(Node { tree: Tree::List(rules), .. }) => rules,
        _ => &[],
    }
}

/// Checks that every merged rule has a name that can stand in a key, and the needs of a rule.
pub(super) fn check_rules(merged: &Node) -> Result<(), ConfigError> {
    for rule in rules(merged) {
        let place = &rule.source;
        let Some(id) = rule.id() else {
            let hint = "give every rule an `id`; it names the rule in reports";
            return Err(ConfigError::at(place, "a rule has no `id`", hint));
        };
        let is_plain = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == '_';
        if id.is_empty() || !id.chars().all(is_plain) {
            let id = shown(id);
            let problem =
                format!("rule id \"{id}\" has other characters than letters, digits, `-` and `_`");
            return Err(ConfigError::at(place, problem, "write an id such as R6-keep-apart"));
        }
        let missing = ["trigger", "then.action"].into_iter().find(|key| rule.get(key).is_none());
        if let Some(missing) = missing {
            let builtin = Config::default().rules;
            let meant = nearest(id, builtin.iter().map(|rule| rule.id.as_str()));
            let hint = meant.map(|meant| format!("did you mean the rule {meant}?"));
            return Err(incomplete_rule(place, id, missing, hint));
        }
    }
    Ok(())
}

fn incomplete_rule(place: &Source, id: &str, missing: &str, hint: Option<String>) -> ConfigError {
    let needs = "a new rule needs `id`, `trigger` and `then: { action: … }`; a merge also `when: { min_similarity: … }`";
    let hint = hint.unwrap_or_else(|| needs.to_owned());
    ConfigError::at(place, format!("rule {id} has no `{missing}`"), hint)
}

fn check_rule(node: &Node, rule: &Rule) -> Result<(), ConfigError> {
    let (id, action) = (&rule.id, rule.then.action);
    let contradicts = rule.trigger == Trigger::OnContradiction;
    if (action == RuleAction::FlagContradiction) != contradicts && action != RuleAction::Noop {
        let (action, trigger) = (name_of(action), name_of(rule.trigger));
        return Err(ConfigError::at(
            &node.source("trigger"),
            format!("rule {id} has the action {action}, which the trigger {trigger} cannot run"),
            "flag_contradiction goes with on_contradiction, where noop may stand too; every other action goes with any \
             other trigger",
        ));
    }
    for param in ["canonical", "absorbed"] {
        let given = node.get(&format!("then.params.{param}"));
        if let Some(given) = given.filter(|given| !given.plain().is_null())
            && action != RuleAction::Merge
        {
            let action = name_of(action);
            let problem =
                format!("rule {id} sets `{param}`, which is no setting of the action {action}");
            let hint = "merge alone has canonical and absorbed";
            return Err(ConfigError::at(&given.source, problem, hint));
        }
    }
    let path = format!("rules.{id}.");
    check_order(node, &path, "when.min_access_count", "when.max_access_count")?;
    check_order(node, &path, "when.min_importance", "when.max_importance")?;
    if action == RuleAction::Merge && rule.when.min_similarity.is_none() {
        let place = node.source("then.action");
        return Err(incomplete_rule(&place, id, "when.min_similarity", None));
    }
    Ok(())
}

/// Checks that a lower bound is not above an upper one, where both are given; `path` is that of the node.
fn check_order(node: &Node, path: &str, low: &str, high: &str) -> Result<(), ConfigError> {
    let value = |key| node.get(key).and_then(|node| node.plain().as_f64());
    if let (Some(low_value), Some(high_value)) = (value(low), value(high))
        && low_value > high_value
    {
        let (low_key, high_key) = (format!("{path}{low}"), format!("{path}{high}"));
        let (low_value, high_value) = (low_value.to_string(), high_value.to_string());
        return Err(empty_range(node.source(low), &low_key, &low_value, &high_key, &high_value));
    }
    Ok(())
}

/// A lower bound above its upper bound, each a key and its value.
fn empty_range(place: Source, low_key: &str, low: &str, high_key: &str, high: &str) -> ConfigError {
    let problem = format!("`{low_key}` is {low}, above `{high_key}`, which is {high}");
    let hint = "nothing can lie between them; raise one or lower the other";
    ConfigError::at(&place, problem, hint)
}

fn guard(merged: &Node, guard: GuardConfig) -> Result<GuardPolicy, ConfigError> {
    let lexicon_file = guard.lexicon.map(|file| path(merged, "guard.lexicon", &file));
    let lexicon = lexicon_file.as_deref().map(read_text).transpose()?;
    Ok(GuardPolicy { enabled: guard.enabled, lexicon, lexicon_file })
}

fn scope(merged: &Node, scope: ScopeConfig, zone: &TimeZone) -> Result<Scope, ConfigError> {
    let time = |key: &str, text: &Option<String>| -> Result<Option<Instant>, ConfigError> {
        let Some(text) = text else { return Ok(None) };
        instant(text, zone).map(Some).ok_or_else(|| {
            let hint = "write 2026-03-01, 2026-03-01T12:00 or 2026-03-01T12:00:00Z";
            let node = merged.get(key).expect("it was read");
            ConfigError::wrong_value(node, key, "a date, or a date and time", hint)
        })
    };
    let since = time("scope.since", &scope.since)?;
    let until = time("scope.until", &scope.until)?;
    if since.is_some() && until.is_some() && since >= until {
        let [low, high] = [scope.since, scope.until].map(Option::unwrap_or_default);
        let place = merged.source("scope.since");
        return Err(empty_range(place, "scope.since", &low, "scope.until", &high));
    }
    Ok(Scope { categories: scope.categories, since, until, sources: Vec::new() })
}

fn lifecycle(merged: &Node, config: &LifecycleConfig) -> Result<LifecycleSettings, ConfigError> {
    let LifecycleConfig { half_life_days, archive_below, ref due } = *config;
    if archive_below > WARM_MIN {
        let (low, high) = (archive_below.to_string(), WARM_MIN.to_string());
        let (low_key, high_key) = ("lifecycle.archive_below", "the retention of WARM");
        return Err(empty_range(merged.source(low_key), low_key, &low, high_key, &high));
    }
    let retention = RetentionPolicy { half_life_days, archive_below };
    Ok(LifecycleSettings { retention, new_memories_min: due.new_memories_min })
}

fn embed(merged: &Node, mut embed: EmbedSettings) -> Result<EmbedSettings, ConfigError> {
    let is_local = embed.provider == Some(Provider::Local);
    if let Some(Err(found)) = embed.url.as_deref().filter(|_| !is_local).map(check_url) {
        let expected = "an address such as http://localhost:8030, without user name or password";
        return Err(refused(merged, "embed.url", expected, found, KEY_ADVICE));
    }
    if embed.api_key_env.as_deref().is_some_and(|name| !is_variable_name(name)) {
        let expected = "the name of an environment variable";
        return Err(refused(merged, "embed.api_key_env", expected, NO_NAME, KEY_ADVICE));
    }
    let folder = embed.url.as_deref().filter(|_| is_local);
    embed.dir = folder.map(|folder| path(merged, "embed.url", folder));
    embed.key_from_elsewhere = key_from_elsewhere(merged, &embed);
    Ok(embed)
}

/// Checks the models. A key goes to the address that stands beside it: lists of several layers never mix.
fn judge(merged: &Node, mut judge: JudgeSettings) -> Result<JudgeSettings, ConfigError> {
    for model in &judge.chain {
        let (expected, found, hint) = if let Err(found) = check_url(&model.url) {
            let expected =
                "addresses such as http://localhost:11434/v1, without user name or password";
            (expected, found, JUDGE_KEY_ADVICE)
        } else if model.key_env.as_deref().is_some_and(|name| !is_variable_name(name)) {
            ("key_env: the name of an environment variable", NO_NAME, JUDGE_KEY_ADVICE)
        } else if model.price.is_some() && model.prices().is_none() {
            let expected =
                "price: two numbers, for a million tokens that are sent and that are answered";
            (expected, "another number of them", PRICE_ADVICE)
        } else {
            continue;
        };
        return Err(refused(merged, "judge.chain", expected, found, hint));
    }
    let folder = judge.nli.folder.as_deref();
    judge.nli.dir = folder.map(|folder| path(merged, "judge.nli.folder", folder));
    Ok(judge)
}

const NO_NAME: &str = "a text that is no such name";
const KEY_ADVICE: &str = "put a key into an environment variable, and that variable's name into `embed.api_key_env`: \
                          export PROVIDER_KEY=…; --set embed.api_key_env=PROVIDER_KEY";

const PRICE_ADVICE: &str = "write both: { url: …, model: gpt-4o-mini, price: [0.15, 0.60] }";
const JUDGE_KEY_ADVICE: &str = "put a key into an environment variable, and that variable's name into `key_env`: \
                                { url: https://api.openai.com/v1, model: gpt-4o-mini, key_env: OPENAI_API_KEY }";

/// Returns where key and address come from, where these are two places: an address that is set without a key must not get
/// the key of another layer, and a key must not go to the address of another layer.
fn key_from_elsewhere(merged: &Node, embed: &EmbedSettings) -> Option<Box<KeyFromElsewhere>> {
    embed.provider.filter(|_| embed.api_key_env.is_some())?;
    let key = merged.source("embed.api_key_env");
    let address = match merged.source("embed.url") {
        // The address is then that of the provider.
        Source::BuiltIn => merged.source("embed.provider"),
        url => url,
    };
    if is_one_layer(&key, &address) {
        return None;
    }
    Some(Box::new(KeyFromElsewhere { key: key.layer(), address: address.layer() }))
}

fn is_one_layer(a: &Source, b: &Source) -> bool {
    use Source::{Environment, File, Flag, Set};
    match (a, b) {
        (File { path: a, .. }, File { path: b, .. }) => a == b,
        (Environment { .. }, Environment { .. })
        | (Set { .. } | Flag { .. }, Set { .. } | Flag { .. }) => true,
        _ => false,
    }
}

/// Tells the fault of an address, without repeating it: it may hold a password.
fn check_url(url: &str) -> Result<(), &'static str> {
    let lower = url.to_ascii_lowercase();
    let rest = lower.strip_prefix("http://").or_else(|| lower.strip_prefix("https://"));
    let Some(rest) = rest else { return Err("a text that begins otherwise") };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("one with a user name");
    }
    if authority.is_empty() || url.contains(|char: char| char.is_whitespace() || char.is_control())
    {
        return Err("one without a host, or with spaces");
    }
    // An IPv6 address stands in brackets.
    let unclosed = "one whose host cannot be read";
    let host = if authority.starts_with('[') { authority.find(']').ok_or(unclosed)? } else { 0 };
    let port = authority[host..].find(':').map_or(authority.len(), |at| host + at);
    let (host, port) = authority.split_at(port);
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => {
            let is_plain = |char: char| char.is_ascii_alphanumeric() || "-._".contains(char);
            !host.is_empty() && host.chars().all(is_plain)
        }
    };
    if !is_host {
        return Err("one whose host is no name and no IP address");
    }
    match port.strip_prefix(':').map(str::parse::<u16>) {
        None | Some(Ok(1..)) => Ok(()),
        Some(_) => Err("one whose port is no number from 1 to 65535"),
    }
}

fn is_variable_name(name: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || char == '_';
    !name.is_empty()
        && !name.starts_with(|char: char| char.is_ascii_digit())
        && name.chars().all(is_plain)
}

/// An error that repeats neither the value nor the words that set it, which may hold a secret.
fn refused(merged: &Node, key: &str, expected: &str, found: &str, hint: &str) -> ConfigError {
    let place = match merged.source(key) {
        Source::Set { .. } => Source::Set { text: format!("{key}=…") },
        other => other,
    };
    ConfigError::at(&place, format!("`{key}` expects {expected}, found {found}"), hint)
}

/// Tells which of the profile's lists a layer replaced by one that protects less.
pub(super) fn lost_protection(merged: &Node, config: &Config) -> Vec<Notice> {
    let (profile, protection) = (ProtectionPolicy::of(config.profile), &config.protection);
    let lost = |key: &str, before: &[String], now: &[String]| {
        let lost: Vec<&str> =
            before.iter().filter(|text| !now.contains(text)).map(String::as_str).collect();
        let lost = Some(lost.join(", ")).filter(|lost| !lost.is_empty())?;
        let text = format!("`{key}` replaces the profile's list; no longer protected: {lost}");
        Some(Notice { source: merged.source(key), text })
    };
    let categories = lost("protection.categories", &profile.categories, &protection.categories);
    let sources = lost("protection.sources", &profile.sources, &protection.sources);
    categories.into_iter().chain(sources).collect()
}

/// Resolves a path from the folder of the file that names it.
fn path(merged: &Node, key: &str, path: &str) -> PathBuf {
    let source = merged.source(key);
    source.folder().map_or_else(|| PathBuf::from(path), |folder| folder.join(path))
}

/// Reads an IANA name, in any case, or an offset from UTC (`+02:00`).
#[must_use]
pub fn time_zone(name: &str) -> Option<TimeZone> {
    let name = name.trim();
    if name.starts_with(['+', '-']) {
        return DateTimeParser::new().parse_time_zone(name).ok();
    }
    TimeZoneDatabase::bundled().get(name).ok().filter(|zone| !zone.is_unknown())
}

/// Returns the one spelling of a zone: its IANA name, or its offset as `+02:00`.
fn zone_name(zone: &TimeZone) -> Option<String> {
    if let Some(name) = zone.iana_name() {
        return Some(name.to_owned());
    }
    zone.to_fixed_offset().ok()?;
    Some(Timestamp::UNIX_EPOCH.to_zoned(zone.clone()).strftime("%:z").to_string())
}

/// Reads a date, or a date and time with or without offset; without one it is in `zone`.
fn instant(text: &str, zone: &TimeZone) -> Option<Instant> {
    let text = text.trim();
    let timestamp =
        text.parse::<Timestamp>().or_else(|_| text.parse::<Zoned>().map(|zoned| zoned.timestamp()));
    match timestamp {
        Ok(timestamp) => Some(Instant::from(timestamp)),
        // With an offset, at the ends of time.
        Err(_) => Instant::parse(text, zone)
            .filter(|_| text.get(4..5) == Some("-"))
            .or_else(|| text.parse::<DateTime>().ok().map(|naive| in_zone(naive, zone))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Option<String> {
        time_zone(text).as_ref().and_then(zone_name)
    }

    #[test]
    fn zones_have_one_spelling() {
        assert_eq!(name("europe/berlin").as_deref(), Some("Europe/Berlin"));
        assert_eq!(name("+02").as_deref(), Some("+02:00"));
        assert_eq!(name("-05:30").as_deref(), Some("-05:30"));
        assert_eq!(name("+01:02:03").as_deref(), Some("+01:02:03"));
        assert_eq!(name("UTC").as_deref(), Some("UTC"));
        for unknown in ["", "nowhere", "Etc/Unknown", "+99:00"] {
            assert_eq!(name(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn instants_are_read_in_the_zone_unless_they_name_their_own() {
        let berlin = time_zone("Europe/Berlin").unwrap();
        let utc = |text: &str| instant(text, &TimeZone::UTC);
        assert_eq!(instant("2026-01-01", &berlin), utc("2025-12-31T23:00:00Z"));
        assert_eq!(instant("2026-07-01 10:00", &berlin), utc("2026-07-01T08:00:00Z"));
        assert_eq!(instant("2026-07-01T10:00:00+00:00", &berlin), utc("2026-07-01T10:00"));
        assert_eq!(instant("2026-07-01T10:00[Asia/Tokyo]", &berlin), utc("2026-07-01T01:00Z"));
        // In the gap of spring the clock runs on, in the fold of autumn the first time counts.
        assert_eq!(instant("2026-03-29T02:30", &berlin), utc("2026-03-29T01:30Z"));
        assert_eq!(instant("2026-10-25T02:30", &berlin), utc("2026-10-25T00:30Z"));
        assert_eq!(utc("two weeks ago"), None);
        // The last day means "without end".
        let last = [utc("9999-12-30"), utc("9999-12-31"), utc("9999-12-31T23:59:59Z")];
        assert!(last[0].is_some() && last.is_sorted() && instant("9999-12-31", &berlin).is_some());
    }
}
