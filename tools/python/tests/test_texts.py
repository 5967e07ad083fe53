"""consolidate, and deduplicate where it is given texts; the command of the wheel."""

import subprocess
import sys

import numpy as np
import pytest

import memfold

NOTES = [
    "Release is on Oct 15th",
    "Release is on Oct 16th",
    "Deploys every Friday",
    "Deploys every Friday.",
]


def test_a_list_of_texts_is_deduplicated_by_proof():
    found = memfold.deduplicate(NOTES)
    assert found.selected == [0, 1, 3]
    assert found.merged[0].rows == (3, 2)


def test_texts_keep_rows_that_vectors_alone_would_drop():
    vectors = np.ones((4, 8), dtype=np.float32)
    vectors[0, 0] += 0.001
    assert len(memfold.deduplicate(vectors).selected) == 1
    found = memfold.deduplicate(vectors, texts=NOTES)
    assert found.selected == [0, 1, 3]
    assert memfold.consolidate(NOTES, vectors=vectors).selected == found.selected


def test_rows_without_a_direction_are_compared_by_their_words():
    vectors = np.eye(4, 8, dtype=np.float32)
    vectors[2] = np.nan
    vectors[3] = 0
    assert memfold.consolidate(NOTES, vectors=vectors).selected == [0, 1, 3]


@pytest.mark.parametrize("vectors", [np.ones((3, 8)), np.ones(4)])
def test_vectors_of_other_rows_are_refused(vectors):
    with pytest.raises(memfold.InputError, match="vectors"):
        memfold.consolidate(NOTES, vectors=vectors)


def test_ids_name_the_texts():
    found = memfold.consolidate(NOTES, ids=["a", "b", "c", "d"])
    assert found.selected_ids == ["a", "b", "d"]
    assert found.merged[0].ids == ("d", "c")
    records = [{"id": f"m{row}", "text": text} for row, text in enumerate(NOTES)]
    assert memfold.consolidate(records).selected_ids == ["m0", "m1", "m3"]
    with pytest.raises(memfold.InputError, match="3 ids of 4 texts"):
        memfold.consolidate(NOTES, ids="abc")


def test_texts_that_a_reference_has_leave():
    new = ["Deploys every Friday.", "Deploys every Monday.", "Deploys every  Friday."]
    found = memfold.consolidate(new, reference=NOTES)
    assert found.selected == [1]
    assert memfold.deduplicate(new, reference=["Backups run at night"]).selected == [1, 2]


def test_a_notebook_shows_groups_escaped():
    shown = memfold.consolidate([*NOTES, "<b>x</b> is 1", "<b>x</b>  is 1"], ids=list("ab<def"))
    html = shown._repr_html_()
    assert "<td>merged<td>d, &lt;" in html
    assert "<b>" not in html


def test_files_stay_files():
    with pytest.raises(memfold.InputError, match="corpus.parquet"):
        memfold.deduplicate(["corpus.parquet"])


def test_each_survivor_names_its_duplicates():
    vectors = np.array([[1, 0], [0, 1], [0.99, 0.1], [1, 0]], dtype=np.float32)
    found = memfold.deduplicate(vectors, threshold=0.95).selected_with_duplicates
    assert [(row, [other for other, _ in others]) for row, others in found] == [(0, [2, 3])]
    assert all(similarity >= 0.95 for _, others in found for _, similarity in others)


def test_a_store_can_be_made(tmp_path):
    store = memfold.Memory.create(tmp_path / "brain.db")
    assert store.save("Deploys need two approvals.").written == "inserted"
    assert store.check("Deploys need two approvals.").decision == "touch"
    assert [one.text for one in store.search("how many approvals do deploys need?")] == [
        "Deploys need two approvals."
    ]
    with pytest.raises(memfold.StoreError, match="exists"):
        memfold.Memory.create(tmp_path / "brain.db")


def test_the_command_is_part_of_the_wheel(tmp_path):
    (tmp_path / "notes.txt").write_text("\n".join(NOTES))
    words = [sys.executable, "-m", "memfold"]
    done = subprocess.run([*words, "consolidate", "notes.txt"], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"4 live")
    told = subprocess.run([*words, "--version"], capture_output=True, text=True)
    assert told.stdout.split() == ["memfold", memfold.__version__]
    assert subprocess.run([*words, "no-such-command"], capture_output=True).returncode == 2
