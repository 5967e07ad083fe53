"""Writes datasets/tests-data/{bare,npz,safetensors,hdf5,jsonl}: small files as other programs write them.

Run once, with numpy, safetensors and h5py: python tools/make_vector_fixtures.py
"""

import json
from pathlib import Path

import h5py
import numpy as np
from safetensors.numpy import save_file

FOLDER = Path(__file__).resolve().parent.parent / "datasets" / "tests-data"
ROWS = np.array([[0.5, -0.25, 3.0], [1.0, 0.0, -0.0], [65504.0, 0.125, -2.0]], dtype="<f4")
WHOLE = np.array([[1, 2, 3], [0, 127, 5], [100, 101, 102]])


def bare():
    header = np.array([3, 3], dtype="<u4").tobytes()
    for name, rows in {
        "fbin": ROWS, "f16bin": ROWS.astype("<f2"), "ibin": WHOLE.astype("<i4"),
        "u8bin": WHOLE.astype("u1"), "i8bin": WHOLE.astype("i1"),
    }.items():
        (FOLDER / "bare" / f"numpy.{name}").write_bytes(header + rows.tobytes())
    for name, rows in {"fvecs": ROWS, "ivecs": WHOLE.astype("<i4"), "bvecs": WHOLE.astype("u1")}.items():
        dims = np.full((3, 1), 3, dtype="<i4").view("u1").reshape(3, 4)
        rows = rows.view("u1").reshape(3, -1)
        np.hstack([dims, rows]).tofile(FOLDER / "bare" / f"numpy.{name}")


def npz():
    folder = FOLDER / "npz"
    np.savez(folder / "numpy_stored.npz", ROWS)
    np.savez_compressed(folder / "numpy_deflated_f64.npz", vectors=ROWS.astype("<f8"), labels=np.arange(3))
    np.savez_compressed(folder / "numpy_several.npz", emb=ROWS.astype("<f2"), other=WHOLE.astype("u1"))
    np.savez(folder / "numpy_unnamed.npz", a=ROWS, b=ROWS.T.copy())
    np.savez(folder / "numpy_fortran.npz", np.asfortranarray(ROWS))


def safetensors():
    folder = FOLDER / "safetensors"
    several = {"embeddings": ROWS, "bias": np.zeros(3, "<f4"), "weights": ROWS[:2].copy()}
    save_file(several, folder / "numpy_f32.safetensors", metadata={"model": "tiny"})
    save_file({"x": ROWS.astype("<f2")}, folder / "numpy_f16.safetensors")
    save_file({"x": ROWS.astype("<f8"), "scale": np.ones(1, "<f4")}, folder / "numpy_f64.safetensors")
    save_file({"x": WHOLE.astype("u1")}, folder / "numpy_u8.safetensors")
    save_file({"a": ROWS, "b": ROWS}, folder / "numpy_unnamed.safetensors")


def ann_benchmark(name, train, libver="earliest", **options):
    with h5py.File(FOLDER / "hdf5" / name, "w", libver=libver) as file:
        file.attrs["distance"] = "angular"
        file.create_dataset("train", data=train, **options)
        file.create_dataset("test", data=ROWS[:1])
        file.create_dataset("neighbors", data=np.array([[2, 0]], dtype="<i4"))
        file.create_dataset("distances", data=np.array([[0.25, 0.5]], dtype="<f4"))


def hdf5():
    ann_benchmark("h5py_contiguous.hdf5", ROWS)
    ann_benchmark("h5py_gzip_f64.hdf5", ROWS.astype("<f8"), chunks=(2, 3), compression="gzip", shuffle=True)
    ann_benchmark("h5py_chunked_latest.hdf5", ROWS, chunks=(2, 2), libver="latest")
    ann_benchmark("h5py_big_endian.hdf5", ROWS.astype(">f4"))
    with h5py.File(FOLDER / "hdf5" / "h5py_others.h5", "w") as file:
        file.create_group("group").create_dataset("train", data=ROWS)
        file.create_dataset("labels", data=np.arange(3))
        for kind in ["i8", "u1", "f2", "u2"]:
            file.create_dataset(kind, data=WHOLE.astype(f"<{kind}"))
        file.create_dataset("text", data=np.array([[b"ab", b"c"]]))


def jsonl():
    rows = [
        {"id": "a", "vector": ROWS[0].tolist(), "text": "erste Zeile: ü", "tags": ["x", "y"], "score": 1},
        {"id": "b", "vector": ROWS[1].tolist(), "text": None, "tags": [], "score": 0.5, "seen": True},
        {"id": "c", "vector": ROWS[2].tolist(), "text": "\u2028 🦀", "tags": None, "meta": {"k": [1, None]}},
    ]
    for name, ascii in {"python.jsonl": True, "python_utf8.ndjson": False}.items():
        text = "".join(json.dumps(row, ensure_ascii=ascii) + "\n" for row in rows)
        (FOLDER / "jsonl" / name).write_text(text, encoding="utf-8")


def main():
    for name, write in {"bare": bare, "npz": npz, "safetensors": safetensors, "hdf5": hdf5, "jsonl": jsonl}.items():
        (FOLDER / name).mkdir(parents=True, exist_ok=True)
        write()


if __name__ == "__main__":
    main()
