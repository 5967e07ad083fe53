//! How stored lines become rows of the tables: chosen, ordered, grouped, with what is derived.

use serde_json::{Value, json};

use super::table::{at, filled};

/// A rival that finds less than this share of pairs or neighbors is shown, but not counted.
pub(super) const RECALL_MIN: f64 = 0.99;

/// The sets of rows whose engines are shown; the others are in the stored file.
const PEERS_SHOWN: [&str; 3] = ["real-36k", "synthetic-like-real-100k", "synthetic-1m"];

/// The search widths that are shown.
const WIDTHS_SHOWN: [u64; 5] = [16, 32, 64, 128, 192];

pub(super) fn all(lines: &[Value]) -> Vec<Vec<Value>> {
    vec![lines.to_vec()]
}

/// The lines of each machine.
pub(super) fn by_machine(lines: &[Value]) -> Vec<Vec<Value>> {
    let mut groups: Vec<Vec<Value>> = Vec::new();
    for line in lines {
        match groups.iter_mut().find(|group| group[0]["machine"] == line["machine"]) {
            Some(group) => group.push(line.clone()),
            None => groups.push(vec![line.clone()]),
        }
    }
    groups
}

pub(super) fn having(lines: &[Value], path: &str) -> Vec<Value> {
    lines.iter().filter(|line| !at(line, path).is_null()).cloned().collect()
}

/// Every line by itself.
pub(super) fn each(lines: &[Value]) -> Vec<Vec<Value>> {
    lines.iter().map(|line| vec![line.clone()]).collect()
}

/// The lines of one kind of store.
pub(super) fn of_kind(lines: &[Value], kind: &str) -> Vec<Value> {
    lines.iter().filter(|line| line["kind"] == kind).cloned().collect()
}

/// A line with further fields.
fn with(line: &Value, fields: Value) -> Value {
    let mut line = line.clone();
    for (name, value) in fields.as_object().into_iter().flatten() {
        line[name] = value.clone();
    }
    line
}

pub(super) fn firsts(groups: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    groups.into_iter().map(|rows| rows.into_iter().take(1).collect()).collect()
}

pub(super) fn is_peak(line: &Value) -> bool {
    line["what"] == "peak"
}

/// Joins by their rows.
pub(super) fn joins(lines: &[Value]) -> Vec<Vec<Value>> {
    let mut joins: Vec<Value> = lines.iter().filter(|line| !is_peak(line)).cloned().collect();
    joins.sort_by_key(|line| line["rows"].as_u64());
    by_machine(&joins)
}

/// Joins at several levels, with how many times the first of the same work they take.
pub(super) fn levels(lines: &[Value]) -> Vec<Vec<Value>> {
    let timed = lines.iter().map(|line| {
        let is_same = |other: &&Value| {
            ["machine", "data", "threshold"].iter().all(|key| other[*key] == line[*key])
        };
        let seconds = |line: &Value| line["wall_seconds_median"].as_f64();
        let best = lines.iter().find(is_same).and_then(seconds);
        let times = seconds(line).zip(best).map(|(own, best)| own / best);
        with(line, json!({ "times": times }))
    });
    by_machine(&timed.collect::<Vec<_>>())
}

pub(super) fn largest(mut lines: Vec<Value>) -> Vec<Value> {
    let most = lines.iter().filter_map(|line| line["rows"].as_u64()).max();
    lines.retain(|line| line["rows"].as_u64() == most);
    lines
}

/// Names each set of rows, and what is the same for all its search widths, once.
pub(super) fn named_once(lines: &[Value]) -> Vec<Value> {
    let is_shown = |line: &&Value| {
        line["ef_search"].as_u64().is_none_or(|width| WIDTHS_SHOWN.contains(&width))
    };
    let lines: Vec<Value> = lines.iter().filter(is_shown).cloned().collect();
    let is_first = |at: usize| at == 0 || lines[at - 1]["data"] != lines[at]["data"];
    let rows = lines.iter().enumerate().map(|(at, line)| match is_first(at) {
        true => with(
            line,
            json!({
                "name": filled("{data} ({last_run.rows:n} × {last_run.dim})", line),
                "build": line["last_run"]["build_seconds"],
                "bytes": line["last_run"]["bytes_per_vector"],
            }),
        ),
        false => with(line, json!({ "name": "", "build": "", "bytes": "" })),
    });
    rows.collect()
}

/// Checks in process and as whole processes; what `--version` takes is in the stored file.
pub(super) fn checks(lines: &[Value]) -> Vec<Vec<Value>> {
    let is_shown = |line: &&Value| matches!(line["mode"].as_str(), Some("in_process" | "process"));
    by_machine(&lines.iter().filter(is_shown).map(check).collect::<Vec<_>>())
}

fn check(line: &Value) -> Value {
    let mode = line["mode"].as_str().unwrap_or_default();
    let name = match mode {
        "in_process" => "in process",
        _ => "whole process",
    };
    let cold = if line["cold"] == true { ", nothing in memory" } else { "" };
    let beside = if line["writers"] == 0 { "–" } else { "{writers}, {saved}" };
    let anonymous = line["peak_anon_bytes"].as_f64().filter(|_| mode == "in_process");
    let anonymous = anonymous.map_or_else(|| "".into(), |bytes| json!(bytes / f64::from(1 << 20)));
    let (name, beside) = (format!("{name}{cold}"), filled(beside, line));
    with(line, json!({ "name": name, "beside": beside, "anonymous": anonymous }))
}

/// What a server and one process did.
pub(super) fn served(lines: &[Value]) -> Vec<Vec<Value>> {
    let served = |line: &Value| {
        let name = match line["mode"].as_str().unwrap_or_default() {
            "in_process" => "check in process",
            "http" => "check over HTTP",
            "mcp" => "check over MCP, without a vector",
            "in_process_save" => "save in process",
            _ => "save over HTTP",
        };
        let beside = if line["writers"] == 0 { "–" } else { "{writers}, {saved}" };
        with(line, json!({ "name": name, "beside": filled(beside, line) }))
    };
    by_machine(&lines.iter().map(served).collect::<Vec<_>>())
}

/// Engines at the same join: those of one machine on the same rows at the same threshold, the fastest first,
/// and memfold as a whole process, which loads and clusters too, as one more.
pub(super) fn peers(lines: &[Value]) -> Vec<Vec<Value>> {
    let mut groups: Vec<Vec<Value>> = Vec::new();
    let process = lines.iter().filter(|line| line["notes"]["process_seconds"].is_number());
    let process = process.map(|line| {
        let mut line = with(line, json!({ "setting": { "process": true } }));
        line["seconds"]["total"] = line["notes"]["process_seconds"].clone();
        line
    });
    for line in lines.iter().cloned().chain(process) {
        let same = |group: &&mut Vec<Value>| {
            ["machine", "data", "threshold"].iter().all(|key| group[0][*key] == line[*key])
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(line),
            None => groups.push(vec![line]),
        }
    }
    let total = |line: &Value| line["seconds"]["total"].as_f64();
    for group in &mut groups {
        group.sort_by(|a, b| total(a).unwrap_or(f64::MAX).total_cmp(&total(b).unwrap_or(f64::MAX)));
        let is_ours = |line: &&Value| line["engine"] == "memfold" && line["setting"] == json!({});
        let ours: Vec<Value> = group.iter().filter(is_ours).cloned().collect();
        for line in group.iter_mut() {
            line["shown"] = setting(line).into();
            let ours = ours.iter().find(|ours| ours["run"] == line["run"]).and_then(total);
            line["times"] = total(line).zip(ours).map(|(own, ours)| own / ours).into();
            if total(line).is_none() {
                line["seconds"] = json!({ "total": line["outcome"] });
            }
        }
    }
    groups.sort_by_key(|group| (group[0]["rows"].as_u64(), group[0]["data"].to_string()));
    groups
}

/// The engines of [`peers`] on some sets of rows, each with its best line.
pub(super) fn best_peers(lines: &[Value]) -> Vec<Vec<Value>> {
    let mut groups = peers(lines);
    groups.retain(|group| PEERS_SHOWN.contains(&group[0]["data"].as_str().unwrap_or_default()));
    groups.iter_mut().for_each(keep_best);
    groups
}

/// Keeps of each engine the fastest line that finds enough pairs, or the first where none does, and
/// memfold as a whole process.
fn keep_best(group: &mut Vec<Value>) {
    let mut seen: Vec<(Value, bool)> = Vec::new();
    let finds_enough = |line: &Value| line["pair_recall"].as_f64() >= Some(RECALL_MIN);
    let engines: Vec<Value> = group.iter().filter(|l| finds_enough(l)).cloned().collect();
    group.retain(|line| {
        let is_candidate =
            finds_enough(line) || !engines.iter().any(|other| other["engine"] == line["engine"]);
        let key = (line["engine"].clone(), line["setting"]["process"] == true);
        let is_new = is_candidate && !seen.contains(&key);
        if is_new {
            seen.push(key);
        }
        is_new
    });
}

/// What tells an engine's settings apart.
fn setting(line: &Value) -> String {
    let shown = [
        ("process", "process"),
        ("nprobe", "nprobe {setting.nprobe}"),
        ("dtype", "{setting.dtype}"),
        ("top_k", "top_k {setting.top_k}"),
        ("num_leaves_to_search", "leaves {setting.num_leaves_to_search}"),
        ("ef", "ef {setting.ef}"),
    ];
    let known = shown.iter().find(|(key, _)| !line["setting"][*key].is_null());
    known.map_or_else(String::new, |(_, template)| filled(template, line))
}

/// Engines at the same lookups, memfold first, each with the first `ef_search` that finds enough; compared with
/// memfold where both were measured in one run.
pub(super) fn lookups(lines: &[Value]) -> Vec<Vec<Value>> {
    let groups = engines(lines).into_iter().map(|group| {
        let ours = enough(&group[0]);
        let (build, speed) = (group[0][0]["build_seconds"].as_f64(), ours.map(speed));
        let rows = group.iter().map(|engine| {
            let first = &engine[0];
            let best = engine.iter().filter_map(|line| line["recall_at_k"].as_f64());
            let shown = match enough(engine) {
                _ if first["build_seconds"].is_null() => filled("{outcome}", first),
                Some(line) if line["ef_search"].is_null() => "every row (1)".to_owned(),
                Some(line) => filled("{ef_search} ({recall_at_k:.4})", line),
                None => format!("none: {:.4} at most", best.fold(0.0, f64::max)),
            };
            let own = enough(engine).map(self::speed);
            let of_one_run = first["run"] == group[0][0]["run"];
            let (build, speed) = (build.filter(|_| of_one_run), speed.filter(|_| of_one_run));
            let times = build.zip(first["build_seconds"].as_f64()).map(|(ours, own)| own / ours);
            let slower = speed.zip(own).map(|(ours, own)| ours / own);
            with(first, json!({ "times": times, "enough": shown, "speed": own, "slower": slower }))
        });
        rows.collect()
    });
    groups.collect()
}

/// The lines of each engine on each set of rows, memfold first.
pub(super) fn engines(lines: &[Value]) -> Vec<Vec<Vec<Value>>> {
    let mut sets: Vec<Vec<Vec<Value>>> = Vec::new();
    for line in lines {
        let same = |set: &&mut Vec<Vec<Value>>| {
            ["machine", "data"].iter().all(|key| set[0][0][*key] == line[*key])
        };
        let Some(set) = sets.iter_mut().find(same) else {
            sets.push(vec![vec![line.clone()]]);
            continue;
        };
        match set.iter_mut().find(|engine| engine[0]["engine"] == line["engine"]) {
            Some(engine) => engine.push(line.clone()),
            None => set.push(vec![line.clone()]),
        }
    }
    sets.iter_mut().for_each(|set| set.sort_by_key(|engine| engine[0]["engine"] != "memfold"));
    sets
}

/// The first line that finds enough.
fn enough(engine: &[Value]) -> Option<&Value> {
    engine.iter().find(|line| line["recall_at_k"].as_f64() >= Some(RECALL_MIN))
}

fn speed(line: &Value) -> f64 {
    line["qps_one_thread"].as_f64().unwrap_or(f64::NAN)
}

/// A row for each label of each set.
pub(super) fn labels(lines: &[Value]) -> Vec<Vec<Value>> {
    let rows = lines.iter().flat_map(|line| {
        let labels = line["last_run"]["labels"].as_array().into_iter().flatten();
        labels.map(move |label| with(line, label.clone()))
    });
    vec![rows.collect()]
}

/// Linked paraphrases, counted by a script of its own.
pub(super) fn paraphrases(lines: &[Value]) -> Vec<Vec<Value>> {
    let share = |line: &Value, part: &str, whole: &str| {
        let run = &line["last_run"];
        run[part].as_f64().zip(run[whole].as_f64()).map(|(part, whole)| part / whole)
    };
    let rows = having(lines, "last_run.one_sided");
    let rows = rows.iter().map(|line| {
        let shares = json!({
            "same_linked": share(line, "same_linked", "same"),
            "one_sided_linked": share(line, "one_sided_linked", "one_sided"),
            "carried_mergeable": share(line, "carried_mergeable", "carried"),
        });
        with(line, shares)
    });
    vec![rows.collect()]
}

/// Sets that have an operating curve, with the file that it is drawn into.
pub(super) fn curves(lines: &[Value]) -> Vec<Value> {
    let file = |line: &Value| filled("guard-{data}.svg", line).replace('_', "-");
    let lines = having(lines, "last_run.contradiction").into_iter();
    lines.map(|line| with(&line, json!({ "file": file(&line) }))).collect()
}

/// A row for each figure: of the real rows, and of those generated like them, by their number.
pub(super) fn likeness(lines: &[Value]) -> Vec<Vec<Value>> {
    // Positions in the stored lists: of the quantiles 5 %, 50 % and 95 %, and of ranks and thresholds.
    let quantiles = |of: &str| format!("{{{of}.2:.3}}, {{{of}.7:.3}}, {{{of}.12:.3}}");
    let mut figures = vec![("length of the mean".to_owned(), "{mean_norm:.3}".to_owned())];
    figures.extend([1, 16, 64].map(|count| {
        (format!("variance along {count} directions"), format!("{{explained.{count}:.3}}"))
    }));
    figures.extend([1, 10, 100].iter().enumerate().map(|(at, rank)| {
        let of = quantiles(&format!("neighbors.{at}.quantiles"));
        (format!("similarity to neighbor {rank}: 5 %, median, 95 %"), of)
    }));
    figures.push(("similarity of random rows: 5 %, median, 95 %".into(), quantiles("strangers")));
    figures.extend(["0.85", "0.92", "0.95"].iter().enumerate().map(|(at, threshold)| {
        let of = format!("{{duplicates.{at}.share:.3}}; {{duplicates.{at}.largest}}");
        (format!("rows in groups at {threshold}; largest group"), of)
    }));
    let Some(first) = lines.first() else { return Vec::new() };
    let real = prepared(&first["real"]);
    let rows = figures.iter().map(|(name, template)| {
        let mut row = json!({ "figure": name, "real": filled(template, &real) });
        for line in lines {
            row[line["rows"].to_string()] = filled(template, &prepared(&line["synthetic"])).into();
        }
        row["real_rows"] = real["rows"].clone();
        row["dim"] = real["dim"].clone();
        for key in ["data", "version", "run"] {
            row[key] = first[key].clone();
        }
        row
    });
    vec![rows.collect()]
}

/// Adds the variance along leading directions, and the largest group at each threshold.
fn prepared(of: &Value) -> Value {
    let mut of = of.clone();
    let spectrum: Vec<f64> =
        of["spectrum"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    for count in [1, 16, 64] {
        let explained: f64 = spectrum.iter().take(count).sum();
        of["explained"][count.to_string()] = explained.into();
    }
    for group in of["duplicates"].as_array_mut().into_iter().flatten() {
        let sizes = group["group_sizes"].as_array();
        let largest =
            sizes.and_then(|sizes| sizes.last()).map_or(1.into(), |last| last["rows"].clone());
        group["largest"] = largest;
    }
    of
}
