//! `shape`: files, lines, public items and error enums of every package, and the cycles between its modules.
//!
//! Paths are read as text: `use` trees and paths that begin with `crate`, `self`, `super` or the name of a child module.
//! A re-export is followed to the module that defines the name; a door that only re-exports depends on nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::report;

/// Prints a line for each package and the cycles of each; fails where a cycle has more than two modules.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let mut packages: BTreeMap<String, Vec<Source>> = BTreeMap::new();
    for file in rust_files(root)? {
        let Some((package, inside)) = package_of(root, &file) else { continue };
        let text = std::fs::read_to_string(root.join(&file)).map_err(|e| format!("{file}: {e}"))?;
        packages.entry(package).or_default().push(Source::new(&inside, &text));
    }
    report::line("package            files   lines  of tests  public/1000  error enums");
    let mut large = 0;
    let mut cycles_of = Vec::new();
    let mut sum = [0; 4];
    for (package, sources) in &packages {
        let count = |of: fn(&Source) -> usize| sources.iter().map(of).sum::<usize>();
        let (lines, tests) = (count(|s| s.lines), count(|s| s.test_lines));
        let (public, errors) = (count(|s| s.public), count(|s| s.errors));
        let density = 1_000.0 * public as f64 / lines.max(1) as f64;
        let files = sources.len();
        report::line(&format!(
            "{package:<18} {files:>5} {lines:>7} {tests:>9} {density:>12.1} {errors:>12}"
        ));
        for (at, value) in [files, lines, tests, errors].into_iter().enumerate() {
            sum[at] += value;
        }
        let cycles = cycles(sources);
        large += cycles.iter().filter(|cycle| cycle.len() > 2).count();
        cycles_of.extend(cycles.into_iter().map(|cycle| (package, cycle)));
    }
    let [files, lines, tests, errors] = sum;
    let width = 12;
    report::line(&format!(
        "{:<18} {files:>5} {lines:>7} {tests:>9} {:>width$} {errors:>12}",
        "all", ""
    ));
    for (package, cycle) in cycles_of {
        report::line(&format!("cycle in {package}: {}", cycle.join(", ")));
    }
    if large == 0 { Ok(()) } else { Err(format!("{large} cycles of more than two modules")) }
}

fn rust_files(root: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"])
        .output()
        .map_err(|error| error.to_string())?;
    let names = String::from_utf8_lossy(&output.stdout);
    Ok(names.lines().filter(|name| root.join(name).is_file()).map(str::to_owned).collect())
}

/// Splits a file's name into its package's folder and the rest.
fn package_of(root: &Path, file: &str) -> Option<(String, String)> {
    let mut at = file.len();
    while let Some(slash) = file[..at].rfind('/') {
        if root.join(&file[..slash]).join("Cargo.toml").is_file() {
            return Some((file[..slash].to_owned(), file[slash + 1..].to_owned()));
        }
        at = slash;
    }
    None
}

/// A file of a package.
struct Source {
    /// The module's path below `src`, `None` where the file is no module of the library.
    module: Option<Vec<String>>,
    lines: usize,
    test_lines: usize,
    public: usize,
    errors: usize,
    paths: Vec<Used>,
}

/// A path that a module speaks of.
#[derive(Debug, PartialEq)]
struct Used {
    segments: Vec<String>,
    /// The name under which a `use` makes it known.
    name: Option<String>,
    is_public: bool,
}

impl Source {
    fn new(inside: &str, text: &str) -> Self {
        let is_test = inside.split('/').any(|part| {
            matches!(part, "tests" | "tests.rs" | "benches" | "suites")
                || part.ends_with("_tests.rs")
        }) || !inside.contains("src/") && inside != "build.rs";
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let counted = |text: &str| {
            let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
            text.lines().map(str::trim).filter(is_code).count()
        };
        let (lines, all) = (if is_test { 0 } else { counted(code) }, counted(text));
        let mut source = Self {
            module: None,
            lines,
            test_lines: all - lines,
            public: 0,
            errors: 0,
            paths: Vec::new(),
        };
        if !is_test {
            source.public = code.lines().filter(|line| is_public_item(line)).count();
            source.errors = code.lines().filter(|line| is_error_enum(line)).count();
            source.module = module_of(inside);
            source.paths = used_paths(code);
        }
        source
    }
}

fn is_public_item(line: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix("pub ") else { return false };
    let words =
        ["fn", "const", "struct", "enum", "trait", "type", "static", "mod", "unsafe", "union"];
    words.iter().any(|word| rest.strip_prefix(word).is_some_and(|rest| rest.starts_with(' ')))
}

fn is_error_enum(line: &str) -> bool {
    let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric()).collect();
    words.windows(2).any(|pair| pair[0] == "enum" && pair[1].ends_with("Error"))
}

fn module_of(inside: &str) -> Option<Vec<String>> {
    let path = inside.strip_prefix("src/")?.strip_suffix(".rs")?;
    let mut parts: Vec<String> = path.split('/').map(str::to_owned).collect();
    if matches!(parts.last()?.as_str(), "mod" | "lib" | "main") {
        parts.pop();
    }
    Some(parts)
}

/// Reads the paths of a text without its comments and literals.
fn used_paths(code: &str) -> Vec<Used> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at] == "use" {
            let is_public = at > 0 && (tokens[at - 1] == "pub" || tokens[at - 1] == ")");
            at = read_tree(&tokens, at + 1, &mut Vec::new(), is_public, &mut found);
        } else if is_name(&tokens[at]) && tokens.get(at + 1).is_some_and(|token| token == "::") {
            let mut segments = vec![tokens[at].clone()];
            at += 1;
            while tokens.get(at).is_some_and(|token| token == "::")
                && tokens.get(at + 1).is_some_and(|token| is_name(token))
            {
                segments.push(tokens[at + 1].clone());
                at += 2;
            }
            found.push(Used { segments, name: None, is_public: false });
        }
        at += 1;
    }
    found
}

/// Reads a `use` tree; returns the position of the token after it.
fn read_tree(
    tokens: &[String],
    mut at: usize,
    prefix: &mut Vec<String>,
    is_public: bool,
    found: &mut Vec<Used>,
) -> usize {
    let depth = prefix.len();
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "::" => at += 1,
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token != "}") {
                    at = read_tree(tokens, at, prefix, is_public, found);
                    at += usize::from(tokens.get(at).is_some_and(|token| token == ","));
                }
                prefix.truncate(depth);
                return at + 1;
            }
            "as" => {
                if let (Some(used), Some(name)) = (found.last_mut(), tokens.get(at + 1)) {
                    used.name = Some(name.clone());
                }
                at += 2;
            }
            name if is_name(name) || name == "*" => {
                prefix.push(name.to_owned());
                at += 1;
                if tokens.get(at).is_none_or(|token| token != "::") {
                    let is_self = name == "self" && prefix.len() > 1;
                    let end = prefix.len() - usize::from(is_self);
                    let segments = prefix[..end].to_vec();
                    let name = segments.last().cloned();
                    found.push(Used { segments, name, is_public });
                }
            }
            _ => break,
        }
    }
    prefix.truncate(depth);
    at
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Splits code into names, `::` and single characters, without comments, strings and characters.
fn tokens(code: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for line in code.lines() {
        let line = line.split("//").next().unwrap_or_default();
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            if first == '"' {
                let body = &rest[1..];
                rest = body.find('"').map_or("", |end| &body[end + 1..]);
            } else if first.is_alphanumeric() || first == '_' {
                let is_part = |c: char| c.is_alphanumeric() || c == '_';
                let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                tokens.push(rest[..end].to_owned());
                rest = &rest[end..];
            } else {
                let length = if rest.starts_with("::") { 2 } else { first.len_utf8() };
                if !first.is_whitespace() {
                    tokens.push(rest[..length].to_owned());
                }
                rest = &rest[length..];
            }
        }
    }
    tokens
}

/// Returns the groups of modules of which each depends on all others.
fn cycles(sources: &[Source]) -> Vec<Vec<String>> {
    let modules: BTreeMap<&[String], &Source> =
        sources.iter().filter_map(|s| Some((s.module.as_deref()?, s))).collect();
    let edges: BTreeMap<&[String], BTreeSet<&[String]>> = modules
        .iter()
        .map(|(&module, source)| {
            let reexports = |used: &Used, to: &[String]| used.is_public && to.starts_with(module);
            let targets = source.paths.iter().filter_map(|used| {
                let to = resolve(&modules, module, &used.segments, 0)?;
                (to != module && !reexports(used, to)).then_some(to)
            });
            (module, targets.collect())
        })
        .collect();
    let reached: BTreeMap<&[String], BTreeSet<&[String]>> =
        edges.keys().map(|&module| (module, reach(&edges, module))).collect();
    let mut seen: BTreeSet<&[String]> = BTreeSet::new();
    let mut cycles = Vec::new();
    for (&module, from_here) in &reached {
        let back = |other: &&&[String]| reached[**other].contains(module);
        let group: Vec<&[String]> = from_here.iter().filter(back).copied().collect();
        if group.len() > 1 && group.iter().all(|member| seen.insert(member)) {
            cycles.push(group.iter().map(|member| name(member)).collect());
        }
    }
    cycles
}

fn name(module: &[String]) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("::") }
}

fn reach<'a>(
    edges: &BTreeMap<&'a [String], BTreeSet<&'a [String]>>,
    from: &'a [String],
) -> BTreeSet<&'a [String]> {
    let mut reached = BTreeSet::new();
    let mut waiting: Vec<&[String]> = edges[from].iter().copied().collect();
    while let Some(module) = waiting.pop() {
        if reached.insert(module) {
            waiting.extend(edges[module].iter().copied());
        }
    }
    reached
}

/// Follows a path from a module to the module that defines its last name.
fn resolve<'a>(
    modules: &BTreeMap<&'a [String], &'a Source>,
    from: &[String],
    segments: &[String],
    depth: usize,
) -> Option<&'a [String]> {
    const REEXPORTS_MAX: usize = 8;
    let mut here = from.to_vec();
    let mut rest = segments;
    match rest.first()?.as_str() {
        "crate" => here.clear(),
        "self" => {}
        "super" => {
            here.pop()?;
        }
        child if modules.contains_key([from, &[child.to_owned()]].concat().as_slice()) => {
            here.push(child.to_owned());
        }
        _ => return None,
    }
    rest = &rest[1..];
    while rest.first().is_some_and(|segment| segment == "super") {
        here.pop()?;
        rest = &rest[1..];
    }
    for (at, segment) in rest.iter().enumerate() {
        let below = [here.as_slice(), std::slice::from_ref(segment)].concat();
        if modules.contains_key(below.as_slice()) {
            here = below;
            continue;
        }
        let source = modules.get(here.as_slice())?;
        let known = |used: &&Used| used.name.as_deref() == Some(segment) && used.segments != rest;
        if depth < REEXPORTS_MAX
            && let Some(used) = source.paths.iter().find(known)
            && let Some(defining) = resolve(modules, &here, &used.segments, depth + 1)
        {
            let further = [&["crate".to_owned()][..], defining, &rest[at + 1..]].concat();
            return resolve(modules, &[], &further, depth + 1);
        }
        break;
    }
    modules.get_key_value(here.as_slice()).map(|(&module, _)| module)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(file: &str, code: &str) -> Source {
        Source::new(file, code)
    }

    #[test]
    fn a_cycle_through_a_re_export_is_found() {
        let sources = [
            source("src/lib.rs", "pub mod a; mod b; pub use a::Thing;"),
            source("src/a.rs", "use crate::b::{self, Other};\npub struct Thing;"),
            source("src/b.rs", "use super::Thing; pub struct Other;"),
            source(
                "src/c.rs",
                "use crate::{a, b}; // crate::d\nfn f() { let _ = \"crate::d::x\"; }",
            ),
            source("src/d.rs", "fn f() { crate::c::f() }"),
        ];
        assert_eq!(cycles(&sources), [["a", "b"]]);
        assert_eq!(sources[0].public, 1);
    }

    #[test]
    fn a_door_depends_on_nobody() {
        let door = "mod x; mod y; pub use x::{One, more::Two as Three}; pub(crate) use y::four;";
        let sources = [
            source("src/a/mod.rs", door),
            source("src/a/x.rs", "use super::y::four; pub struct One;"),
            source("src/a/y.rs", "use super::Three; use crate::a::five; pub(crate) fn four() {}"),
        ];
        assert_eq!(cycles(&sources), [["a::x", "a::y"]]);
        let private = source("src/a/mod.rs", "mod x; use x::One; fn five(_: One) {}");
        let child = source("src/a/x.rs", "use super::five; pub struct One;");
        assert_eq!(cycles(&[private, child]), [["a", "a::x"]]);
    }

    #[test]
    fn code_tests_and_errors_are_counted() {
        let code = "//! x\n\npub enum AError {\n}\n#[cfg(test)]\nmod tests {\n}\n";
        let found = source("src/a.rs", code);
        assert_eq!((found.lines, found.test_lines, found.public, found.errors), (2, 3, 1, 1));
        let suite = source("suites/a.rs", "fn f() {}");
        assert_eq!((suite.lines, suite.test_lines), (0, 1));
        assert_eq!(source("src/a/tests/b.rs", "fn f() {}").test_lines, 1);
    }
}
