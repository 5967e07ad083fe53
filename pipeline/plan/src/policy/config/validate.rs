//! From a merged configuration to a [`Policy`]: everything that one value alone does not show.

use std::path::PathBuf;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, Zoned};
use memfold_model::time::{Instant, in_zone};
use memfold_simd::Similarity;

use super::document::{Node, Notice, Source};
use super::error::ConfigError;
use super::files;
use super::keys::{Config, ProtectionConfig, texts};
use super::lifecycle::lifecycle;
use super::providers::{embed, judge};
use super::rules::{Action, RuleConfig, WhenConfig, builtin_rules};
use super::schema::nearest;
use crate::policy::{
    ClusterPolicy, Conditions, DetectPolicy, EmbedSettings, FlagPolicy, GuardPolicy, JudgeSettings,
    LifecycleSettings, MergePolicy, Policy, Profile, ProposePolicy, ProtectionPolicy,
    QuickCheckPolicy, Rule, RuleAction, Scope, Trigger, defaults,
};

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
    pub quick_check: crate::policy::QuickCheckPolicy,
    /// How vectors of texts are made.
    pub embed: EmbedSettings,
    /// Which models decide about proposals.
    pub judge: JudgeSettings,
    /// How retention and tiers are computed, and when a run is due.
    pub lifecycle: LifecycleSettings,
}

/// Checks that every rule has what a rule needs.
pub(super) fn complete_rules(merged: &Node) -> Result<(), ConfigError> {
    let Some(rules) = merged.get(&["rules"]) else { return Ok(()) };
    for rule in rules.items() {
        let id = rule.id().unwrap_or_default();
        for (missing, path) in [("trigger", &["trigger"][..]), ("then.action", &["then", "action"])]
        {
            if rule.get(path).is_none() {
                let rules = builtin_rules();
                let builtin = rules.iter().map(|rule| rule.id.as_str());
                return Err(ConfigError::IncompleteRule {
                    id: id.into(),
                    missing,
                    place: rule.source.clone(),
                    suggestion: nearest(id, builtin).map(Into::into),
                });
            }
        }
    }
    Ok(())
}

/// Makes the policy and the settings of a complete configuration.
pub(super) fn validate(merged: &Node, config: &Config) -> Result<(Policy, Settings), ConfigError> {
    let (zone, zone_name) = resolve_zone(merged, config)?;
    let rules = config.rules.iter().filter(|rule| rule.enabled);
    let policy = Policy {
        rules: rules.map(|rule| validate_rule(merged, rule)).collect::<Result<_, _>>()?,
        detect: detect(config),
        cluster: cluster(config),
        guard: guard(merged, config)?,
        protection: protection(config),
        merge: MergePolicy {
            absorbed: config.merge.absorbed,
            again: defaults::MERGE_AGAIN,
            importance_cap: defaults::IMPORTANCE_CAP,
        },
        flags: FlagPolicy {
            max_per_run: config.flags.max_per_run,
            write_to: config.flags.write_to,
        },
        propose: ProposePolicy {
            min_similarity: similarity(config.propose.min_similarity),
            max_per_run: config.propose.max_per_run,
        },
        scope: scope(merged, config, &zone)?,
        time_zone: zone_name,
        trigger: config.trigger,
    };
    Ok((policy, settings(merged, config)?))
}

fn settings(merged: &Node, config: &Config) -> Result<Settings, ConfigError> {
    let check = &config.quick_check;
    not_above(
        merged,
        "quick_check.flag_threshold",
        Some(check.flag_threshold),
        "quick_check.auto_dedup_threshold",
        Some(check.auto_dedup_threshold),
    )?;
    Ok(Settings {
        enabled: config.enabled,
        read_only: config.read_only,
        busy_timeout_ms: config.busy_timeout_ms,
        quick_check: QuickCheckPolicy {
            auto_dedup_threshold: similarity(check.auto_dedup_threshold),
            flag_threshold: similarity(check.flag_threshold),
            time_limit: Duration::from_millis(check.time_limit_ms.into()),
        },
        embed: embed(merged, &config.embed)?,
        judge: judge(merged, &config.judge)?,
        lifecycle: lifecycle(merged, &config.lifecycle)?,
    })
}

fn detect(config: &Config) -> DetectPolicy {
    let detect = &config.detect;
    DetectPolicy {
        method: detect.method,
        exact_text: detect.exact_text,
        contradiction_similarity: similarity(defaults::CONTRADICTION_SIMILARITY),
    }
}

fn cluster(config: &Config) -> ClusterPolicy {
    let cluster = &config.cluster;
    ClusterPolicy {
        linkage: cluster.linkage,
        separate_by: cluster.separate_by.clone(),
        max_component_rows: defaults::MAX_COMPONENT_ROWS.get(),
    }
}

fn guard(merged: &Node, config: &Config) -> Result<GuardPolicy, ConfigError> {
    let guard = &config.guard;
    let lexicon = guard.lexicon.as_deref().map(|file| path(merged, "guard.lexicon", file));
    Ok(GuardPolicy {
        enabled: guard.enabled,
        lexicon: lexicon.as_deref().map(files::read_text).transpose()?,
        lexicon_file: lexicon,
    })
}

fn protection(config: &Config) -> ProtectionPolicy {
    let protection = &config.protection;
    let is_strict = config.profile != Profile::Default;
    ProtectionPolicy {
        enabled: protection.enabled,
        categories: protection.categories.clone(),
        ids: if is_strict { texts(&defaults::STRICT_IDS) } else { Vec::new() },
        sources: protection.sources.clone(),
        importance_min: protection.importance_min,
        min_age_hours: protection.min_age_hours,
        access_count_min: is_strict.then_some(defaults::STRICT_ACCESS_COUNT_MIN),
    }
}

fn scope(merged: &Node, config: &Config, zone: &TimeZone) -> Result<Scope, ConfigError> {
    let scope = &config.scope;
    let time = |key: &str, text: &Option<String>| -> Result<Option<Instant>, ConfigError> {
        let Some(text) = text else { return Ok(None) };
        let read = instant(text, zone);
        read.map(Some).ok_or_else(|| ConfigError::WrongValue {
            key: key.into(),
            place: place(merged, key),
            expected: "a date, or a date and time".into(),
            found: format!("the text \"{}\"", super::document::shown(text)).into(),
            advice: Some("write 2026-03-01, 2026-03-01T12:00 or 2026-03-01T12:00:00Z".into()),
        })
    };
    let since = time("scope.since", &scope.since)?;
    let until = time("scope.until", &scope.until)?;
    if let (Some(low), Some(high)) = (since, until)
        && low >= high
    {
        return Err(ConfigError::EmptyRange {
            low_key: "scope.since".into(),
            low: scope.since.as_deref().unwrap_or_default().into(),
            high_key: "scope.until".into(),
            high: scope.until.as_deref().unwrap_or_default().into(),
            place: place(merged, "scope.since"),
        });
    }
    Ok(Scope { categories: scope.categories.clone(), since, until, sources: Vec::new() })
}

fn resolve_zone(merged: &Node, config: &Config) -> Result<(TimeZone, String), ConfigError> {
    let name = config.time_zone.as_deref().unwrap_or(defaults::MACHINE_TIME_ZONE);
    let zone = time_zone(name);
    zone.and_then(|zone| zone_name(&zone).map(|name| (zone, name))).ok_or_else(|| {
        ConfigError::UnknownZone { zone: name.into(), place: place(merged, "time_zone") }
    })
}

fn validate_rule(merged: &Node, rule: &RuleConfig) -> Result<Rule, ConfigError> {
    let here = |key: &str| format!("rules.{}.{key}", rule.id);
    let flags = rule.then.action == Action::FlagContradiction;
    let contradicts = rule.trigger == Trigger::OnContradiction;
    if flags != contradicts && rule.then.action != Action::Noop {
        return Err(ConfigError::ForeignTrigger {
            id: rule.id.as_str().into(),
            action: rule.then.action.name(),
            trigger: rule.trigger.name(),
            place: place(merged, &here("trigger")),
        });
    }
    check_params(merged, rule)?;
    check_ranges(merged, rule)?;
    if rule.then.action == Action::Merge && rule.when.min_similarity.is_none() {
        return Err(ConfigError::IncompleteRule {
            id: rule.id.as_str().into(),
            missing: "when.min_similarity",
            place: place(merged, &here("then.action")),
            suggestion: None,
        });
    }
    Ok(Rule {
        id: rule.id.clone(),
        trigger: rule.trigger,
        when: conditions(&rule.when),
        then: action(rule),
    })
}

fn check_params(merged: &Node, rule: &RuleConfig) -> Result<(), ConfigError> {
    let params = &rule.then.params;
    let given = [
        ("canonical", params.canonical.is_some(), Action::Merge),
        ("absorbed", params.absorbed.is_some(), Action::Merge),
    ];
    let foreign = given.into_iter().find(|(_, set, owner)| *set && *owner != rule.then.action);
    let Some((param, ..)) = foreign else { return Ok(()) };
    Err(ConfigError::ForeignParam {
        id: rule.id.as_str().into(),
        param,
        action: rule.then.action.name(),
        place: place(merged, &format!("rules.{}.then.params.{param}", rule.id)),
    })
}

fn check_ranges(merged: &Node, rule: &RuleConfig) -> Result<(), ConfigError> {
    let when = &rule.when;
    // Counts below 2^53 are exact as f64, and larger ones only compare as equal.
    let reads = |count: Option<i64>| count.map(|count| count as f64);
    let ranges = [
        ("access_count", reads(when.min_access_count), reads(when.max_access_count)),
        ("importance", when.min_importance, when.max_importance),
    ];
    for (name, low, high) in ranges {
        let key = |bound: &str| format!("rules.{}.when.{bound}_{name}", rule.id);
        not_above(merged, &key("min"), low, &key("max"), high)?;
    }
    Ok(())
}

/// Checks that a lower bound is not above an upper one, where both are given.
pub(super) fn not_above(
    merged: &Node,
    low_key: &str,
    low: Option<f64>,
    high_key: &str,
    high: Option<f64>,
) -> Result<(), ConfigError> {
    match (low, high) {
        (Some(low), Some(high)) if low > high => Err(ConfigError::EmptyRange {
            low_key: low_key.into(),
            low: low.to_string().into(),
            high_key: high_key.into(),
            high: high.to_string().into(),
            place: place(merged, low_key),
        }),
        _ => Ok(()),
    }
}

fn conditions(when: &WhenConfig) -> Conditions {
    Conditions {
        min_similarity: when.min_similarity.map(similarity),
        proven_same: when.proven_same.unwrap_or_default(),
        min_cluster_size: when.min_cluster_size,
        min_age_days: when.min_age_days,
        min_access_count: when.min_access_count,
        max_access_count: when.max_access_count,
        min_importance: when.min_importance,
        max_importance: when.max_importance,
        categories_any: when.categories_any.clone(),
        categories_none: when.categories_none.clone(),
        categories_all: when.categories_all.clone(),
        tag_overlap_min: when.tag_overlap_min,
        min_idle_days: when.min_idle_days,
        same: when.same.clone(),
    }
}

fn action(rule: &RuleConfig) -> RuleAction {
    let params = &rule.then.params;
    match rule.then.action {
        Action::Merge => {
            RuleAction::Merge { canonical: params.canonical, absorbed: params.absorbed }
        }
        Action::Promote => RuleAction::Promote,
        Action::Archive => RuleAction::Archive,
        Action::Summarize => RuleAction::Summarize,
        Action::PromoteScope => RuleAction::PromoteScope,
        Action::FlagContradiction => RuleAction::FlagContradiction,
        Action::Noop => RuleAction::Noop,
    }
}

/// Tells which of the profile's lists a layer replaced by one that protects less.
pub(super) fn lost_protection(merged: &Node, config: &Config) -> Vec<Notice> {
    let (profile, protection) = (ProtectionConfig::of(config.profile), &config.protection);
    let lists = [
        ("categories", &profile.categories, &protection.categories),
        ("sources", &profile.sources, &protection.sources),
    ];
    let notice = |(name, before, now): (&str, &Vec<String>, &Vec<String>)| {
        let lost: Vec<&str> =
            before.iter().filter(|text| !now.contains(text)).map(String::as_str).collect();
        let key = format!("protection.{name}");
        (!lost.is_empty()).then(|| Notice {
            source: place(merged, &key),
            text: format!(
                "`{key}` replaces the profile's list; no longer protected: {}",
                lost.join(", ")
            ),
        })
    };
    lists.into_iter().filter_map(notice).collect()
}

/// Returns where the value of a key came from.
pub(super) fn place(merged: &Node, key: &str) -> Source {
    let path: Vec<&str> = key.split('.').collect();
    merged.get(&path).map_or(Source::BuiltIn, |node| node.source.clone())
}

/// Resolves a path from the folder of the file that names it.
pub(super) fn path(merged: &Node, key: &str, path: &str) -> PathBuf {
    let source = place(merged, key);
    source.folder().map_or_else(|| PathBuf::from(path), |folder| folder.join(path))
}

pub(super) fn similarity(value: f64) -> Similarity {
    Similarity::new(value).expect("the schema allows no similarity outside of -1 to 1")
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
pub(super) fn zone_name(zone: &TimeZone) -> Option<String> {
    if let Some(name) = zone.iana_name() {
        return Some(name.to_owned());
    }
    let seconds = zone.to_fixed_offset().ok()?.seconds();
    let (sign, seconds) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs());
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let tail = if rest == 0 { String::new() } else { format!(":{rest:02}") };
    Some(format!("{sign}{hours:02}:{minutes:02}{tail}"))
}

/// Reads a date, or a date and time with or without offset; without one it is in `zone`.
pub(super) fn instant(text: &str, zone: &TimeZone) -> Option<Instant> {
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
