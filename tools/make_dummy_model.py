"""Makes a model directory without weights, to be served with --load-format dummy: a configuration and a tokenizer.

Each token of the tokenizer is one word, w0, w1, ... up to the vocabulary's size, so that answers show their tokens.
Words are separated by spaces. Needs the standard library only.
"""

import argparse
import json
import os

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("config", help="config.json of a model")
parser.add_argument("out", help="the directory to write")
arguments = parser.parse_args()
config = json.load(open(arguments.config))
out = arguments.out
os.makedirs(out, exist_ok=True)
json.dump(config, open(os.path.join(out, "config.json"), "w"), indent=1)
vocabulary = {f"w{i}": i for i in range(config["vocab_size"])}
json.dump({
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
    "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
    "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "w0"},
}, open(os.path.join(out, "tokenizer.json"), "w"))
json.dump({
    "bos_token": "w1", "eos_token": "w2", "unk_token": "w0", "tokenizer_class": "PreTrainedTokenizerFast",
    "chat_template": "{% for m in messages %}{{ m['content'] }} {% endfor %}",
}, open(os.path.join(out, "tokenizer_config.json"), "w"))
