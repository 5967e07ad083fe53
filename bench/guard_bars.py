"""Measures the guard against its bars on labelled pairs; prints a table and fails where a bar is not met.

    guard_bars.py DATA/text
    guard_bars.py DATA/text --command target/debug/examples/verdicts --show failing
    guard_bars.py pipeline/guard/tests_data

The folder holds JSON Lines with the texts `a` (older) and `b` (newer). The script knows these sets by their names and
skips those that are missing: failing_dev, real_pairs_dev, sick_dev, stsb_dev, conjnli_dev; opposites, swaps, roles.
The command is run as `COMMAND --pairs FILE --verdicts FILE`, once for each set and once with its texts exchanged.
Needs Python 3 and nothing else.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "guard"))
from paraphrases import stem  # noqa: E402


STOP = set(
    """i me my myself we our ours ourselves you your yours he him his she her hers it its itself they them their theirs
    what which who whom this that these those am is are was were be been being have has had having do does did doing a
    an the and but if or because as until while of at by for with about against between into through during before
    after above below to from up down in out on off over under again further then once here there when where why how
    all any both each few more most other some such no nor not only own same so than too very s t can will just don
    should now d ll m o re ve""".split()
)


class Pair:
    """A labelled pair and what the guard says of it."""

    def __init__(self, row, verdict, swapped):
        self.a, self.b = row["a"], row["b"]
        self.label = row.get("expected", row.get("label"))
        self.verdict = {"contradictory": "conflict"}.get(verdict["verdict"], verdict["verdict"])
        self.mergeable = verdict["mergeable"]
        self.mergeable_either_way = verdict["mergeable"] or swapped["mergeable"]
        self.asymmetric = verdict["verdict"] != swapped["verdict"]

    @property
    def linked(self):
        return self.verdict in ("same", "extends")

    @property
    def flagged(self):
        return self.verdict == "conflict"


class Table:
    """The measures of all sets; counts the bars that are not met."""

    def __init__(self, show):
        self.missed, self.show = 0, show

    def row(self, name, part, whole, bar=None, at_least=True, wrong=()):
        share = part / whole if whole else float("nan")
        met = None
        if bar is not None and whole:
            met = share >= bar if at_least else share <= bar
            self.missed += not met
        sign = "" if bar is None else f"{'>=' if at_least else '<='} {bar:g}"
        verdict = {None: "", True: "met", False: "NOT MET"}[met]
        print(f"  {name:58} {part:6} / {whole:<6} {share:7.4f}  {sign:8} {verdict}")
        self.examples(name, wrong)

    def examples(self, name, pairs):
        if self.show is None or self.show not in name:
            return
        for pair in pairs:
            print(f"      {pair.verdict:9} [{pair.label}] {pair.a!r} | {pair.b!r}")


def judged(command, path):
    """Runs the command on a set in both orders."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    there = verdicts(command, [{"a": row["a"], "b": row["b"], "label": "pair"} for row in rows])
    back = verdicts(command, [{"a": row["b"], "b": row["a"], "label": "pair"} for row in rows])
    return [Pair(*each) for each in zip(rows, there, back, strict=True)]


def verdicts(command, rows):
    with tempfile.TemporaryDirectory() as folder:
        pairs, out = Path(folder) / "pairs.jsonl", Path(folder) / "verdicts.jsonl"
        pairs.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        arguments = [*command, "--pairs", str(pairs), "--verdicts", str(out)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{shlex.join(arguments)} failed: {done.stderr.strip()}")
        found = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    if len(found) != len(rows):
        sys.exit(f"{shlex.join(arguments)} gave {len(found)} verdicts for {len(rows)} pairs")
    return found


def content(text):
    """Counts the stems of a text's content words and numbers; characters of unspaced scripts count one by one."""
    words = re.findall(r"[^\W\d_]+|\d+(?:[.,]\d+)*", text.lower().replace("n't", " not"))
    pieces = [piece for word in words for piece in (word if re.match(r"[\u3040-\u9fff]", word) else [word])]
    return Counter(stem(word) for word in pieces if word not in STOP)


def words_apart(pair):
    """The content words that only `a` has, and those that only `b` has."""
    a, b = content(pair.a), content(pair.b)
    return a - b, b - a


def precision(table, pairs, wanted, precision_min=None, recall_min=None, f1_min=None):
    """Of flags, how many are right; of wanted pairs, how many are flagged."""
    flags = [pair for pair in pairs if pair.flagged]
    right = [pair for pair in flags if pair.label == wanted]
    all_wanted = [pair for pair in pairs if pair.label == wanted]
    wrong = [pair for pair in flags if pair.label != wanted]
    missed = [pair for pair in all_wanted if not pair.flagged]
    table.row("flags right (precision)", len(right), len(flags), precision_min, wrong=wrong)
    table.row("flagged of those that should be (recall)", len(right), len(all_wanted), recall_min, wrong=missed)
    table.row("F1", 2 * len(right), len(flags) + len(all_wanted), f1_min)


def wrong_merges(table, name, pairs, bar=0.0):
    merged = [pair for pair in pairs if pair.mergeable_either_way]
    table.row(f"{name} mergeable, either way", len(merged), len(pairs), bar, at_least=False, wrong=merged)


def failing(table, pairs):
    """`same`: neither flagged nor different; `different`: neither mergeable nor flagged; `update`: conflict."""
    right = {
        "same": lambda pair: pair.verdict not in ("conflict", "different"),
        "different": lambda pair: not pair.mergeable_either_way and not pair.flagged,
        "update": lambda pair: pair.flagged,
    }
    for label, holds in right.items():
        of_label = [pair for pair in pairs if pair.label == label]
        wrong = [pair for pair in of_label if not holds(pair)]
        table.row(f"failing: {label}", len(of_label) - len(wrong), len(of_label), 1.0, wrong=wrong)


def real(table, pairs):
    flags = [pair for pair in pairs if pair.flagged and pair.label != "debatable"]
    right = [pair for pair in flags if pair.label == "update"]
    debatable = [pair for pair in pairs if pair.flagged and pair.label == "debatable"]
    wrong = [pair for pair in flags if pair.label != "update"]
    table.row("real: flags right, debatable ones left out", len(right), len(flags), 0.85, wrong=wrong)
    table.row("real: flags right, debatable ones wrong", len(right), len(flags) + len(debatable))
    updates = [pair for pair in pairs if pair.label == "update"]
    missed = [pair for pair in updates if not pair.flagged]
    table.row("real: updates flagged (bar where frames align)", len(right), len(updates), wrong=missed)
    same = [pair for pair in pairs if pair.label == "same"]
    apart = [pair for pair in same if pair.verdict in ("conflict", "different")]
    table.row("real: same called different or conflict", len(apart), len(same), 0.05, False, apart)
    one_sided = [pair for pair in same if not all(words_apart(pair))]
    open_pairs = [pair for pair in one_sided if not pair.linked]
    linked = len(one_sided) - len(open_pairs)
    table.row("real: same, one only says more: same or extends", linked, len(one_sided), 0.6, wrong=open_pairs)
    others = [pair for pair in pairs if pair.label in ("update", "other-thing", "other-event", "unrelated")]
    wrong_merges(table, "real: updates and other things", others)


def sick(table, pairs):
    precision(table, pairs, "contradiction", precision_min=0.93)
    wrong_merges(table, "sick: contradictions", [pair for pair in pairs if pair.label == "contradiction"])
    neutral = [pair for pair in pairs if pair.label == "neutral"]
    linked = [pair for pair in neutral if pair.mergeable_either_way]
    table.row("sick: neutral pairs mergeable, either way", len(linked), len(neutral), wrong=linked)
    matched(table, [pair for pair in pairs if pair.label == "entailment"], "sick: entailment", None)


def stsb(table, pairs):
    same = [pair for pair in pairs if pair.label >= 4.5]
    apart = [pair for pair in same if pair.verdict in ("conflict", "different")]
    table.row("stsb: same (>= 4.5) called different or conflict", len(apart), len(same), wrong=apart)
    flagged = [pair for pair in same if pair.flagged]
    table.row("stsb: same (>= 4.5) flagged", len(flagged), len(same), 0.05, False, flagged)
    matched(table, same, "stsb: same (>= 4.5)", 0.4)
    wrong_merges(table, "stsb: below 3", [pair for pair in pairs if pair.label < 3])
    doubtful = [pair for pair in pairs if 3 <= pair.label < 4 and pair.mergeable_either_way]
    table.row("stsb: 3 to 4 mergeable, either way", len(doubtful), sum(3 <= pair.label < 4 for pair in pairs), wrong=doubtful)


def matched(table, same, name, bar):
    """Pairs that people call the same and in which every content word stands on both sides."""
    matching = [pair for pair in same if not any(words_apart(pair))]
    open_pairs = [pair for pair in matching if not pair.linked]
    table.row(f"{name}, content words matched: linked", len(matching) - len(open_pairs), len(matching), bar, wrong=open_pairs)


def conjnli(table, pairs):
    precision(table, pairs, "contradiction")
    wrong_merges(table, "conjnli: contradictions", [pair for pair in pairs if pair.label == "contradiction"])
    entailed = [pair for pair in pairs if pair.label == "entailment"]
    flagged = [pair for pair in entailed if pair.flagged]
    table.row("conjnli: entailments flagged", len(flagged), len(entailed), wrong=flagged)


def opposites(table, pairs):
    precision(table, pairs, "opposite", f1_min=0.93)
    wrong_merges(table, "opposites: opposites", [pair for pair in pairs if pair.label == "opposite"])


def swaps(table, pairs):
    precision(table, pairs, "contradiction", precision_min=0.98, recall_min=0.6)
    apart = [pair for pair in pairs if pair.label in ("contradiction", "neutral")]
    wrong_merges(table, "swaps: contradictions and neutral pairs", apart)
    entailed = [pair for pair in pairs if pair.label == "entailment"]
    flagged = [pair for pair in entailed if pair.flagged]
    table.row("swaps: entailments flagged", len(flagged), len(entailed), wrong=flagged)


def roles(table, pairs):
    apart = [pair for pair in pairs if not pair.label]
    wrong_merges(table, "roles: other roles", apart, 0.0002)
    same = [pair for pair in pairs if pair.label]
    linked = [pair for pair in same if pair.linked]
    table.row("roles: paraphrases linked", len(linked), len(same), wrong=[pair for pair in same if not pair.linked])
    flagged = [pair for pair in same if pair.flagged]
    table.row("roles: paraphrases flagged", len(flagged), len(same), wrong=flagged)


SETS = {
    "failing_dev": failing,
    "real_pairs_dev": real,
    "sick_dev": sick,
    "stsb_dev": stsb,
    "conjnli_dev": conjnli,
    "opposites": opposites,
    "swaps": swaps,
    "roles": roles,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of the sets, as JSON Lines")
    parser.add_argument("--command", default="memfold-bench guard", help="judges pairs [default: memfold-bench guard]")
    parser.add_argument("--show", help="list the wrong pairs of measures whose name contains this text")
    parser.add_argument("--only", choices=SETS, help="measure this set only")
    options = parser.parse_args()
    table = Table(options.show)
    found = False
    for name, measure in SETS.items():
        path = options.folder / f"{name}.jsonl"
        if options.only not in (None, name) or not path.exists():
            continue
        found = True
        pairs = judged(shlex.split(options.command), path)
        counts = Counter(pair.verdict for pair in pairs)
        print(f"{name}: {len(pairs)} pairs, {', '.join(f'{count} {name}' for name, count in sorted(counts.items()))}")
        measure(table, pairs)
        asymmetric = [pair for pair in pairs if pair.asymmetric]
        table.row("verdicts that depend on the order", len(asymmetric), len(pairs), 0.0, False, asymmetric)
    if not found:
        sys.exit(f"{options.folder}: no set found")
    if table.missed:
        sys.exit(f"{table.missed} bars are not met")


if __name__ == "__main__":
    main()
