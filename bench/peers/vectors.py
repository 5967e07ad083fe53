"""Reads the rows that all engines are given."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from joins import Vectors

VECTOR_COLUMNS = ("vector", "embedding", "embeddings", "emb")


def load(path: Path) -> Vectors:
    """The rows of an npy file (f16 or f32), or of the vector column of an Arrow or Parquet file."""
    rows: npt.NDArray[Any] = np.load(path) if path.suffix == ".npy" else load_column(path)
    return np.ascontiguousarray(rows, np.float32)


def load_column(path: Path) -> npt.NDArray[Any]:
    import pyarrow.feather
    import pyarrow.parquet

    reader = pyarrow.parquet.read_table if path.suffix == ".parquet" else pyarrow.feather.read_table
    table = reader(path)
    name = next(name for name in VECTOR_COLUMNS if name in table.column_names)
    column = table[name].combine_chunks()
    values: npt.NDArray[Any] = column.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(column), -1)


def unit(rows: Vectors) -> Vectors:
    """The rows at length one, as the engines want them."""
    units: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return units
