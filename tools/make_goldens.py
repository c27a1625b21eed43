"""Makes reference values for the tests with Hugging Face transformers, in fp32 on the CPU.

    python tools/make_goldens.py families OUT [NAME ...] small random models of every family: logits, greedy tokens
    python tools/make_goldens.py default MODEL.gguf OUT  the default model, for a dozen prompts
    python tools/make_goldens.py real MODEL.gguf OUT     another model: 32 greedy tokens of four prompts, no logits
    python tools/make_goldens.py long MODEL.gguf OUT     32 greedy tokens after a prompt longer than a sliding window

Needs torch, transformers and the gguf package. Files written:
  OUT/NAME/{config.json, *.safetensors, ...}   a model directory (families only)
  OUT/NAME/model.gguf                          the same model as GGUF, where GGUF has its family (families only)
  OUT/NAME/golden.json                         the prompt and its greedy continuation
  OUT/NAME/logits.bin                          fp32, little-endian: [positions, vocabulary]
"""

import argparse
import json
import math
import os

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

torch.set_grad_enabled(False)


GGUF = ("qwen25", "qwen3small", "phi3", "phi4mini", "phi4long", "olmo2", "smollm3", "mistralwindow",
        "olmo3", "gemma3")
ARCHITECTURES = {"mistral": "llama", "olmo3": "olmo2", "gemma3_text": "gemma3"}


def families():
    from transformers import (Gemma3Config, Gemma3TextConfig, LlamaConfig, MistralConfig, Olmo2Config, Olmo3Config,
                              Phi3Config, Qwen2Config, Qwen3Config, SmolLM3Config)

    common = dict(vocab_size=301, num_hidden_layers=2, max_position_embeddings=256, bos_token_id=1, eos_token_id=2)
    llama3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=32)
    plain = dict(rope_type="default", rope_theta=10000.0)
    pad = dict(pad_token_id=0)
    yarn = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64,
                attention_factor=1.1386294361119891, beta_fast=32.0, beta_slow=1.0)
    longrope = dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75,
                    short_factor=[1.0 + 0.05 * i for i in range(6)], long_factor=[1.5 + i for i in range(6)])
    return {
        "llama2": (LlamaConfig(**common, hidden_size=64, num_attention_heads=4, num_key_value_heads=4,
                               intermediate_size=100, rope_parameters=plain), torch.float32, None),
        "llama31": (LlamaConfig(**common, hidden_size=96, num_attention_heads=6, num_key_value_heads=2, head_dim=16,
                                intermediate_size=150, rope_parameters=llama3), torch.float32, "100KB"),
        "llama32": (LlamaConfig(**common, hidden_size=64, num_attention_heads=8, num_key_value_heads=2,
                                intermediate_size=132, tie_word_embeddings=True, rope_parameters=llama3),
                    torch.bfloat16, None),
        "mistral": (MistralConfig(**common, hidden_size=72, num_attention_heads=3, num_key_value_heads=1, head_dim=24,
                                  intermediate_size=90, sliding_window=None, rope_parameters=plain),
                    torch.float16, None),
        "qwen2": (Qwen2Config(**common, hidden_size=64, num_attention_heads=4, num_key_value_heads=2,
                              intermediate_size=120, tie_word_embeddings=True, rope_parameters=plain),
                  torch.float32, None),
        "qwen3": (Qwen3Config(**common, hidden_size=48, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
                              intermediate_size=110, rope_parameters=plain), torch.bfloat16, None),
        "qwen25": (Qwen2Config(**common, hidden_size=56, num_attention_heads=7, num_key_value_heads=1,
                               intermediate_size=70, tie_word_embeddings=True, rope_parameters=plain),
                   torch.bfloat16, None),
        "qwen3small": (Qwen3Config(**common, hidden_size=32, num_attention_heads=6, num_key_value_heads=1,
                                   head_dim=16, intermediate_size=60, rope_parameters=plain), torch.bfloat16, None),
        "phi3": (Phi3Config(**common, **pad, hidden_size=32, num_attention_heads=2, num_key_value_heads=1,
                            intermediate_size=60, sliding_window=None, rope_parameters=plain), torch.bfloat16, None),
        "phi4mini": (Phi3Config(**{**common, "max_position_embeddings": 1024}, **pad, hidden_size=48,
                                num_attention_heads=3, num_key_value_heads=1, intermediate_size=60,
                                sliding_window=None, tie_word_embeddings=True, rope_parameters=longrope,
                                original_max_position_embeddings=256), torch.bfloat16, None),
        "olmo2": (Olmo2Config(**common, **pad, hidden_size=32, num_attention_heads=4, num_key_value_heads=2,
                              intermediate_size=60, rope_parameters=plain), torch.bfloat16, None),
        "smollm3": (SmolLM3Config(**{**common, "num_hidden_layers": 5}, **pad, hidden_size=32, num_attention_heads=4,
                                  num_key_value_heads=2, intermediate_size=60, rope_parameters=plain),
                    torch.bfloat16, None),
        # prompts have 40 tokens: longer than each window, and windows are no multiples of a block
        "mistralwindow": (MistralConfig(**common, hidden_size=32, num_attention_heads=4, num_key_value_heads=2,
                                        head_dim=16, intermediate_size=60, sliding_window=11, rope_parameters=plain),
                          torch.bfloat16, None),
        "olmo3": (Olmo3Config(**{**common, "num_hidden_layers": 5}, **pad, hidden_size=32, num_attention_heads=4,
                              num_key_value_heads=2, intermediate_size=60, sliding_window=7,
                              rope_parameters=dict(sliding_attention=plain, full_attention=yarn)),
                  torch.bfloat16, None),
        "gemma3": (Gemma3TextConfig(**{**common, "num_hidden_layers": 7}, **pad, hidden_size=32,
                                    num_attention_heads=2, num_key_value_heads=1, head_dim=16,
                                    query_pre_attn_scalar=16, intermediate_size=60, sliding_window=20,
                                    rope_parameters=dict(
                                        sliding_attention=plain,
                                        full_attention=dict(rope_type="linear", rope_theta=1e6, factor=8.0))),
                   torch.bfloat16, None),
        # the text part of a model with images; its factor of scores is not that of its heads
        "gemma3vision": (Gemma3Config(
            text_config=dict(**{**common, "num_hidden_layers": 4}, **pad, hidden_size=32, num_attention_heads=4,
                             num_key_value_heads=2, head_dim=16, query_pre_attn_scalar=24, intermediate_size=60,
                             sliding_window=12, layer_types=["sliding_attention", "full_attention"] * 2,
                             rope_parameters=dict(sliding_attention=plain,
                                                  full_attention=dict(rope_type="linear", rope_theta=1e6,
                                                                      factor=8.0))),
            vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                               image_size=8, patch_size=4),
            mm_tokens_per_image=4, image_token_index=301, boi_token_index=1, eoi_token_index=2), torch.bfloat16, None),
        # heads of a size that the host's attention has
        "olmo3wide": (Olmo3Config(**common, **pad, hidden_size=64, num_attention_heads=4, num_key_value_heads=2,
                                  intermediate_size=40, sliding_window=9,
                                  layer_types=["sliding_attention", "full_attention"],
                                  rope_parameters=dict(sliding_attention=plain, full_attention=yarn)),
                      torch.bfloat16, None),
        # prompts have 40 tokens, longer than the original context: transformers takes the long factors from the start
        "phi4long": (Phi3Config(**common, **pad, hidden_size=48, num_attention_heads=3, num_key_value_heads=1,
                                intermediate_size=60, sliding_window=36, tie_word_embeddings=True,
                                rope_parameters=dict(longrope), original_max_position_embeddings=32), torch.bfloat16,
                     None),
    }


def write_gguf(model, folder):
    """Writes the model as GGUF, by the names and row orders of the format's own converter."""
    import gguf

    config = model.config
    arch = ARCHITECTURES.get(config.model_type, config.model_type)
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    rope = config.rope_parameters.get("full_attention", config.rope_parameters)
    writer = gguf.GGUFWriter(os.path.join(folder, "model.gguf"), arch)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(int(head_dim * rope.get("partial_rotary_factor", 1)))
    writer.add_vocab_size(config.vocab_size)
    window = getattr(config, "sliding_window", None)
    if window:
        writer.add_sliding_window(window)
    if window and arch == "olmo2":
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_attn_factors(rope["attention_factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if rope["rope_type"] == "longrope":
        original = config.original_max_position_embeddings
        scale = config.max_position_embeddings / original
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(scale) / math.log(original)))
        for kind in ("short", "long"):
            factors = np.array(rope[kind + "_factor"], dtype=np.float32)
            writer.add_tensor(f"rope_factors_{kind}.weight", factors)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"t{i}" for i in range(config.vocab_size)])
    writer.add_token_types([1] * config.vocab_size)
    writer.add_token_merges([])
    writer.add_eos_token_id(config.eos_token_id)
    architecture = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == arch)
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    for name, value in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if arch in ("llama", "smollm3") and (".q_proj." in name or ".k_proj." in name):
            count = heads if ".q_proj." in name else kv_heads
            value = value.reshape(count, 2, head_dim // 2, *value.shape[1:]).transpose(1, 2).reshape(value.shape)
        stored = value.to(torch.float32).contiguous().numpy()
        if arch == "gemma3" and "norm" in name:
            stored = stored + 1
        kind = gguf.GGMLQuantizationType.F32
        if value.ndim > 1 and value.dtype == torch.bfloat16:
            kind = gguf.GGMLQuantizationType.BF16
            stored = gguf.quants.quantize(stored, kind)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), stored, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def randomise(model, seed):
    """Sets larger weights than usual, also of biases and norms, so that rounding does not change greedy tokens."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if "norm" in name:
            parameter.copy_((0 if model.config.model_type.startswith("gemma") else 1) + 0.2 * noise)
        elif name.endswith("bias"):
            parameter.copy_(0.3 * noise)
        else:
            parameter.copy_(noise * (1.5 / parameter.shape[-1] ** 0.5))


def greedy(model, prompt, count):
    tokens, cache, step = [], None, torch.tensor([prompt])
    for _ in range(count):
        result = model(step, past_key_values=cache, use_cache=True)
        cache = result.past_key_values
        tokens.append(int(result.logits[0, -1].argmax()))
        step = torch.tensor([[tokens[-1]]])
    return tokens


def save(folder, logits, values):
    os.makedirs(folder, exist_ok=True)
    logits.to(torch.float32).contiguous().numpy().astype("<f4").tofile(os.path.join(folder, "logits.bin"))
    with open(os.path.join(folder, "golden.json"), "w") as file:
        json.dump(values, file)


def make_families(out, only):
    for number, (name, (config, dtype, shard)) in enumerate(families().items()):
        if only and name not in only:
            continue
        folder = os.path.join(out, name)
        model = AutoModelForCausalLM.from_config(config)
        randomise(model, number)
        model.to(dtype).save_pretrained(folder, **({"max_shard_size": shard} if shard else {}))
        if name in GGUF:
            write_gguf(model, folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        prompt = torch.randint(3, 301, (40,), generator=torch.Generator().manual_seed(100 + number)).tolist()
        save(folder, model(torch.tensor([prompt])).logits[0], {"prompt": prompt, "greedy": greedy(model, prompt, 64)})
        print(name, sorted(os.listdir(folder)))


PROMPTS = [
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "List three prime numbers greater than 100.",
    "Translate 'good morning' into German, Spanish and Japanese.",
    "def fibonacci(n):",
    "Explain in one sentence why the sky is blue.",
    "Once upon a time, in a land far away, there lived 12345 dragons.",
    "What's 17 * 23? Think step by step.",
    "Größe, façade, naïve, 東京, 🙂 — repeat these words.",
    "Summarise: The quick brown fox jumps over the lazy dog. The dog sleeps on.\n\nIt does not wake up.",
    "Who wrote 'Pride and Prejudice', and when was it published?",
    "Give me a JSON object with the keys name and age.",
]


def make_default(path, out):
    folder, file = os.path.split(os.path.abspath(path))
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).eval()
    for number, prompt in enumerate(PROMPTS):
        text = tokenizer.apply_chat_template([{"role": "user", "content": prompt}], tokenize=False,
                                             add_generation_prompt=True)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        save(os.path.join(out, f"prompt{number:02d}"), model(torch.tensor([ids])).logits[0, -1:],
             {"message": prompt, "text": text, "prompt": ids, "plain": tokenizer(prompt)["input_ids"],
              "greedy": greedy(model, ids, 64)})
        print(number, len(ids), repr(tokenizer.decode(greedy(model, ids, 12))))


REAL_PROMPTS = [
    "Write a Python function that returns the n-th Fibonacci number.",
    "What does `git rebase` do? Answer in one sentence.",
    "Explain the difference between a list and a tuple.",
    "Größe, façade, 東京, 🙂 — repeat these words.",
]


def make_real(path, out):
    folder, file = os.path.split(os.path.abspath(path))
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).eval()
    os.makedirs(out, exist_ok=True)
    for number, prompt in enumerate(REAL_PROMPTS):
        text = tokenizer.apply_chat_template([{"role": "user", "content": prompt}], tokenize=False,
                                             add_generation_prompt=True)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        tokens = greedy(model, ids, 32)
        with open(os.path.join(out, f"prompt{number:02d}.json"), "w") as target:
            json.dump({"message": prompt, "prompt": ids, "greedy": tokens}, target)
        print(number, len(ids), repr(tokenizer.decode(tokens)))


def make_long(path, out):
    folder, file = os.path.split(os.path.abspath(path))
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32,
                                                 attn_implementation="eager").eval()
    ships = ["Aurora", "Borealis", "Calypso", "Dorado", "Esperance"]
    text = "The harbour master's log.\n" + "".join(
        f"Day {day}: the {ships[day % 5]} left pier {day * 7 % 13} with {day * 37 % 100} crates of tea.\n"
        for day in range(1, 41)) + "Day 41: the"
    ids = tokenizer(text)["input_ids"]
    window = model.config.sliding_window
    assert len(ids) > window, f"{len(ids)} tokens, and a window of {window}"
    os.makedirs(out, exist_ok=True)
    tokens = greedy(model, ids, 32)
    with open(os.path.join(out, "long.json"), "w") as target:
        json.dump({"message": "harbour", "prompt": ids, "greedy": tokens}, target)
    print(len(ids), window, model.config.layer_types, model.config.rope_parameters, repr(tokenizer.decode(tokens)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("families")
    made.add_argument("out")
    made.add_argument("names", nargs="*")
    for name in ("default", "real", "long"):
        command = commands.add_parser(name)
        command.add_argument("model")
        command.add_argument("out")
    arguments = parser.parse_args()
    if arguments.command == "families":
        make_families(arguments.out, arguments.names)
    elif arguments.command == "real":
        make_real(arguments.model, arguments.out)
    elif arguments.command == "long":
        make_long(arguments.model, arguments.out)
    else:
        make_default(arguments.model, arguments.out)
