"""Random load on a server, with clients that leave: every request must end as it should, and nothing may remain.

    python tools/soak.py URL SECONDS [CLIENTS] [WORDS] [TOKENS]

CLIENTS at a time (64) send prompts of up to WORDS words (600) of a model of tools/make_dummy_model.py and ask for up to
TOKENS tokens (200); a tenth leaves in the middle, a tenth asks for log-probabilities, some draw with a seed. After
that the server must be idle, with both KV pools empty.
Prints what it counted; the exit status says whether all was well. Standard library alone.
"""

import asyncio
import collections
import json
import random
import re
import sys
import time
import urllib.parse
import urllib.request

url = urllib.parse.urlsplit(sys.argv[1])
seconds = float(sys.argv[2])
clients, words, tokens = (int(a) for a in (sys.argv[3:6] + ["64", "600", "200"][len(sys.argv[3:6]):]))
seed = int(time.time())
dice = random.Random(seed)
counts = collections.Counter()
problems = []
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


async def client(until):
    while time.time() < until:
        count = dice.randint(1, dice.choice([20, words]))
        wanted = dice.randint(1, dice.choice([16, tokens]))
        greedy = dice.random() < 0.7
        body = {"model": model, "prompt": " ".join(f"w{dice.randint(3, 299)}" for _ in range(count)), "max_tokens": wanted,
                "ignore_eos": True, "stream": True, "temperature": 0 if greedy else 0.8, "stream_options": {"include_usage": True}}
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
    until = time.time() + seconds
    await asyncio.gather(*(client(until) for _ in range(clients)))


model = json.load(urllib.request.urlopen(f"http://{url.netloc}/v1/models", timeout=20))["data"][0]["id"]
asyncio.run(main())
for _ in range(60):
    left = metrics()
    if left["vllm:num_requests_running"] + left["vllm:num_requests_waiting"] == 0:
        break
    time.sleep(0.5)
for name in ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "tandem:host_kv_cache_usage_perc", "tandem:rows_in_flight"):
    if name not in left:
        problems.append(f"{name} is not among the metrics")
    elif left[name] != 0:
        problems.append(f"afterwards {name} is {left[name]}")
health = urllib.request.urlopen(f"http://{url.netloc}/health", timeout=20).read().decode()
shown = {name: left[name] for name in left if re.match(r"tandem:(canary.*_(sum|count)|host_decode_tokens|offloading|guard_losses|host_lost)|vllm:num_preempt", name)}
print(f"seed {seed}; {dict(counts)}; {shown}; health {health.strip()}")
print(f"{len(problems)} problems")
for problem in problems[:20]:
    print(" ", problem)
sys.exit(1 if problems else 0)
