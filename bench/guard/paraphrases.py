"""Counts paraphrases without the guard's help: of the pairs that people call the same and in which at most one text has
content words of its own, how many does the guard link?

    memfold-bench guard --pairs pairs.jsonl --verdicts verdicts.jsonl
    python3 bench/guard/paraphrases.py pairs.jsonl verdicts.jsonl 4.5

A pair counts when its label is a similarity of at least the third argument. Words are compared after a list of English
stop words and a simple stemmer that share nothing with memfold's lexicon. Needs Python 3 and nothing else.
"""

import json
import re
import sys
from collections import Counter

STOP = set(
    """i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself it
    its itself they them their theirs themselves what which who whom this that these those am is are was were be been
    being have has had having do does did doing a an the and but if or because as until while of at by for with about
    against between into through during before after above below to from up down in out on off over under again further
    then once here there when where why how all any both each few more most other some such no nor not only own same so
    than too very s t can will just don should now d ll m o re ve""".split()
)

# Pairs that people call the same; of these the ones without words of their own on both sides; of these the ones with
# every word of a in b.
NAMES = ("same", "same_linked", "one_sided", "one_sided_linked", "carried", "carried_mergeable")


def stem(word):
    """Takes English endings off: `running`, `runs` and `run` are one word."""
    for ending, least in (("ing", 3), ("ied", 2), ("ies", 2), ("ed", 3), ("es", 3), ("ly", 3), ("s", 3)):
        if word.endswith(ending) and len(word) - len(ending) >= least and not word.endswith("ss"):
            word = word[: -len(ending)] + ("y" if ending in ("ied", "ies") else "")
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def content(text):
    """Counts the stems of a text's content words and numbers."""
    words = re.findall(r"[a-z]+|\d+(?:[.,]\d+)*", text.lower().replace("n't", " not"))
    return Counter(stem(word) for word in words if word not in STOP)


def main(pairs_path, verdicts_path, least):
    counted = Counter()
    with open(pairs_path) as pairs, open(verdicts_path) as verdicts:
        lines = [line for line in pairs if line.strip()]
        for pair, verdict in zip(map(json.loads, lines), map(json.loads, verdicts), strict=True):
            if not isinstance(pair["label"], (int, float)) or pair["label"] < least:
                continue
            counted["same"] += 1
            linked = verdict["verdict"] in ("same", "extends")
            counted["same_linked"] += linked
            a, b = content(pair["a"]), content(pair["b"])
            if (a - b) and (b - a):
                continue
            counted["one_sided"] += 1
            counted["one_sided_linked"] += linked
            if not a - b:
                counted["carried"] += 1
                counted["carried_mergeable"] += verdict["mergeable"]
    print(json.dumps({name: counted[name] for name in NAMES}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
