"""Writes datasets/tests-data/parquet: small files as other programs write them.

Run once, with pyarrow and pandas or pyarrow alone: python tools/make_parquet_fixtures.py
"""

import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(__file__).resolve().parent.parent / "datasets" / "tests-data" / "parquet"
ROWS = [[0.5, -0.25, 3.0], [1.0, 0.0, -0.0], [65504.0, 0.125, -2.0]]
TEXTS = ["first", None, "drei ünï"]


def write(name, vectors, column="vector", **options):
    texts = pa.array(TEXTS)
    table = pa.table({"row": pa.array([0, 1, 2]), "text": texts, column: vectors})
    pq.write_table(table, FOLDER / f"{name}.parquet", **options)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    f32 = [np.array(row, dtype=np.float32) for row in ROWS]
    f16 = [np.array(row, dtype=np.float16) for row in ROWS]
    blobs = [struct.pack("<3f", *row) for row in ROWS]
    write("list_f32", pa.array(f32, pa.list_(pa.float32())), "embedding")
    write("large_list_f64", pa.array(ROWS, pa.large_list(pa.float64())), "embeddings", compression="zstd")
    write("fixed_list_f16", pa.array(f16, pa.list_(pa.float16(), 3)), "emb", compression="none")
    write("fixed_list_f32_pages_v2", pa.array(f32, pa.list_(pa.float32(), 3)), data_page_version="2.0")
    write("fixed_binary", pa.array(blobs, pa.binary(12)), write_statistics=False)
    # One row group for each row, a categorical text, and a second list beside the vector.
    table = pa.table({
        "text": pa.array(["a", "b", "a"]).dictionary_encode(),
        "tags": pa.array([["x"], [], ["y", "z"]]),
        "embedding": pa.array(f32, pa.list_(pa.float32())),
        "vector": pa.array([row[:2] for row in ROWS], pa.list_(pa.float64())),
    })
    pq.write_table(table, FOLDER / "two_vectors.parquet", row_group_size=1)
    # What cannot be read.
    write("null_row", pa.array([ROWS[0], None, ROWS[2]], pa.list_(pa.float32())))
    write("null_component", pa.array([ROWS[0], [1.0, None, 2.0], ROWS[2]], pa.list_(pa.float32())))
    write("ragged", pa.array([ROWS[0], ROWS[1], [1.0]], pa.list_(pa.float32())))
    write("integers", pa.array([[1], [2], [3]], pa.list_(pa.int64())))
    write("not_finite", pa.array([ROWS[0], [1.0, 1e300, 0.0], ROWS[2]], pa.list_(pa.float64())))
    write("no_vector", pa.array([1.0, 2.0, 3.0]), "score")
    write("gzip", pa.array(f32, pa.list_(pa.float32())), compression="gzip")


if __name__ == "__main__":
    main()
