#!/usr/bin/env python3
"""Serves a tiny llama with made-up weights through llama.cpp's HTTP server.

    llama_server.py babbling|opinionated|stammering [SEED]

Prints `listening URL` and serves until its stdin ends. Equal seeds give equal models.

The model has one layer. Every token has an axis of its own, and the output weights say which token
follows which. Random output weights and random attention to all earlier tokens do the rest.

* babbling: random weights only.
* opinionated: the output weights also hold the pieces of an answer, in their order. What it says is
  well formed; actions, survivors and what it leaves out are random.
* stammering: held to a schema it begins an answer, and within a reason goes on with random bytes.
  Where they are no UTF-8, the server answers with status 500. Without a schema it is opinionated,
  after a word of prose.
"""

import pathlib
import sys
import tempfile

import gguf
import numpy
import xllamacpp

SEED = 20_261_124
# Tokens of a prompt and its answer. Most letters are a token each: a batch has about 4,000, and an
# answer that is shown again as many.
CONTEXT = 16_384
# Long enough for opinions on each pair of a batch, and soon over for a model that does not end.
ANSWER_TOKENS_MAX = 400
HEADS = 4
KINDS = ["babbling", "opinionated", "stammering"]
FEED_FORWARD = 64
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>"

ACTIONS = ["MERGE", "REPLACE", "KEEP_SEPARATE", "SKIP"]
# Groups of two in a batch of ten memories.
GROUPS = 5


def opinions(group):
    """What an answer may say of a group; sometimes a stranger is what should stay."""
    one, other, stranger = 2 * group + 1, 2 * group + 2, (2 * group + 3) % (2 * GROUPS)
    end = "," if group + 1 < GROUPS else "]}"
    return [
        f'{{"action":"{action}","ids":["m{one}","m{other}"],"keep":"m{keep}","reason":"so"}}{end}'
        for action in ACTIONS
        for keep in (one, other, stranger)
    ]


def steps(kind):
    """Which pieces follow which in an answer, and how strongly."""
    if kind == "babbling":
        return []
    begin, last = ['{"actions":['], opinions(GROUPS - 1)
    between = [(opinions(at), opinions(at + 1), 3.0) for at in range(GROUPS - 1)]
    answer = [(begin, opinions(0), 3.0), *between, (last, ["</s>"], 3.0)]
    if kind == "opinionated":
        return [(["<assistant>"], begin, 3.0), *answer]
    stammer = begin[0] + opinions(0)[0].split("so")[0]
    prose = ["Sure. " + begin[0]]
    first = [(["<assistant>"], prose, 6.0), (["<assistant>"], [stammer], 3.0)]
    return [*first, (prose, opinions(0), 3.0), *answer]


def vocabulary(kind):
    """Pieces with their types: special ones, all bytes, and what answers are made of."""
    special = [("<unk>", gguf.TokenType.UNKNOWN), ("<s>", gguf.TokenType.CONTROL)]
    special += [("</s>", gguf.TokenType.CONTROL), ("<assistant>", gguf.TokenType.USER_DEFINED)]
    letters = [(f"<0x{byte:02X}>", gguf.TokenType.BYTE) for byte in range(256)]
    pieces = {piece for before, after, _ in steps(kind) for piece in before + after}
    pieces -= {piece for piece, _ in special}
    return special + letters + [(piece, gguf.TokenType.NORMAL) for piece in sorted(pieces)]


def write_model(path, kind, seed):
    tokens = vocabulary(kind)
    place = {piece: at for at, (piece, _) in enumerate(tokens)}
    width = -(-len(tokens) // 64) * 64
    random = numpy.random.default_rng(seed)

    def noise(rows, columns, scale):
        return (random.standard_normal((rows, columns)) * scale).astype(numpy.float32)

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(width // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([piece for piece, _ in tokens])
    writer.add_token_scores([-float(at) for at in range(len(tokens))])
    writer.add_token_types([type_ for _, type_ in tokens])
    writer.add_unk_token_id(place["<unk>"])
    writer.add_bos_token_id(place["<s>"])
    writer.add_eos_token_id(place["</s>"])
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)

    embedding = numpy.zeros((len(tokens), width), dtype=numpy.float32)
    numpy.fill_diagonal(embedding, 1.0)
    # The norm makes the last token's axis the square root of the width: about 18.
    output = noise(len(tokens), width, 0.2)
    for before, after, strength in steps(kind):
        for one in before:
            for other in after:
                output[place[other], place[one]] += strength
    ones = numpy.ones(width, dtype=numpy.float32)
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output.weight", output)
    for name in ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"]:
        writer.add_tensor(f"{name}.weight", ones)
    for name in ["attn_q", "attn_k"]:
        writer.add_tensor(f"blk.0.{name}.weight", noise(width, width, 0.1))
    for name in ["attn_v", "attn_output"]:
        writer.add_tensor(f"blk.0.{name}.weight", noise(width, width, 0.02))
    writer.add_tensor("blk.0.ffn_gate.weight", noise(FEED_FORWARD, width, 0.03))
    writer.add_tensor("blk.0.ffn_up.weight", noise(FEED_FORWARD, width, 0.03))
    writer.add_tensor("blk.0.ffn_down.weight", noise(width, FEED_FORWARD, 0.03))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def serve(path):
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = CONTEXT
    params.n_predict = ANSWER_TOKENS_MAX
    params.n_parallel = 1
    params.n_gpu_layers = 0
    params.warmup = False
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(f"listening {server.listening_address}", flush=True)
    sys.stdin.read()
    del server


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in KINDS:
        sys.exit(__doc__)
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else SEED
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.gguf"
        write_model(path, sys.argv[1], seed)
        serve(path)


if __name__ == "__main__":
    main()
