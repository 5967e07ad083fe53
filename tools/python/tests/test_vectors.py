"""deduplicate and Index: answers against numpy, inputs of every kind, errors."""

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from conftest import brute_force, make_vectors

import memfold


def pairs_of(result: memfold.Deduplication) -> dict[tuple[int, int], float]:
    table = result.pairs
    rows = zip(table["left"].tolist(), table["right"].tolist(), strict=True)
    return dict(zip(rows, table["similarity"].tolist(), strict=True))


@pytest.mark.parametrize("threshold", [0.85, 0.95, 1.0])
def test_pairs_are_those_of_a_brute_force(threshold):
    vectors = make_vectors(900)
    expected = brute_force(vectors, threshold - 1e-9)
    found = pairs_of(memfold.deduplicate(vectors, threshold))
    sure = {pair for pair, cosine in expected.items() if abs(cosine - threshold) > 1e-9}
    assert sure <= found.keys() <= expected.keys()
    assert all(abs(found[pair] - expected[pair]) < 1e-9 for pair in found)
    assert len(found) > 20


def test_clusters_hold_near_rows_only_and_the_first_stays():
    vectors = make_vectors(900)
    result = memfold.deduplicate(vectors, 0.9)
    near = pairs_of(result)
    survivors, rows = result.clusters["survivor"], result.clusters["row"]
    clusters: dict[int, list[int]] = {}
    for survivor, row in zip(survivors.tolist(), rows.tolist(), strict=True):
        clusters.setdefault(survivor, []).append(row)
    for survivor, members in clusters.items():
        assert survivor == min(members)
        assert all((a, b) in near for a in members for b in members if a < b)
    expected = sorted(row for members in clusters.values() for row in members[1:])
    assert result.filtered.tolist() == expected
    assert sorted([*result.selected, *result.filtered]) == list(range(900))
    assert result.duplicate_ratio == len(expected) / 900


def test_rethreshold_is_what_a_join_finds_and_lower_ones_are_refused():
    vectors = make_vectors(600)
    low = memfold.deduplicate(vectors, 0.8)
    for threshold in [0.8, 0.9, 0.97]:
        again, joined = low.rethreshold(threshold), memfold.deduplicate(vectors, threshold)
        assert again.pairs_digest == joined.pairs_digest
        assert pairs_of(again) == pairs_of(joined)
        assert again.filtered.tolist() == joined.filtered.tolist()
        assert again.pair_count == len(again.pairs)
    with pytest.raises(memfold.InputError, match="below 0.8.*\n.*call deduplicate again"):
        low.rethreshold(0.7)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_types_orders_and_strides_are_copied_with_a_note(dtype):
    vectors = make_vectors(300).astype(dtype)
    expected = memfold.deduplicate(np.ascontiguousarray(vectors, np.float32)).pairs_digest
    for form in [vectors, np.asfortranarray(vectors), np.repeat(vectors, 2, axis=0)[::2]]:
        result = memfold.deduplicate(form)
        assert result.pairs_digest == expected
        is_lent = form.dtype == np.float32 and form.flags.c_contiguous
        assert len(result.notes) == (0 if is_lent else 1)
    assert "copied to float32" in memfold.deduplicate(vectors.astype(np.float64)).notes[0]


def test_arrow_and_polars_go_in_and_out():
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    vectors = make_vectors(300)
    expected = memfold.deduplicate(vectors)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    lists = pa.array(vectors.astype(np.float64).tolist(), pa.list_(pa.float64()))
    half = pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype(np.float16).ravel()), 32)
    chunked = pa.chunked_array([flat[:100], flat[100:]])
    frame = pl.DataFrame({"id": range(300), "embedding": vectors})
    for form in [flat, lists, chunked, pa.table({"x": lists, "emb": flat}), frame, frame["embedding"]]:
        assert memfold.deduplicate(form).pairs_digest == expected.pairs_digest
    assert memfold.deduplicate(half).pairs_digest == memfold.deduplicate(
        vectors.astype(np.float16)
    ).pairs_digest
    assert memfold.deduplicate(flat).notes == ()
    assert memfold.deduplicate(flat[10:]).pairs_digest == memfold.deduplicate(vectors[10:]).pairs_digest
    assert "were copied" in memfold.deduplicate(chunked).notes[0]
    table, polars = pa.table(expected.pairs), pl.DataFrame(expected.pairs)
    assert table.column_names == ["left", "right", "similarity"] == polars.columns
    assert table["right"].to_pylist() == expected.pairs["right"].tolist()
    assert polars["similarity"].to_list() == expected.pairs["similarity"].tolist()
    assert pa.record_batch(expected.clusters).num_rows == len(expected.clusters)


def test_arrow_that_is_no_matrix_is_refused():
    pa = pytest.importorskip("pyarrow")
    ragged = pa.array([[1.0, 2.0], [3.0]], pa.list_(pa.float32()))
    missing = pa.array([[1.0, 2.0], None], pa.list_(pa.float32()))
    hole = pa.array([[1.0, 2.0], [None, 1.0]], pa.list_(pa.float32()))
    for data, message in [
        (ragged, "row 1 has 1 components, expected 2"),
        (missing, "row 1 has no vector"),
        (hole, "row 1 has a null component"),
        (pa.array([1.0, 2.0]), "expected lists of float16"),
        (pa.array([[1, 2]]), "expected lists of float16"),
        (pa.table({"a": [1]}), "no column vector, embedding, embeddings, emb, found a"),
        (pa.array([], pa.list_(pa.float32(), 4)), "no rows"),
    ]:
        with pytest.raises(memfold.InputError, match=message):
            memfold.deduplicate(data)
    with pytest.raises(memfold.InputError, match="no column b, found a"):
        memfold.deduplicate(pa.table({"a": [1]}), vector_column="b")


def test_paths_and_patterns_are_read(tmp_path):
    vectors = make_vectors(400)
    np.save(tmp_path / "a.npy", vectors[:150])
    np.save(tmp_path / "b.npy", vectors[150:])
    expected = memfold.deduplicate(vectors)
    for paths in [str(tmp_path / "*.npy"), [tmp_path / "a.npy", tmp_path / "b.npy"]]:
        result = memfold.deduplicate(paths)
        assert result.pairs_digest == expected.pairs_digest
        assert result.selected.tolist() == expected.selected.tolist()
    vectors[3] = 0
    np.save(tmp_path / "c.npy", vectors)
    result = memfold.deduplicate(tmp_path / "c.npy")
    assert result.notes == ("1 rows have no usable vector: 3",)
    assert 3 not in [*result.selected, *result.filtered]
    for paths, message in [
        (tmp_path / "d.npy", "d.npy"),
        (str(tmp_path / "*.parquet"), "no file matches"),
        (tmp_path, "is a folder"),
        ([tmp_path / "a.npy"] * 2, "named twice"),
    ]:
        with pytest.raises(memfold.InputError, match=message):
            memfold.deduplicate(paths)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.ones(8, np.float32), r"\(rows, dim\), found shape \(8,\)"),
        (np.ones((2, 2, 2), np.float32), r"found shape \(2, 2, 2\)"),
        (np.ones((0, 8), np.float32), r"no vectors: shape \(0, 8\)"),
        (np.ones((8, 0), np.float32), r"no vectors: shape \(8, 0\)"),
        (np.ones((2, 8), np.int8), "found int8.*\n.*astype"),
        (np.ones((2, 8), np.complex64), "found complex64"),
        (np.array([["a", "b"]]), "float64, found <U1"),
        (np.array([[1, None]], dtype=object), "found object"),
        ([[1.0, 2.0], [3.0]], "cannot read list as an array"),
        (None, "found object"),
        (np.array([[1, 0], [0, 0]], np.float32), "row 1: "),
        (np.array([[1, 0], [1e300, 1]]), "row 1: "),
    ],
)
def test_bad_vectors_say_what_is_wrong(vectors, message):
    with pytest.raises(memfold.InputError, match=message) as raised:
        memfold.deduplicate(vectors, invalid="raise")
    assert raised.value.hint and isinstance(raised.value, ValueError)


def test_bad_arguments_say_what_is_wrong(tmp_path):
    vectors = make_vectors(50)
    index = memfold.Index.build(vectors)
    for call, message in [
        (lambda: memfold.deduplicate(vectors, 2.0), "threshold is 2, expected"),
        (lambda: memfold.deduplicate(vectors, float("nan")), "threshold is NaN"),
        (lambda: memfold.deduplicate(vectors, threads=0), "threads is 0"),
        (lambda: index.search(vectors, k=-1), "k is -1"),
        (lambda: index.search(vectors, k=0), "k is 0"),
        (lambda: index.search(vectors[:, :5]), "dimension 5, expected 32"),
        (lambda: index.search(np.zeros(32, np.float32)), "query 0 has no direction"),
        (lambda: index.radius(vectors, 1.5), "threshold is 1.5"),
        (lambda: memfold.Index.build(np.zeros((2, 4), np.float32)), "row 0"),
    ]:
        with pytest.raises(memfold.InputError, match=message):
            call()
    with pytest.raises(ValueError, match="high"):
        memfold.deduplicate(vectors, "high")
    with pytest.raises(memfold.StoreError, match="no index at .*\n.*build it again"):
        memfold.Index.open(tmp_path / "none.mfi")


def test_an_index_finds_what_a_brute_force_finds(tmp_path):
    vectors, queries = make_vectors(700), make_vectors(40, seed=9)
    unit = vectors / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    wanted = queries / np.linalg.norm(queries.astype(np.float64), axis=1, keepdims=True)
    cosines = wanted @ unit.T
    built = memfold.Index.build(vectors)
    written = memfold.Index.build(vectors, tmp_path / "corpus.mfi")
    opened = memfold.Index.open(tmp_path / "corpus.mfi")
    for index in [built, written, opened]:
        assert index.shape == (700, 32) and len(index) == 700
        rows, similarities = index.search(queries, k=5)
        assert rows.shape == similarities.shape == (40, 5)
        best = -np.sort(-cosines, axis=1)[:, :5]
        np.testing.assert_allclose(similarities, best, atol=1e-9)
        np.testing.assert_allclose(np.take_along_axis(cosines, rows, 1), similarities, atol=1e-9)
        near = index.radius(queries, 0.5)
        hits = set(zip(near["query"].tolist(), near["row"].tolist(), strict=True))
        assert hits == set(zip(*(axis.tolist() for axis in np.nonzero(cosines >= 0.5)), strict=True))
    assert built.search(vectors[3], k=1000)[0].shape == (1, 700)
    assert built.search(vectors[3].astype(np.float64), k=1)[0].tolist() == [[3]]


def test_an_index_is_not_overwritten_unasked_and_is_checked(tmp_path):
    path = tmp_path / "corpus.mfi"
    memfold.Index.build(make_vectors(100), path)
    with pytest.raises(memfold.InputError, match="is there already.*\n.*overwrite=True"):
        memfold.Index.build(make_vectors(50), path)
    memfold.Index.build(make_vectors(50), path, overwrite=True)
    assert len(memfold.Index.open(path)) == 50
    other = tmp_path / "other.mfi"
    memfold.Index.build(make_vectors(50, seed=8), other)
    os.replace(f"{other}.arrow", f"{path}.arrow")
    with pytest.raises(memfold.StoreError, match="index of other vectors"):
        memfold.Index.open(path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(memfold.StoreError):
        memfold.Index.open(path)


def in_process(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True, text=True, timeout=120, check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_contiguous_float32_array_is_not_copied():
    # 200 MB of rows of which nearly all are equal: the join itself needs little memory.
    grown = in_process(
        """
        import resource, numpy as np, memfold
        vectors = np.ones((40_000, 1_250), np.float32)
        vectors[::7, 0] = 3
        memfold.deduplicate(np.ones((10, 8), np.float32))
        peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        before = peak()
        result = memfold.deduplicate(vectors, 0.999)
        assert not result.notes and len(result.selected) <= 2, result
        print((peak() - before) // 1024)
        """
    )
    assert int(grown) < 60, f"{grown} MiB more, the array has 190"


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_ends_a_long_join():
    # Without structure and at a low threshold every pair is judged: this takes minutes.
    waited = in_process(
        """
        import os, signal, threading, time, numpy as np, memfold
        vectors = np.random.default_rng(1).standard_normal((200_000, 64)).astype(np.float32)
        sent = []
        def interrupt():
            time.sleep(1.5)
            sent.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            memfold.deduplicate(vectors, 0.6)
        except KeyboardInterrupt:
            print(int(1000 * (time.perf_counter() - sent[0])))
        """
    )
    # Far above what a quiet machine needs, far below the minutes of the join.
    assert int(waited) < 5000, f"{waited} ms"


def test_the_interpreter_is_free_while_work_goes_on():
    vectors = np.random.default_rng(1).standard_normal((6_000, 64)).astype(np.float32)
    ended = threading.Event()

    def work():
        memfold.deduplicate(vectors, 0.5)
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    turns = 0
    while not ended.wait(0.001):
        turns += 1
    thread.join()
    assert turns >= 5


def test_threads_share_an_index_and_answers_do_not_depend_on_them():
    vectors = make_vectors(600)
    index = memfold.Index.build(vectors)
    expected = index.search(vectors, k=3)[0].tolist()
    answers: list[object] = []
    threads = [
        threading.Thread(target=lambda: answers.append(index.search(vectors, k=3)[0].tolist()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [expected] * 4
    digests = {memfold.deduplicate(vectors, threads=n).pairs_digest for n in (1, 2, 5)}
    assert len(digests) == 1


def test_progress_is_shown_and_its_errors_reach_the_caller(monkeypatch):
    from memfold import _memfold

    stages = []
    _memfold.Deduplication(
        np.random.default_rng(1).standard_normal((6_000, 64)).astype(np.float32),
        0.5, True, None, lambda stage, done, total: stages.append(stage),
    )
    assert stages

    def fails(stage, done, total):
        raise RuntimeError("shown once")

    vectors = np.random.default_rng(1).standard_normal((20_000, 64)).astype(np.float32)
    with pytest.raises(RuntimeError, match="shown once"):
        _memfold.Deduplication(vectors, 0.5, True, None, fails)
    assert memfold.deduplicate(make_vectors(50), progress=True).pair_count > 0


def test_rows_without_a_direction_are_left_out_and_named():
    vectors = make_vectors(60)
    expected = memfold.deduplicate(np.delete(vectors, [7, 20], axis=0), 0.9)
    vectors[7], vectors[20, 3] = 0, np.nan
    found = memfold.deduplicate(vectors, 0.9)
    assert found.skipped.tolist() == [7, 20]
    assert found.notes == ("2 rows have no usable vector: 7, 20",)
    rows = np.delete(np.arange(60), [7, 20])
    assert found.selected.tolist() == rows[expected.selected].tolist()
    assert found.filtered.tolist() == rows[expected.filtered].tolist()
    assert found.pairs["left"].tolist() == rows[expected.pairs["left"]].tolist()
    flat = pytest.importorskip("pyarrow").array(list(vectors))
    assert memfold.deduplicate(flat, 0.9).skipped.tolist() == [7, 20]
    with pytest.raises(memfold.InputError, match="row 7: "):
        memfold.deduplicate(vectors, 0.9, invalid="raise")
    with pytest.raises(memfold.InputError, match='"raise"'):
        memfold.deduplicate(vectors, 0.9, invalid="ignore")


def test_rows_near_a_reference_leave():
    vectors = make_vectors(90)
    reference, new = vectors[:40], vectors[40:]
    cosines = brute_force(vectors, 0.9)
    known = sorted({right - 40 for left, right in cosines if left < 40 <= right})
    assert known
    found = memfold.deduplicate(new, 0.9, reference=reference)
    assert found.known.tolist() == known
    assert not set(found.selected.tolist()) & set(known)
    assert set(known) <= set(found.filtered.tolist())
    alone = np.setdiff1d(np.arange(50), known)
    rest = memfold.deduplicate(new[alone], 0.9)
    assert found.selected.tolist() == alone[rest.selected].tolist()
    assert found.duplicate_ratio == pytest.approx(found.filtered.size / 50)
    with pytest.raises(memfold.InputError, match="reference"):
        found.rethreshold(0.95)
    every = memfold.deduplicate(new, 0.9, reference=new)
    assert (every.selected.tolist(), every.filtered.tolist()) == ([], list(range(50)))
    assert (every.duplicate_ratio, every.pair_count) == (1.0, 0)
    with pytest.raises(memfold.InputError, match="no row has a usable vector"):
        memfold.deduplicate(np.zeros((3, 4), np.float32))


def test_representatives_and_outliers():
    near = np.eye(3, 16, dtype=np.float32).repeat(20, axis=0)
    near += np.random.default_rng(3).normal(0, 0.05, near.shape).astype(np.float32)
    odd = -np.ones((1, 16), np.float32)
    vectors = np.concatenate([near, odd])
    assert memfold.outliers(vectors, 1 / 61).tolist() == [60]
    chosen = memfold.representatives(vectors[:60], 3, diversity=0.7)
    assert sorted(row // 20 for row in chosen) == [0, 1, 2]
    assert len(memfold.representatives(vectors, 100)) == 61
    with pytest.raises(memfold.InputError, match="diversity 2"):
        memfold.representatives(vectors, diversity=2)
    with pytest.raises(memfold.InputError, match="share"):
        memfold.outliers(vectors, 3)


def test_without_ray_the_error_says_what_to_install():
    said = in_process(
        """
        import sys
        sys.modules["ray"] = None
        import memfold
        try:
            memfold.ray
        except ImportError as error:
            print(error)
        """
    )
    assert said.startswith("memfold.ray needs Ray: ") and "pip install 'memfold[ray]'" in said
    with pytest.raises(AttributeError, match="no attribute 'spark'"):
        memfold.spark
