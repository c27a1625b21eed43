"""Sends random load to a server, with clients that disconnect, and checks every answer and the server's state.

    python tools/soak.py URL SECONDS [CLIENTS] [WORDS] [TOKENS] [--malformed FRACTION] [--exact] [--seed N]
        [--result FILE]

CLIENTS clients at a time send prompts of up to WORDS words to a model of tools/make_dummy_model.py and request up to
TOKENS tokens. A tenth of them disconnects in the middle, a tenth requests log-probabilities, some sample with a seed.
Afterwards the server must be idle, with both KV pools empty. /health must answer 200 all the time.

Prints what it counted; the exit status is 0 if nothing went wrong. Needs the standard library only.
"""

import argparse
import asyncio
import collections
import json
import random
import re
import sys
import time
import urllib.parse
import urllib.request

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("url", help="the server's address")
parser.add_argument("seconds", type=float)
parser.add_argument("clients", type=int, nargs="?", default=64, help="clients at a time (%(default)s)")
parser.add_argument("words", type=int, nargs="?", default=600, help="maximum words per prompt (%(default)s)")
parser.add_argument("tokens", type=int, nargs="?", default=200, help="maximum tokens per answer (%(default)s)")
parser.add_argument("--malformed", type=float, default=0,
                    help="fraction of requests with a wrong field or wrong bytes; the server must answer each with a "
                         "4xx or close the connection, never answer with a 5xx")
parser.add_argument("--exact", action="store_true",
                    help="a quarter of the requests repeat one of 24 that ran alone at the start, and must get the "
                         "same text; only for executors that promise this, such as the CPU's")
parser.add_argument("--seed", type=int, default=int(time.time()))
parser.add_argument("--result", help="file to which a line of JSON is appended")
options = parser.parse_args()
url = urllib.parse.urlsplit(options.url)
seconds, clients, words, tokens, seed = options.seconds, options.clients, options.words, options.tokens, options.seed
dice = random.Random(seed)
counts = collections.Counter()
rejected = collections.Counter()
problems = []
health_seconds = []
alone = []
ENDS = {"length", "stop"}


def metrics():
    text = urllib.request.urlopen(f"http://{url.netloc}/metrics", timeout=20).read().decode()
    values = collections.Counter()
    for name, value in re.findall(r"^([a-z_:]+)(?:\{[^}]*\})? ([-+0-9.eE]+)", text, re.M):
        values[name] += float(value)
    return values


async def ask(body, leave_after):
    reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=1 << 22)
    payload = json.dumps(body).encode()
    writer.write(f"POST /v1/completions HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\n"
                 f"Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n".encode() + payload)
    await writer.drain()
    text, end, usage, status, seen = "", None, None, None, 0
    try:
        status = int((await reader.readline()).split()[1])
        async for line in reader:
            if not line.startswith(b"data: "):
                if status != 200 and line.startswith(b"{"):
                    text += line.decode()
                continue
            if line.startswith(b"data: [DONE]"):
                break
            chunk = json.loads(line[6:])
            if "error" in chunk:
                return status, text, "error: " + chunk["error"]["message"], usage
            for choice in chunk["choices"]:
                text += choice["text"]
                end = choice["finish_reason"] or end
                seen += 1
            usage = chunk.get("usage") or usage
            if leave_after and seen >= leave_after:
                return status, text, "left", usage
    finally:
        writer.close()
    return status, text, end, usage


WRONG_FIELDS = [
    {"prompt": ""}, {"prompt": 5}, {"prompt": []}, {"prompt": [[]]}, {"prompt": [-1]}, {"prompt": [10**9]},
    {"prompt": None}, {"prompt": "w5 " * 20000}, {"max_tokens": 0}, {"max_tokens": -1}, {"max_tokens": 1.5},
    {"max_tokens": "x"}, {"max_tokens": 10**12}, {"temperature": -1}, {"temperature": 1e300}, {"temperature": "hot"},
    {"top_p": 0}, {"top_p": 1.0001}, {"top_k": -2}, {"min_p": 2}, {"repetition_penalty": 0},
    {"repetition_penalty": -1}, {"presence_penalty": 3}, {"frequency_penalty": -3}, {"n": 0}, {"n": 10**6},
    {"n": "1"}, {"seed": 1.5}, {"seed": "x"}, {"stop": [1]}, {"stop": ["x"] * 100000}, {"stop": {"a": 1}},
    {"stop_token_ids": [10**9]}, {"stop_token_ids": "x"}, {"logit_bias": {"x": 1}}, {"logit_bias": {"-1": 1}},
    {"logit_bias": []}, {"logprobs": -5}, {"logprobs": 10**6}, {"min_tokens": -1}, {"stream": "yes"},
    {"stream_options": 5}, {"model": "another"}, {"model": 5}, {"guided_json": {"type": "object"}}, {"suffix": "x"},
    {"best_of": 5}, {"priority": "x"},
]
# extreme but valid: must be answered with 200
EXTREME_FIELDS = [
    {"temperature": 1e-300, "top_p": 0.9}, {"temperature": 2e-39, "top_p": 0.5}, {"temperature": 2, "top_p": 1e-9},
    {"min_p": 1}, {"top_k": 1}, {"top_k": 2**31 - 1}, {"frequency_penalty": 2, "presence_penalty": 2},
    {"frequency_penalty": -2, "presence_penalty": -2}, {"logit_bias": {"5": 100, "6": -100}}, {"seed": 2**63 - 1},
    {"seed": -(2**63)}, {"stop": ["w1 ", "w2 ", "w3 ", "w4 "]}, {"min_tokens": 3, "stop_token_ids": list(range(100))},
    {"repetition_penalty": 2},
]
WRONG_BYTES = [
    b"\x00" * 50, b"GARBAGE\r\n\r\n", b"POST /v1/completions HTTP/9.9\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100000 + b"\r\n\r\n",
    b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"DELETE /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n"
    b"\r\n{\"prompt\"",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
]
WRONG_JSON = [
    b"", b"{", b"[1]", b"null", b"\xff\xfe", b'{"prompt": "w5", "temperature": NaN}',
    b'{"prompt": ' + b"[" * 5000 + b"]" * 5000 + b"}", b'"x"', b'{"prompt": "\ud800"', b"{}",
]


async def send(data, wait):
    """Returns the answer's status; 0 if the server closes without one, or if `wait` is false."""
    reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=1 << 22)
    try:
        writer.write(data)
        await writer.drain()
        if not wait:
            return 0
        line = await asyncio.wait_for(reader.readline(), 60)
        return int(line.split()[1]) if line.startswith(b"HTTP/") else 0
    except (ConnectionResetError, BrokenPipeError):
        return 0
    finally:
        writer.close()


def post(payload):
    return (f"POST /v1/completions HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n").encode() + payload


def post_fields(fields):
    return post(json.dumps({"model": model, "prompt": "w5 w6", "max_tokens": 4} | fields).encode())


async def malformed():
    kind = dice.randrange(4)
    if kind == 0:
        fields = dice.choice(WRONG_FIELDS)
        name, data, valid = str(fields)[:80], post_fields(fields), False
    elif kind == 1:
        fields = dice.choice(EXTREME_FIELDS)
        name, data, valid = str(fields)[:80], post_fields(fields), True
    elif kind == 2:
        json_bytes = dice.choice(WRONG_JSON)
        name, data, valid = f"body {json_bytes[:60]}", post(json_bytes), False
    else:
        data = dice.choice(WRONG_BYTES)
        name, valid = f"bytes {data[:60]}", False
    half = dice.random() < 0.2
    waits = not half and b"100000\r\n\r\n{" not in data and not data.startswith((b"\x00", b"\x16"))
    status = await send(data[:dice.randint(1, len(data))] if half else data, waits)
    rejected["half sent" if half else status] += 1
    if waits and (status >= 500 or valid and status != 200 or not valid and status == 200):
        problems.append(f"{name}: status {status}")


def random_prompt(count):
    return " ".join(f"w{dice.randint(3, 299)}" for _ in range(count))


async def ask_again():
    body, expected = dice.choice(alone)
    status, text, end, _ = await asyncio.wait_for(ask(body, 0), 300)
    counts["compared"] += 1
    if (status, text, end) != expected:
        problems.append(f"{body['prompt'][:40]} alone {expected}, among others {(status, text, end)}")


async def ask_alone():
    for i in range(24):
        prompt = random_prompt(dice.randint(1, words // 4 + 1))
        body = {"model": model, "prompt": prompt, "max_tokens": dice.randint(1, tokens), "ignore_eos": True,
                "stream": True, "temperature": 0 if i % 2 else 0.9, "seed": dice.randint(0, 1 << 30),
                "stream_options": {"include_usage": True}}
        status, text, end, _ = await ask(body, 0)
        alone.append((body, (status, text, end)))


async def watch_health(until):
    while time.time() < until:
        began = time.time()
        status = await send(f"GET /health HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n\r\n".encode(), True)
        health_seconds.append(time.time() - began)
        if status != 200:
            problems.append(f"/health: status {status}")
            return
        await asyncio.sleep(0.2)


async def client(until):
    while time.time() < until and len(problems) < 100:
        kind = dice.random()
        if kind < options.malformed or options.exact and kind > 0.75:
            try:
                await (malformed() if kind < options.malformed else ask_again())
            except Exception as e:
                problems.append(f"{'malformed' if kind < options.malformed else 'repeated'}: {type(e).__name__} {e}")
            continue
        count = dice.randint(1, dice.choice([20, words]))
        wanted = dice.randint(1, dice.choice([16, tokens]))
        greedy = dice.random() < 0.7
        body = {"model": model, "prompt": random_prompt(count), "max_tokens": wanted, "ignore_eos": True,
                "stream": True, "temperature": 0 if greedy else 0.8, "stream_options": {"include_usage": True}}
        if not greedy:
            body["seed"] = dice.randint(0, 1 << 30)
        if dice.random() < 0.1:
            body["logprobs"] = 2
        leave = dice.randint(1, wanted) if dice.random() < 0.1 else 0
        try:
            status, text, end, usage = await asyncio.wait_for(ask(body, leave), 300)
        except Exception as e:
            counts["broken"] += 1
            problems.append(f"{count} words, {wanted} tokens: {type(e).__name__} {e}")
            continue
        counts["requests"] += 1
        counts[end if end is None or not end.startswith("error") else "errors"] += 1
        if status == 200 and end in ENDS:
            if usage is None or usage["completion_tokens"] != wanted or usage["prompt_tokens"] != count:
                problems.append(f"{count} words, {wanted} tokens: usage {usage}")
        elif end != "left":
            problems.append(f"{count} words, {wanted} tokens: status {status}, {end} {text[:200]}")
        counts["tokens"] += usage["completion_tokens"] if usage else 0


async def main():
    if options.exact:
        await ask_alone()
    until = time.time() + seconds
    await asyncio.gather(watch_health(until), *(client(until) for _ in range(clients)))


model = json.load(urllib.request.urlopen(f"http://{url.netloc}/v1/models", timeout=20))["data"][0]["id"]
asyncio.run(main())
for _ in range(60):
    left = metrics()
    if left["vllm:num_requests_running"] + left["vllm:num_requests_waiting"] == 0:
        break
    time.sleep(0.5)
for name in ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
             "tandem:host_kv_cache_usage_perc", "tandem:in_flight_tokens"):
    if name not in left:
        problems.append(f"{name} is not among the metrics")
    elif left[name] != 0:
        problems.append(f"afterwards {name} is {left[name]}")
health = urllib.request.urlopen(f"http://{url.netloc}/health", timeout=20).read().decode()
SHOWN = re.compile(r"tandem:(shadow_verification.*_(sum|count)|host_decode_tokens|offloading|guard_losses|host_lost)"
                   r"|vllm:num_preempt")
shown = {name: left[name] for name in left if SHOWN.match(name)}
print(f"seed {seed}; {dict(counts)}; {shown}; health {health.strip()}")
health_seconds.sort()
p99 = round(1e3 * health_seconds[len(health_seconds) * 99 // 100], 1) if health_seconds else None
print(f"malformed by status (0: closed without an answer): {dict(rejected)}; /health p99 {p99} ms")
print(f"{len(problems)} problems")
if options.result:
    with open(options.result, "a") as file:
        summary = {"soak": "http", "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "seed": seed,
                   "seconds": seconds, "clients": clients, "counts": {str(k): v for k, v in counts.items()},
                   "malformed": {str(k): v for k, v in rejected.items()}, "health_p99_ms": p99,
                   "problems": len(problems)}
        file.write(json.dumps(summary) + "\n")
for problem in problems[:20]:
    print(" ", problem)
sys.exit(1 if problems else 0)
