"""Makes reference values for the tests with Hugging Face transformers, in fp32 on the CPU.

    python tools/make_goldens.py families OUT            small random models of every family: logits, greedy tokens
    python tools/make_goldens.py default MODEL.gguf OUT  the default model, for a dozen prompts

Needs torch and transformers; `default` needs the gguf package as well. Files written:
  OUT/NAME/{config.json, *.safetensors, ...}   a model directory (families only)
  OUT/NAME/golden.json                         the prompt and its greedy continuation
  OUT/NAME/logits.bin                          fp32, little-endian: [positions, vocabulary]
"""

import argparse
import json
import os

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

torch.set_grad_enabled(False)


def families():
    from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

    common = dict(vocab_size=301, num_hidden_layers=2, max_position_embeddings=256, bos_token_id=1, eos_token_id=2)
    llama3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=32)
    plain = dict(rope_type="default", rope_theta=10000.0)
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
    }


def randomise(model, seed):
    """Sets larger weights than usual, also of biases and norms, so that rounding does not change greedy tokens."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if "norm" in name:
            parameter.copy_(1 + 0.2 * noise)
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


def make_families(out):
    for number, (name, (config, dtype, shard)) in enumerate(families().items()):
        folder = os.path.join(out, name)
        model = AutoModelForCausalLM.from_config(config)
        randomise(model, number)
        model.to(dtype).save_pretrained(folder, **({"max_shard_size": shard} if shard else {}))
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("families").add_argument("out")
    default = commands.add_parser("default")
    default.add_argument("model")
    default.add_argument("out")
    arguments = parser.parse_args()
    if arguments.command == "families":
        make_families(arguments.out)
    else:
        make_default(arguments.model, arguments.out)
