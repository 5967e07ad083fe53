"""Memory, Plan and compare, on a store of six memories; and the examples of the documentation."""

import re
import threading
from pathlib import Path

import numpy as np
import pytest
from conftest import SAID, make_store, run_examples, texts_of

import memfold
from memfold import _memory, _vectors

DOCS = Path(__file__).parents[3] / "docs" / "python.md"


def test_save_check_plan_apply_undo(store, said):
    memory = memfold.Memory(store)
    random = np.random.default_rng(5)
    vector = random.standard_normal(32).astype(np.float32)

    check = memory.check("The cache lives in Redis.", vector=vector)
    assert (check.decision, check.checked, check.coverage) == ("insert", True, "full")
    saved = memory.save("The cache lives in Redis.", vector=vector, categories=["ops"])
    assert saved.written == "inserted" and saved.id in texts_of(store)
    again = memory.check("The cache lives in Redis.", vector=vector)
    assert again.decision == "touch"
    assert memory.save("The cache lives in Redis.", vector=vector).id == saved.id
    near = memory.check("The deploy port is 8081.", vector=said["m1"])
    assert {one.id for one in near.matches} == {"m1", "m2"}
    assert all(one.similarity > 0.99 and one.verdict == "conflict" for one in near.matches)

    before = texts_of(store)
    plan = memory.plan(threshold=0.95)
    assert texts_of(store) == before
    merges = [at for at, type in enumerate(plan.actions["type"]) if type == "merge"]
    ids = [sorted(plan.actions["ids"][at]) for at in merges]
    assert ids == [["m1", "m2"]] and len(plan) >= 1
    assert plan.actions["similarity"][merges[0]] > 0.95
    assert "near pair" in plan.summary()
    with pytest.raises(memfold.RefusedError, match="another|not the one") as refused:
        plan.apply(expect="sha256:0")
    assert "new plan" in refused.value.hint
    run = plan.apply(expect=plan.digest)
    assert (run.state, run.failed, run.remaining) == ("done", 0, 0) and run.applied >= 1
    after = texts_of(store)
    assert {"m3", "m4"} <= after.keys() and len({"m1", "m2"} & after.keys()) == 1

    undone = memory.undo(run)
    assert undone.applied == run.applied and undone.stale == 0
    assert texts_of(store) == before
    with pytest.raises(memfold.StoreError, match="no run has anything to take back"):
        memory.undo()


def test_search_and_recall_find_memories(store, said):
    memory = memfold.Memory(store)
    found = memory.search(vector=said["m3"], limit=2)
    assert [one.id for one in found] == ["m3", "m4"]
    assert abs(found[0].similarity - 1) < 1e-9 and found[0].text == SAID[2][1]
    assert [one.id for one in memory.search(id="m3", limit=1)] == ["m4"]
    assert memory.search("Backups are kept for thirty days.", limit=1)[0].similarity > 0.99
    assert [one.id for one in memory.search(vector=said["m3"], threshold=0.9)] == ["m3", "m4"]
    recalled = memory.recall("Which Postgres does staging run?", mode="deep", count=False)
    assert {"m3", "m4"} <= {one.id for one in recalled} and recalled[0].score > 0
    assert recalled[0].tier in {"hot", "warm", "cold"}
    by_vector = memory.recall("meetings", vector=said["m5"], mode="exhaustive", count=False)
    assert by_vector[0].id == "m5"


def test_errors_say_what_to_do(store, said, tmp_path):
    memory = memfold.Memory(store)
    for call, message in [
        (lambda: memory.check(), "nothing to check"),
        (lambda: memory.check("x", vector=np.zeros(32)), "no direction"),
        (lambda: memory.check("x", vector=[[1.0]]), r"found shape \(1, 1\)"),
        (lambda: memory.check("x", categories="ops"), "categories is one text"),
        (lambda: memory.save(" "), "no text with a visible character"),
        (lambda: memory.save("x", importance=float("inf")), "importance"),
        (lambda: memory.save("Another text.", id="m1"), "id m1 is that of another"),
        (lambda: memory.save("x", source="archived:y"), "source cannot begin"),
        (lambda: memory.search(), "a search is by one thing"),
        (lambda: memory.search("a", id="b"), "a search is by one thing"),
        (lambda: memory.search(id="nobody"), "no live memory"),
        (lambda: memory.search(vector=[1.0, 2.0]), "dimension|no vectors"),
        (lambda: memory.search(vector=said["m1"], limit=-3), "limit is -3"),
        (lambda: memory.search(vector=said["m1"], threshold=2.0), "threshold is 2"),
        (lambda: memory.recall("x", mode="all"), "use reflexive"),
        (lambda: memory.plan(threshold=2.0), "threshold"),
    ]:
        with pytest.raises(memfold.InputError, match=message):
            call()
    assert len(texts_of(store)) == len(SAID)
    with pytest.raises(memfold.StoreError, match="no run"):
        memory.undo("20260101T000000Z-00000000")
    (tmp_path / "text.db").write_text("no database, but long enough to look at " * 20)
    for path in [tmp_path / "none.db", tmp_path / "text.db", tmp_path]:
        with pytest.raises(memfold.Error):
            memfold.Memory(path)
    (tmp_path / "memfold.yaml").write_text("threshold: 7\n")
    with pytest.raises(memfold.InputError, match="threshold"):
        memfold.Memory(store)


def test_a_read_only_configuration_forbids_writing(store, said, tmp_path):
    (tmp_path / "memfold.yaml").write_text("read_only: true\n")
    memory = memfold.Memory(store)
    plan = memory.plan(threshold=0.95)
    for write in [lambda: plan.apply(expect=plan.digest), lambda: memory.save("x"), memory.undo]:
        with pytest.raises(memfold.RefusedError, match="read_only"):
            write()


def test_a_plan_that_changes_much_wants_a_look(tmp_path, said, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    texts = [f"The {name} service listens on port {8000 + at}." for at, name in enumerate("abcdef")]
    rows = [(f"r{at}", texts[at // 2] if at % 2 else f" {texts[at // 2]}  ", None) for at in range(12)]
    memory = memfold.Memory(make_store(tmp_path / "brain.db", rows))
    run = memory.plan().apply()
    assert run.applied == 6


def test_threads_share_a_store(store, said):
    memory = memfold.Memory(store)
    failures: list[BaseException] = []

    def work(at: int) -> None:
        try:
            for turn in range(5):
                memory.check(f"Fact {at} {turn}.", vector=said["m6"])
                memory.save(f"Thread {at} was here, turn {turn}.")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(texts_of(store)) == len(SAID) + 20


def test_compare_proves_and_tells_differences():
    same = memfold.compare("The port is 8080.", "the port is 8080")
    assert same.verdict == "same" and same.mergeable and not same.differences and same.proof
    more = memfold.compare("The port is 8080.", "The port is 8080 in staging.")
    assert more.verdict in {"extends", "different", "undecided"}
    other = memfold.compare("Die Straße öffnet um 9.", "Die Straße öffnet um 10.")
    assert not other.mergeable
    assert [(one.left, one.right) for one in other.differences] == [("9", "10")]


def test_examples_of_the_docstrings_run(tmp_path):
    count = 0
    for item in [_vectors.deduplicate, _vectors.Index, _memory.compare]:
        count += run_examples(item.__doc__, item.__qualname__, tmp_path)
    assert count >= 8


def test_examples_of_the_guide_run(tmp_path, store, said, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vectors = np.array([[1, 0], [0, 1], [0.99, 0.1], [1, 0]], np.float32)
    known = {"vectors": vectors, "vector_of": lambda text: said["m1"]}
    lines = DOCS.read_text(encoding="utf-8").splitlines()
    # A fence ends what an example prints.
    text = "\n".join("" if line.startswith("```") else line for line in lines)
    assert run_examples(text, DOCS.name, tmp_path, known) >= 15


@pytest.mark.parametrize("package", ["langgraph.store.base", "llama_index.core"])
def test_recipes_of_the_guide_run_where_their_packages_are(package, store, said):
    pytest.importorskip(package)
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    names: dict = {"memfold": memfold}
    exec(next(block for block in blocks if f"from {package}" in block), names)
    if package == "llama_index.core":
        from llama_index.core.schema import NodeWithScore, TextNode

        texts = ["Port 1.", "Port 22.", "Port 1."]
        nodes = [NodeWithScore(node=TextNode(text=text), score=1.0) for text in texts]
        drop = names["DropDuplicates"](embed=lambda texts: np.eye(2)[[len(t) % 2 for t in texts]])
        assert [one.node.get_content() for one in drop.postprocess_nodes(nodes)] == texts[:2]
        return
    kept = names["MemfoldStore"](store, lambda text: said["m6"] + len(text))
    for key in ["one", "two"]:
        kept.put(("alice", "facts"), key, {"text": "Alice likes tea."})
    found = kept.search(("alice",), query="What does Alice like?")
    assert [one.value["text"] for one in found] == ["Alice likes tea."]
