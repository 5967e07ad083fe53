"""Makes tiny random sequence classifiers of each kind, with the probabilities that transformers computes for some pairs.

    pip install torch transformers safetensors tokenizers
    python3 bench/guard/nli_models.py pipeline/tests_data/nli        # the models of the tests
    python3 bench/guard/nli_models.py FOLDER --size small|base --tokenizer FILE   # a model to be timed

``FILE`` is a ``tokenizer.json`` with up to 30,522 pieces, such as that of all-MiniLM-L6-v2; without it each letter is a token.

The weights are random and mean nothing: they show that memfold computes what another implementation computes.
"""

import argparse
import inspect
import json
import pathlib

import torch

if not hasattr(torch, "compile"):
    # ModernBERT asks for it when it is imported; it changes speed alone.
    torch.compile = lambda function=None, **_: function if function else lambda made: made

if "bias" not in inspect.signature(torch.nn.LayerNorm.__init__).parameters:
    class LayerNorm(torch.nn.LayerNorm):
        """That of later versions, which may have no bias."""

        def __init__(self, size, eps=1e-5, elementwise_affine=True, bias=True):
            super().__init__(size, eps, elementwise_affine)
            if not bias:
                self.bias = None

    torch.nn.LayerNorm = LayerNorm

import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    BertConfig, BertForSequenceClassification,
    DebertaV2Config, DebertaV2ForSequenceClassification,
    ModernBertConfig, ModernBertForSequenceClassification,
)

PAIRS = [
    ["The gateway listens on port 8080.", "Port 8080 is where the gateway listens."],
    ["Port 8080 is where the gateway listens.", "The gateway listens on port 8080."],
    ["Ines sends out the invoices every Friday.", "Invoices are sent out by Ines on Fridays."],
    ["The backup runs at night.", "The backup does not run at night."],
    ["Short.", "A text that is a good deal longer than the other one, so that rows of a batch are filled up."],
    ["the the the the the the the the the the the the the the the the the the the the the the the the",
     "the the the the the the the the the the the the the the the the the the the the the the the the"],
]
LABELS = {"id2label": {0: "contradiction", 1: "entailment", 2: "neutral"},
          "label2id": {"contradiction": 0, "entailment": 1, "neutral": 2}}
SIZES = {"small": (384, 6, 12, 1536), "base": (768, 12, 12, 3072)}


def tokenizer(vocabulary_size):
    words = sorted({word for pair in PAIRS for text in pair for word in split(text)})
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,-'"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + letter for letter in letters)]
    tokens += [word for word in words if word not in tokens]
    assert len(tokens) <= vocabulary_size, len(tokens)
    vocabulary = {token: at for at, token in enumerate(tokens)}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])])
    return made


def split(text):
    for sign in ".,-":
        text = text.replace(sign, f" {sign} ")
    return text.lower().split()


def classifier(kind, vocabulary, size, layers, heads, inner, positions):
    same = dict(vocab_size=vocabulary, hidden_size=size, num_hidden_layers=layers, num_attention_heads=heads,
                intermediate_size=inner, max_position_embeddings=positions, pad_token_id=0, **LABELS)
    if kind == "bert":
        return BertForSequenceClassification(BertConfig(**same))
    if kind == "deberta":
        config = DebertaV2Config(
            **same, relative_attention=True, position_buckets=8, max_relative_positions=-1, norm_rel_ebd="layer_norm",
            share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False, type_vocab_size=0,
            pooler_hidden_size=size, pooler_dropout=0.0, pooler_hidden_act="gelu")
        return DebertaV2ForSequenceClassification(config)
    config = ModernBertConfig(
        **same, norm_eps=1e-5, layer_norm_eps=1e-5, global_attn_every_n_layers=2, local_attention=8, classifier_pooling="mean",
        cls_token_id=2, sep_token_id=3, bos_token_id=2, eos_token_id=3, attn_implementation="eager",
        reference_compile=False)
    return ModernBertForSequenceClassification(config)


def save(folder, kind, shape, vocabulary, positions, tokens):
    torch.manual_seed(7)
    model = classifier(kind, vocabulary, *shape, positions).eval()
    # The initial weights are so small that all pairs would look alike.
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.mul_(6.0 if kind == "modernbert" else 30.0)
            elif name.endswith("bias"):
                weight.normal_(std=0.2)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder, safe_serialization=True)
    tokens.save(str(folder / "tokenizer.json"))
    return model


def expected(model, tokens, limit):
    rows = []
    for one, other in PAIRS:
        tokens.enable_truncation(limit)
        encoding = tokens.encode(one, other)
        given = {"input_ids": torch.tensor([encoding.ids]), "attention_mask": torch.tensor([encoding.attention_mask])}
        if model.config.model_type != "modernbert":
            given["token_type_ids"] = torch.tensor([encoding.type_ids])
        with torch.no_grad():
            logits = model(**given).logits[0]
        contradiction, entailment, _ = torch.softmax(logits.double(), -1).tolist()
        rows.append({"texts": [one, other], "entailment": entailment, "contradiction": contradiction})
    tokens.no_truncation()
    return {"made_by": f"transformers {transformers.__version__}, torch {torch.__version__}", "pairs": rows}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--size", choices=SIZES)
    parser.add_argument("--tokenizer")
    given = parser.parse_args()
    if given.size:
        tokens = Tokenizer.from_file(given.tokenizer) if given.tokenizer else tokenizer(30_522)
        save(given.folder, "bert", SIZES[given.size], 30_522, 512, tokens)
        return
    for kind in ["bert", "deberta", "modernbert"]:
        tokens, positions = tokenizer(160), 48
        folder = given.folder / kind
        model = save(folder, kind, (16, 2, 2, 24), 160, positions, tokens)
        text = json.dumps(expected(model, tokens, positions), indent=1)
        (folder / "expected.json").write_text(text + "\n")


main()
