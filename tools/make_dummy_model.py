"""Makes a model directory without weights, to be served with --load-format dummy: a configuration and a tokenizer.

Each token of the tokenizer is one word, w0, w1, ... up to the vocabulary's size, so that answers show their tokens.
A vocabulary of 2,000 words or more has, in place of those from w1000 on, the words of which `tandem bench serve` makes
texts: else all of these would be the unknown word, and all prompts of conversations equal.
Words are separated by spaces. Needs the standard library only.
"""

import argparse
import json
import os
import pathlib
import re

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("config", help="config.json of a model")
parser.add_argument("out", help="the directory to write")
arguments = parser.parse_args()
config = json.load(open(arguments.config))
out = arguments.out
os.makedirs(out, exist_ok=True)
json.dump(config, open(os.path.join(out, "config.json"), "w"), indent=1)
names = [f"w{i}" for i in range(config["vocab_size"])]
if len(names) >= 2000:
    prompts = pathlib.Path(__file__).parents[1] / "bench/src/main/java/dev/tandem/bench/load/http/Prompts.java"
    literals = re.search(r"WORDS =(.*?)\.split", prompts.read_text(), re.S).group(1)
    words = "".join(re.findall(r'"([^"]*)"', literals)).split()
    names[1000:1000 + len(words)] = words
vocabulary = {name: i for i, name in enumerate(names)}
json.dump({
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
    "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
    "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "w0"},
}, open(os.path.join(out, "tokenizer.json"), "w"))
json.dump({
    "bos_token": "w1", "eos_token": "w2", "unk_token": "w0", "tokenizer_class": "PreTrainedTokenizerFast",
    "chat_template": "{% for m in messages %}{{ m['content'] }} {% endfor %}",
}, open(os.path.join(out, "tokenizer_config.json"), "w"))
