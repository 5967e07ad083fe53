//! The hook of a session's start: its input, its output, and the block in a given text.

use serde_json::{Value, json};

/// The opening tag up to its attributes.
pub(crate) const OPEN: &str = "<memory_consolidated_summaries";
/// The closing tag up to its `>`.
pub(crate) const CLOSE: &str = "</memory_consolidated_summaries";

/// A tag whose `>` is further away is broken. Bounds the search, so that a text of nothing but
/// opening tags takes linear time.
const TAG_BYTES_MAX: usize = 1024;

/// The message of the host when a session starts. Nothing in it is required.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookInput {
    /// The session.
    pub session_id: Option<String>,
    /// Its working directory.
    pub cwd: Option<String>,
    /// Why it starts: `startup`, `resume`, `clear` or `compact`.
    pub source: Option<String>,
    /// Whether the host is Cursor, which reads another answer.
    pub is_cursor: bool,
    /// Why the input could not be read, for the log.
    pub problem: Option<String>,
}

impl HookInput {
    /// Reads the JSON object of a hook's standard input.
    ///
    /// A hook must not fail: unknown fields, fields of another type and a byte order mark are
    /// passed over, and where it is no JSON object the fields are empty and `problem` says why.
    /// Empty input is no problem.
    #[must_use]
    pub fn parse(input: &[u8]) -> Self {
        let input = input.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(input).trim_ascii();
        if input.is_empty() {
            return Self::default();
        }
        let failed = |problem: String| Self { problem: Some(problem), ..Self::default() };
        match serde_json::from_slice::<Value>(input) {
            Ok(Value::Object(fields)) => {
                let text = |name| fields.get(name).and_then(Value::as_str).map(str::to_owned);
                let workspace = fields.get("workspace_roots").and_then(|roots| roots[0].as_str());
                Self {
                    session_id: text("session_id"),
                    cwd: text("cwd").or_else(|| workspace.map(str::to_owned)),
                    source: text("source"),
                    is_cursor: text("hook_event_name").as_deref() == Some("sessionStart"),
                    problem: None,
                }
            }
            Ok(_) => failed("hook input is no JSON object".to_owned()),
            Err(error) => failed(format!("hook input is no JSON: {error}")),
        }
    }
}

/// Builds the output of a SessionStart hook, in the form that its host reads.
///
/// # Examples
///
/// ```
/// use memfold_core::lifecycle::{HookInput, hook_output};
///
/// let output = hook_output(&HookInput::default(), "context");
/// assert_eq!(
///     output.to_string(),
///     r#"{"hookSpecificOutput":{"hookEventName":"SessionStart","additionalContext":"context"}}"#,
/// );
/// let cursor = HookInput::parse(br#"{"hook_event_name":"sessionStart"}"#);
/// assert_eq!(hook_output(&cursor, "context").to_string(), r#"{"additional_context":"context"}"#);
/// ```
#[must_use]
pub fn hook_output(input: &HookInput, additional_context: &str) -> Value {
    if input.is_cursor {
        return json!({ "additional_context": additional_context });
    }
    json!({
        "hookSpecificOutput": {
            "hookEventName": "SessionStart",
            "additionalContext": additional_context,
        }
    })
}

/// Puts `block` into a text in place of every block that is there, and leaves the other bytes as
/// they are.
///
/// The new block stands where the first complete block stood, else where the first stray tag
/// stood. Without any it is appended on a line of its own, ended as the text ends its lines. An
/// empty `block` only removes.
///
/// A block is an opening tag with any attributes, its closing tag (the nearest one that nesting
/// allows) and the text between. An opening tag that is never closed and a closing tag that was
/// never opened vanish alone: nobody knows how far such a block went, and the text around may be
/// the user's. Where the removal of a tag would join the text around it into another tag, a line
/// break is put there.
///
/// `block` is that of [`crate::lifecycle::session_block`]: then the result has exactly one block, and
/// replacing again changes nothing. Any bytes are accepted; the time is linear in them.
///
/// # Examples
///
/// ```
/// let old = "a <memory_consolidated_summaries version=\"1\">x</memory_consolidated_summaries> b";
/// let block = "<memory_consolidated_summaries>y</memory_consolidated_summaries>";
/// let new = memfold_core::lifecycle::replace_block(old.as_bytes(), block);
/// assert_eq!(new, format!("a {block} b").into_bytes());
/// ```
#[must_use]
pub fn replace_block(text: &[u8], block: &str) -> Vec<u8> {
    let regions = regions(&tags(text));
    let Some(place) = regions.iter().position(|region| region.is_block).or_else(|| {
        let has_any = !regions.is_empty();
        has_any.then_some(0)
    }) else {
        return appended(text, block);
    };
    let kept = kept_parts(text, &regions);
    let breaks = accidental_joints(&kept);
    let mut out = Vec::with_capacity(text.len() + block.len());
    for (joint, part) in kept.iter().enumerate() {
        out.extend_from_slice(part);
        if joint == place {
            out.extend_from_slice(block.as_bytes());
        }
        if breaks.binary_search(&joint).is_ok() && (joint != place || block.is_empty()) {
            out.push(b'\n');
        }
    }
    out
}

fn appended(text: &[u8], block: &str) -> Vec<u8> {
    let has_crlf = text.windows(2).any(|pair| pair == b"\r\n");
    let line_end: &[u8] = match text.last() {
        None | Some(b'\n') => b"",
        _ if block.is_empty() => b"",
        _ if has_crlf => b"\r\n",
        _ => b"\n",
    };
    [text, line_end, block.as_bytes()].concat()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagKind {
    Open,
    Close,
    SelfClosed,
}

#[derive(Debug, Clone, Copy)]
struct Tag {
    kind: TagKind,
    start: usize,
    end: usize,
}

/// A part to take out: a block, or a tag that belongs to none.
#[derive(Debug, Clone, Copy)]
struct Region {
    start: usize,
    end: usize,
    is_block: bool,
}

fn tags(text: &[u8]) -> Vec<Tag> {
    let mut tags = Vec::new();
    let mut at = 0;
    while let Some(step) = text[at..].iter().position(|byte| *byte == b'<') {
        let start = at + step;
        at = match tag_at(text, start) {
            Some(tag) => {
                tags.push(tag);
                tag.end
            }
            None => start + 1,
        };
    }
    tags
}

fn tag_at(text: &[u8], start: usize) -> Option<Tag> {
    let (kind, name_end) = tag_name_at(text, start)?;
    let rest = &text[name_end..];
    let end = match kind {
        TagKind::Close => {
            let spaces = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            if rest.get(spaces) == Some(&b'>') { name_end + spaces + 1 } else { name_end }
        }
        _ => name_end + attributes_end(&rest[..rest.len().min(TAG_BYTES_MAX)]).unwrap_or(0),
    };
    let is_self_closed = kind == TagKind::Open && text[name_end..end].ends_with(b"/>");
    let kind = if is_self_closed { TagKind::SelfClosed } else { kind };
    Some(Tag { kind, start, end })
}

/// Reads `<` and our name, not followed by more of a name.
fn tag_name_at(text: &[u8], start: usize) -> Option<(TagKind, usize)> {
    let literals = [(TagKind::Open, OPEN), (TagKind::Close, CLOSE)];
    let (kind, literal) =
        literals.into_iter().find(|(_, literal)| text[start..].starts_with(literal.as_bytes()))?;
    let end = start + literal.len();
    let is_name_byte =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(byte) || !byte.is_ascii();
    (!text.get(end).is_some_and(is_name_byte)).then_some((kind, end))
}

/// The position after the `>` that ends the attributes: outside of quotes where they are closed.
fn attributes_end(rest: &[u8]) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in rest.iter().enumerate() {
        match (quote, byte) {
            (Some(open), byte) if open == *byte => quote = None,
            (None, b'"' | b'\'') => quote = Some(*byte),
            (None, b'>') => return Some(at + 1),
            (None, b'<') => break,
            _ => {}
        }
    }
    let at = rest.iter().position(|byte| matches!(byte, b'<' | b'>'))?;
    (rest[at] == b'>').then_some(at + 1)
}

fn regions(tags: &[Tag]) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for tag in tags {
        let mut region = Region { start: tag.start, end: tag.end, is_block: false };
        match tag.kind {
            TagKind::Open => open.push(regions.len()),
            TagKind::SelfClosed => region.is_block = true,
            TagKind::Close => {
                if let Some(opening) = open.pop() {
                    region = Region { start: regions[opening].start, is_block: true, ..region };
                    regions.truncate(opening);
                }
            }
        }
        regions.push(region);
    }
    regions
}

/// The text between regions: one part more than there are regions.
fn kept_parts<'a>(text: &'a [u8], regions: &[Region]) -> Vec<&'a [u8]> {
    let starts = std::iter::once(0).chain(regions.iter().map(|region| region.end));
    let ends = regions.iter().map(|region| region.start).chain([text.len()]);
    starts.zip(ends).map(|(start, end)| &text[start..end]).collect()
}

/// The joints between parts, in order, at which the parts would form one of our tags.
fn accidental_joints(parts: &[&[u8]]) -> Vec<usize> {
    let joined = parts.concat();
    let ends: Vec<usize> = parts
        .iter()
        .scan(0, |end, part| {
            *end += part.len();
            Some(*end)
        })
        .collect();
    let starts = joined.iter().enumerate().filter(|(_, byte)| **byte == b'<');
    starts
        .filter(|(start, _)| tag_name_at(&joined, *start).is_some())
        .map(|(start, _)| ends.partition_point(|end| *end <= start))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: &str = "<memory_consolidated_summaries version=\"12345678\" \
                         generated_at=\"2026-01-01T00:00:00Z\">\nnew\n\
                         </memory_consolidated_summaries>";
    const O: &str = "<memory_consolidated_summaries>";
    const C: &str = "</memory_consolidated_summaries>";

    fn replaced(text: &str, block: &str) -> String {
        String::from_utf8(replace_block(text.as_bytes(), block)).unwrap()
    }

    /// `O`, `C` and `N` stand for tags and the new block.
    #[test]
    fn every_version_gives_way_to_one() {
        let spelled = |text: &str, new: &str| {
            text.replace('N', "\0").replace('O', O).replace('C', C).replace('\0', new)
        };
        for (text, expected) in [
            ("", "N"),
            ("a", "a\nN"),
            ("a\n", "a\nN"),
            ("a\r\nb", "a\r\nb\r\nN"),
            ("a Ox\r\nC b", "a N b"),
            ("OxCOyC", "N"),
            ("a OxC b OyC c", "a N b  c"),
            ("a Ox OyC zC b", "a N b"),
            ("a O b", "a N b"),
            ("a O b OxC c", "a  b N c"),
            ("a C b OxC c", "a  b N c"),
            ("a C b", "a N b"),
            ("a Ox", "a Nx"),
            ("a <memory_consolidated_summaries version='>' x=\"1\r\n\" >xC b", "a N b"),
            ("a <memory_consolidated_summaries version=\"1>xC b", "a N b"),
            ("a <memory_consolidated_summaries/> b", "a N b"),
            ("a <memory_consolidated_summaries version=\"1", "a N version=\"1"),
            ("a <memory_consolidated_summaries", "a N"),
            ("a <memory_consolidated_summaries\n xC b", "a N b"),
            ("a Ox</memory_consolidated_summaries\t> b", "a N b"),
            ("<memory_consolidated_summaries2> b", "<memory_consolidated_summaries2> b\nN"),
            ("&lt;memory_consolidated_summaries>", "&lt;memory_consolidated_summaries>\nN"),
            // A tag taken out of a tag leaves no tag.
            ("<memory_conOsolidated_summaries> aOxC", "<memory_con\nsolidated_summaries> aN"),
            ("<memory_conOsolidated_summaries>", "<memory_conNsolidated_summaries>"),
        ] {
            let (text, expected) = (spelled(text, ""), spelled(expected, BLOCK));
            assert_eq!(replaced(&text, BLOCK), expected, "{text:?}");
            assert_eq!(replaced(&expected, BLOCK), expected, "once more: {text:?}");
        }
    }

    #[test]
    fn an_empty_block_removes() {
        assert_eq!(replaced(&format!("a {BLOCK}b{O}"), ""), "a b");
        assert_eq!(replaced("a", ""), "a");
        let hidden = format!("<memory_con{O}solidated_summaries>");
        assert_eq!(replaced(&hidden, ""), "<memory_con\nsolidated_summaries>");
    }

    #[test]
    fn any_bytes_stay() {
        let text = [b"\xFF\0\xC3 ", BLOCK.as_bytes(), b" \xE2\x28"].concat();
        assert_eq!(replace_block(&text, ""), b"\xFF\0\xC3  \xE2\x28");
    }

    /// Quadratic time would take minutes here.
    #[test]
    fn a_megabyte_of_tags_takes_linear_time() {
        let name = &O[..O.len() - 1];
        for part in [O, C, BLOCK, "<", name, &format!("{name}\""), "<memory_con", &O[1..]] {
            let text = part.repeat(1_000_000 / part.len());
            let once = replaced(&text, BLOCK);
            assert_eq!(once.matches(BLOCK).count(), 1);
            assert_eq!(replaced(&once, BLOCK), once);
        }
        let nested = format!("{}{}", "<memory_con".repeat(30_000), O.repeat(30_000));
        let _ = replaced(&nested, BLOCK);
    }

    fn plain() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-z \r\n\"'>/é漢]{0,20}",
            "(\r\n){1,3}",
            Just("&lt;/memory_consolidated_summaries&gt;".to_owned()),
        ]
    }

    fn fragment() -> impl Strategy<Value = String> {
        prop_oneof![
            plain(),
            (0..=C.len()).prop_map(|end| C[..end].to_owned()),
            (0..=O.len()).prop_map(|start| O[start..].to_owned()),
            "[<>/\"' =]{0,4}",
            Just(O.to_owned()),
            Just(C.to_owned()),
            Just(BLOCK.to_owned()),
            Just("<memory_consolidated_summaries version=\"1\">".to_owned()),
        ]
    }

    proptest! {
        #[test]
        fn other_bytes_are_untouched(
            parts in proptest::collection::vec((plain(), "[a-z \r\n]{0,20}"), 1..6),
            last in plain(),
        ) {
            let blocks = |body: &str| format!("<memory_consolidated_summaries a='1'>{body}{C}");
            let text: String =
                parts.iter().map(|(text, body)| format!("{text}{}", blocks(body))).collect();
            let others: Vec<&str> = parts.iter().map(|(text, _)| text.as_str()).collect();
            let expected = format!("{}{BLOCK}{}{last}", others[0], others[1..].concat());
            prop_assert_eq!(replaced(&(text + &last), BLOCK), expected);
        }

        #[test]
        fn one_block_comes_of_anything(parts in proptest::collection::vec(fragment(), 0..14)) {
            let text = parts.concat();
            let once = replaced(&text, BLOCK);
            prop_assert_eq!(once.matches(BLOCK).count(), 1);
            prop_assert_eq!(tags(once.as_bytes()).len(), 2, "{:?} of {:?}", once, text);
            prop_assert_eq!(replaced(&once, BLOCK), once.clone());
            // The rest is the text less our tags, in order, with a line break here and there.
            let mut rest = text.chars();
            for kept in once.replace(BLOCK, "").chars() {
                let is_line_end = matches!(kept, '\r' | '\n');
                prop_assert!(is_line_end || rest.any(|character| character == kept));
            }
        }
    }

    #[test]
    fn hook_input_is_read_as_far_as_it_goes() {
        let input = HookInput::parse(
            b"\xEF\xBB\xBF {\"session_id\":\"s\",\"cwd\":\"/w\",\"source\":3,\"new\":[1]}\n",
        );
        assert_eq!(input.session_id.as_deref(), Some("s"));
        assert_eq!((input.cwd.as_deref(), input.source, input.problem), (Some("/w"), None, None));
        assert_eq!(HookInput::parse(b" \n"), HookInput::default());
        for (text, problem) in [
            (&b"[]"[..], "hook input is no JSON object"),
            (b"{", "hook input is no JSON: EOF while parsing an object at line 1 column 1"),
        ] {
            assert_eq!(HookInput::parse(text).problem.as_deref(), Some(problem));
        }
        assert!(HookInput::parse(b"\xFF").problem.is_some());
        assert!(HookInput::parse("[".repeat(100_000).as_bytes()).problem.is_some());
    }
}
