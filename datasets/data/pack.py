"""Packs a static embedding table into memfold-static-1.bin, which the program includes.

    python3 datasets/data/pack.py FOLDER datasets/data/memfold-static-1.bin

FOLDER holds `vectors_i8.npy` (pieces x 128), `scale_f32.npy` (one factor a piece) and `vocab.txt`
(BERT's uncased WordPiece, one piece a line, in order). README.md beside this file says how they
are made. Needs numpy.

Layout, little-endian: the name (16 bytes); the number of pieces and of components (u32); for
pieces that begin a word, then for those that continue one, how many have 1, 2, ... 18 bytes
(2 x 18 u32); the bytes of all pieces in that order, those of one length sorted, without "##";
the factors (f32); the vectors (i8). Pieces that no text has ("[unused0]", "[CLS]", ...) are left
out; "[UNK]" stays.
"""

import sys

import numpy as np

NAME, BYTES_MAX = b"memfold-static-1", 18


def main(folder, out):
    vectors = np.load(f"{folder}/vectors_i8.npy")
    scale = np.load(f"{folder}/scale_f32.npy").astype("<f4")
    with open(f"{folder}/vocab.txt", encoding="utf-8") as file:
        vocab = file.read().split("\n")[: len(vectors)]
    special = {"[PAD]", "[CLS]", "[SEP]", "[MASK]"}
    pieces = [
        (piece.startswith("##") and len(piece) > 2, piece, row)
        for row, piece in enumerate(vocab)
        if piece not in special and not piece.startswith("[unused")
    ]
    pieces = [(inner, (text[2:] if inner else text).encode(), row) for inner, text, row in pieces]
    pieces.sort(key=lambda piece: (piece[0], len(piece[1]), piece[1]))
    counts = np.zeros((2, BYTES_MAX), "<u4")
    for inner, text, _ in pieces:
        counts[int(inner), len(text) - 1] += 1
    rows = [row for _, _, row in pieces]
    with open(out, "wb") as file:
        file.write(NAME + np.array([len(rows), vectors.shape[1]], "<u4").tobytes())
        file.write(counts.tobytes() + b"".join(text for _, text, _ in pieces))
        file.write(scale[rows].tobytes() + vectors[rows].tobytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
