"""Tokenizes texts by Google's sentencepiece: the reference for SentencePiece vocabularies of GGUF files.

    python tools/make_token_goldens.py MODEL.gguf > app/src/test/resources/gemma3-270m/tokens.json
    python tools/make_token_goldens.py --small > text/src/test/resources/sentencepiece.json

The first line takes the vocabulary of a file, the second one of 300 tokens, which it prints too. Control tokens are
found in the text, as Tandem and transformers find them; sentencepiece alone takes them for text. Needs sentencepiece,
protobuf, and for files gguf.
"""

import argparse
import json

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as model

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
TEXTS = [
    "The capital of France is",
    " a leading space",
    "a trailing space ",
    "two  spaces,   three,     five",
    "31 spaces:" + " " * 31 + "end",
    "70 spaces:" + " " * 70 + "end",
    "   ",
    "",
    "line\nbreak",
    "paragraph\n\nand\n\n\n\nfour",
    "many" + "\n" * 40 + "lines",
    "windows\r\nlines\r\n",
    "\ttab\t\ttwo\t\t\tthree",
    "space before a line break \n and after it \n\n  x",
    "def f(x):\n    if x > 1:\n        return f(x - 1) * x\n    return 1\n",
    "for (int i = 0; i < n; i++) {\n\tsum += a[i];\n}",
    '{"name": "value", "list": [1, 2.5, -3e10, null]}',
    "3.14159 1000000 2026-11-25",
    "Übergrößenträger: äöüß ÄÖÜ",
    "naïve café, São Paulo, Łódź, İstanbul",
    "Привет, мир! Καλημέρα κόσμε",
    "日本語のテキスト。你好，世界！안녕하세요",
    "مرحبا بالعالم שלום עולם हिन्दी ไทย",
    "emoji: 🦙🙂 👨\u200d👩\u200d👧\u200d👦 🇩🇪 👍🏽",
    "bytes: 𒀀 \U000e0041 \ue000 \u0378",
    "control: \x01\x02\x7f",
    "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n",
    "<table><tr><td>a</td></tr></table> <b>bold</b><strong>",
    "<start_of_image> [multimodal] <unused7> <pad>",
    "<0x41> <0x0A> is text",
    "a" * 39,
    "https://example.org/a_b-c?d=e&f=%20#g",
    "e\u0301 is not \u00e9; \u2009thin\u00a0space",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "!!!???...---===***",
]
SMALL_TEXTS = [
    "ab  ab", "a     b", " a ", "\n\n\nab\n", "a \n b", "\t a", "<b>ab</b>", "<0x41>", "aaaaa", "ä🙂", "<turn>ab"]


def small():
    """A vocabulary in which runs of spaces and breaks are tokens, and the bytes' spellings could be merged."""
    tokens = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("<turn>", CONTROL)]
    tokens += [(text, USER_DEFINED) for text in ("\n", "\n\n", "  ", "   ", "    ", "\t", "<b>")]
    tokens += [(f"<0x{byte:02X}>", BYTE) for byte in range(256)]
    pieces = ["ab", "aa", "▁a", "▁ab", "<0", "x4", "1>", "<0x4", "aaa", "▁", *"ab<>0x41/"]
    tokens += [(piece, NORMAL) for piece in pieces]
    first = len(tokens) - len(pieces)
    return [(token, kind, float(min(0, first - id))) for id, (token, kind) in enumerate(tokens)]


def of_file(path):
    import gguf

    fields = gguf.GGUFReader(path).fields
    parts = (fields["tokenizer.ggml." + name].contents() for name in ("tokens", "token_type", "scores"))
    return list(zip(*parts))


def processor(tokens):
    proto = model.ModelProto()
    kinds = model.ModelProto.SentencePiece
    for token, kind, score in tokens:
        # files hold plain spaces in user-defined tokens
        proto.pieces.add(
            piece=token.replace(" ", "▁") if kind == USER_DEFINED else token,
            score=score,
            type={NORMAL: kinds.NORMAL, BYTE: kinds.BYTE, UNKNOWN: kinds.UNKNOWN}.get(kind, kinds.USER_DEFINED))
    spellings = [token for token, _, _ in tokens]
    if "<unk>" in spellings:
        proto.pieces[spellings.index("<unk>")].type = kinds.UNKNOWN
    proto.trainer_spec.model_type = model.TrainerSpec.BPE
    proto.trainer_spec.byte_fallback = True
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = False
    proto.normalizer_spec.remove_extra_whitespaces = False
    return sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("file", nargs="?", metavar="MODEL.gguf")
    source.add_argument("--small", action="store_true")
    options = parser.parse_args()
    tokens = small() if options.small else of_file(options.file)
    encoder = processor(tokens)
    cases = [{"text": text, "tokens": encoder.encode(text)} for text in (SMALL_TEXTS if options.small else TEXTS)]
    lines = ",\n".join(json.dumps(case) for case in cases)
    vocabulary = f'"vocabulary": {json.dumps(tokens)},\n' if options.small else ""
    print(f'{{{vocabulary}"cases": [\n{lines}]}}')


if __name__ == "__main__":
    main()
