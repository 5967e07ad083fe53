"""Do other programs read what memfold writes, and does memfold read what they write? Bit by bit.

    python3 -m venv target/formats
    target/formats/bin/pip install --require-hashes -r bench/peers/formats.lock
    target/formats/bin/python bench/peers/formats.py --memfold target/release/memfold --store bench/results/formats.jsonl

Every line of the result is one file: who wrote it, who read it, in which format, with which components, and whether
every bit came back. `memfold demo` is not needed: the rows are made here, with the numbers that formats get wrong (-0,
the smallest and largest of each type, and what lies between), and a store is exported as well.
"""

import argparse
import datetime
import importlib.metadata
import json
import pathlib
import platform
import struct
import subprocess
import sys
import tempfile

import duckdb
import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import safetensors.numpy

DIM = 24
ROWS = 1500
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
INTEGERS = {"u8": np.uint8, "i8": np.int8, "i32": np.int32}
TYPES = {**FLOATS, **INTEGERS}
VECS = {"fvecs": "f32", "ivecs": "i32", "bvecs": "u8"}
BINS = {"fbin": "f32", "f16bin": "f16", "u8bin": "u8", "i8bin": "i8", "ibin": "i32"}


def rows(name):
    """A matrix with the edges of its type among ordinary values; no row is all zeros."""
    kind = TYPES[name]
    random = np.random.default_rng(7)
    if name in FLOATS:
        matrix = random.standard_normal((ROWS, DIM)).astype(kind)
        info = np.finfo(kind)
        edges = [-0.0, info.tiny, -info.tiny, info.smallest_subnormal, info.eps, info.max, info.min, 1.0]
    else:
        info = np.iinfo(kind)
        matrix = random.integers(info.min, info.max, (ROWS, DIM), dtype=kind, endpoint=True)
        edges = [info.min, info.max, 0, 1]
    matrix[0, : len(edges)] = np.array(edges, dtype=kind)
    return matrix


def fixed(matrix):
    """The matrix as an Arrow column of lists of one length."""
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])


def lists(column):
    return np.stack([np.asarray(row) for row in column])


def of_arrow(column):
    values = pa.chunked_array(column).combine_chunks() if isinstance(column, list) else column.combine_chunks()
    return values.flatten().to_numpy(zero_copy_only=False).reshape(len(values), -1)


def read_vecs(path, kind):
    item = np.dtype(kind).itemsize
    data = path.read_bytes()
    (dim,) = struct.unpack_from("<i", data)
    records = np.frombuffer(data, np.uint8).reshape(-1, 4 + dim * item)
    assert (records[:, :4].copy().view("<i4") == dim).all()
    return records[:, 4:].copy().view(kind)


def write_vecs(path, matrix):
    head = np.full((len(matrix), 1), matrix.shape[1], "<i4").view(np.uint8)
    path.write_bytes(np.hstack([head, matrix.copy().view(np.uint8).reshape(len(matrix), -1)]).tobytes())


def read_bin(path, kind):
    count, dim = struct.unpack_from("<II", path.read_bytes())
    return np.fromfile(path, kind, offset=8).reshape(count, dim)


def write_bin(path, matrix):
    path.write_bytes(struct.pack("<II", *matrix.shape) + matrix.tobytes())


def readers(kind):
    """Who reads a format, and how; with the types that the program knows in that format."""
    numeric = TYPES[kind]
    yield "arrow", "pyarrow", lambda path: of_arrow(pa.ipc.open_file(path).read_all()["vector"])
    yield "arrow", "polars", lambda path: pl.read_ipc(path)["vector"].to_numpy()
    yield "arrow", "pandas", lambda path: lists(pd.read_feather(path)["vector"])
    yield "parquet", "pyarrow", lambda path: of_arrow(pq.read_table(path)["vector"])
    yield "parquet", "pandas", lambda path: lists(pd.read_parquet(path)["vector"])
    if kind != "f16":
        # Neither knows half floats in Parquet.
        yield "parquet", "polars", lambda path: pl.read_parquet(path)["vector"].to_numpy()
        yield "parquet", "duckdb", lambda path: lists(
            duckdb.sql(f"SELECT vector FROM '{path}'").fetchnumpy()["vector"]).astype(numeric)
    yield "npy", "numpy", np.load
    yield "npz", "numpy", lambda path: np.load(path)["vectors"]
    yield "safetensors", "safetensors", lambda path: safetensors.numpy.load_file(path)["vectors"]
    if kind in ("f32", "u8", "i8", "i32"):
        # Its parser refuses the largest f64.
        yield "jsonl", "pandas", lambda path: np.array(
            pd.read_json(path, lines=True, precise_float=True)["vector"].tolist(), numeric)
    if kind != "f16":
        yield "jsonl", "json", lambda path: np.array(
            [json.loads(line)["vector"] for line in path.read_text().splitlines()], numeric)
    for name, of in VECS.items():
        if of == kind:
            yield name, "numpy", lambda path: read_vecs(path, numeric)
    for name, of in BINS.items():
        if of == kind:
            yield name, "numpy", lambda path: read_bin(path, numeric)


def write_hdf5(path, matrix, **options):
    with h5py.File(path, "w") as file:
        file.create_dataset("train", data=matrix, **options)
        file.create_dataset("test", data=matrix[:5])


def writers(kind):
    """Who writes a format, and how."""
    yield "arrow", "pyarrow", lambda path, m: pa.feather.write_feather(
        pa.table({"vector": fixed(m)}), path, compression="uncompressed")
    yield "arrow", "pyarrow (lz4)", lambda path, m: pa.feather.write_feather(
        pa.table({"vector": fixed(m)}), path, compression="lz4")
    yield "parquet", "pyarrow", lambda path, m: pq.write_table(pa.table({"vector": fixed(m)}), path)
    yield "parquet", "pandas", lambda path, m: pd.DataFrame({"vector": list(m)}).to_parquet(path)
    if kind in FLOATS and kind != "f16":
        yield "parquet", "polars", lambda path, m: pl.DataFrame({"vector": m}).write_parquet(path)
        yield "parquet", "duckdb", lambda path, m: duckdb.from_arrow(
            pa.table({"vector": fixed(m)})).write_parquet(str(path))
    if kind in FLOATS:
        yield "npy", "numpy", np.save
        yield "npz", "numpy", lambda path, m: np.savez(path, vectors=m)
        yield "npz", "numpy (deflate)", lambda path, m: np.savez_compressed(path, vectors=m)
    yield "safetensors", "safetensors", lambda path, m: safetensors.numpy.save_file({"vectors": m}, path)
    if kind in ("f32", "f64"):
        yield "hdf5", "h5py", write_hdf5
        yield "hdf5", "h5py (gzip)", lambda path, m: write_hdf5(path, m, compression="gzip", chunks=(64, DIM))
    if kind == "f32":
        # pandas.to_json writes 15 decimals, so small numbers lose digits.
        yield "jsonl", "json", lambda path, m: path.write_text(
            "".join(json.dumps({"vector": row}) + "\n" for row in m.tolist()))
    for name, of in VECS.items():
        if of == kind:
            yield name, "numpy", write_vecs
    for name, of in BINS.items():
        if of == kind:
            yield name, "numpy", write_bin


def equal(found, expected):
    """Every bit, also of what compares equal without being so."""
    found = np.ascontiguousarray(found)
    return found.dtype == expected.dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()


class Checks:
    def __init__(self, memfold, folder):
        self.memfold, self.folder, self.lines = memfold, folder, []

    def convert(self, source, target, *options):
        command = [self.memfold, "convert", source, target, "--quiet", "--force", *options]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())

    def check(self, writer, reader, kind, name, act):
        line = {"writer": writer, "reader": reader, "format": name, "type": kind}
        try:
            line["equal"] = bool(act())
        except Exception as error:  # whatever a reader does not like belongs into the result
            line["equal"], line["error"] = False, f"{type(error).__name__}: {error}"[:300]
        self.lines.append(line)
        if not line["equal"]:
            print("differs:", json.dumps(line), file=sys.stderr)

    def written(self):
        for kind in TYPES:
            expected = rows(kind)
            source = self.folder / f"{kind}.feather"
            pa.feather.write_feather(pa.table({"vector": fixed(expected)}), source, compression="uncompressed")
            for name, reader, read in readers(kind):
                target = self.folder / f"out-{kind}.{name}"

                def act():
                    self.convert(source, target)
                    return equal(read(target), expected)

                self.check("memfold", reader, kind, name, act)

    def read(self):
        for kind in TYPES:
            expected = rows(kind)
            for name, writer, write in writers(kind):
                source, target = self.folder / f"in-{kind}.{name}", self.folder / "back.arrow"

                def act():
                    write(source, expected)
                    self.convert(source, target)
                    return equal(of_arrow(pa.ipc.open_file(target).read_all()["vector"]), expected)

                self.check(writer, "memfold", kind, name, act)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memfold", required=True)
    parser.add_argument("--store", type=pathlib.Path, help="write the lines here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(arguments.memfold, pathlib.Path(folder))
        checks.written()
        checks.read()
    packages = ["duckdb", "h5py", "numpy", "pandas", "polars", "pyarrow", "safetensors"]
    versions = {package: importlib.metadata.version(package) for package in packages}
    versions["python"] = platform.python_version()
    run = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    command = "target/formats/bin/python bench/peers/formats.py --memfold target/release/memfold"
    for line in checks.lines:
        line.update(rows=ROWS, dim=DIM, run=run, command=command, versions=versions)
    if arguments.store:
        arguments.store.write_text("".join(json.dumps(line) + "\n" for line in checks.lines))
    good = sum(line["equal"] for line in checks.lines)
    print(f"{good} of {len(checks.lines)} files came back bit by bit")
    return 0 if good == len(checks.lines) else 1


if __name__ == "__main__":
    sys.exit(main())
