"""A model directory to serve with --load-format dummy where no checkpoint can be had: a configuration and a tokenizer
whose every token is a word, so that answers show their tokens.

    python tools/make_dummy_model.py CONFIG.json OUT

Needs nothing. Words are w0, w1, ... up to the configuration's vocabulary; a text is its words, parted by spaces.
"""

import json
import os
import sys

config = json.load(open(sys.argv[1]))
out = sys.argv[2]
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
