"""Loads a server with many concurrent streams, slow readers and prompts that are too long, and watches /health.

    python tools/load.py URL [--streams 1000] [--slow 500] [--tokens 64] [--huge 2] [--timeout 600]

Three kinds of clients run at the same time:
  STREAMS clients   each streams TOKENS tokens and must get all of them
  SLOW clients      each requests a stream and reads nothing until the end
  HUGE clients      send prompts of 8 MB one after another; the server must reject each with 400 or 413
A process of its own requests /health every 20 ms. The server must have room for all of them, for example:

    tools/make_dummy_model.py cpu/src/test/resources/families/deep/config.json /tmp/dummy
    ./tandem serve /tmp/dummy --load-format dummy --device cpu --max-queued-requests 2048 --max-body-size 9MiB

Prints one line of JSON. The exit status is 0 if all streams were complete, /health never failed and its 99th percentile
was at most 50 ms. Needs the standard library only.
"""

import argparse
import asyncio
import collections
import json
import multiprocessing
import socket
import sys
import time
import urllib.parse
import urllib.request

HEALTH_LIMIT_MS = 50
PROMPT_MB = 8


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="the server's address, such as http://localhost:8000")
    parser.add_argument("--streams", type=int, default=1000, help="clients that stream (%(default)s)")
    parser.add_argument("--slow", type=int, default=500, help="clients that read nothing (%(default)s)")
    parser.add_argument("--tokens", type=int, default=64, help="tokens per stream (%(default)s)")
    parser.add_argument("--huge", type=int, default=2, help="clients that send prompts of 8 MB (%(default)s)")
    parser.add_argument("--timeout", type=float, default=600,
                        help="seconds until streams count as starved (%(default)s)")
    return parser.parse_args()


def percentile(values, fraction):
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(fraction * len(ordered)))], 2) if ordered else None


def time_health(host, port, end, results):
    """Requests /health on one connection until `end` and times each request; counts broken connections as failures."""
    times, failures = [], 0
    connection = None
    while not end.is_set():
        started = time.perf_counter()
        try:
            if connection is None:
                connection = socket.create_connection((host, port), timeout=10)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(f"GET /health HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            answer = b""
            while b"\r\n\r\n" not in answer:
                data = connection.recv(4096)
                if not data:
                    raise ConnectionError("closed")
                answer += data
            if not answer.startswith(b"HTTP/1.1 200"):
                raise ConnectionError(answer[:40])
        except OSError:
            failures += 1
            connection = None
        times.append((time.perf_counter() - started) * 1e3)
        end.wait(0.02)
    results.put((times, failures))


def request(url, payload):
    return (f"POST /v1/completions HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n").encode() + payload


async def stream(url, body, counts, gaps):
    """Reads a whole stream and records the gaps between its tokens, in seconds, which show whether it was starved."""
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    started = last = time.monotonic()
    seen, done = 0, False
    try:
        writer.write(request(url, json.dumps(body).encode()))
        await writer.drain()
        status = int((await reader.readline()).split()[1])
        async for line in reader:
            if line.startswith(b"data: [DONE]"):
                done = True
            elif line.startswith(b"data: {") and b'"finish_reason":null' in line:
                now = time.monotonic()
                gaps.append(now - last)
                last, seen = now, seen + 1
        counts["complete" if status == 200 and done and seen >= 1 else f"status {status}, {seen} tokens"] += 1
        return seen, time.monotonic() - started
    except OSError as e:
        counts[f"lost: {type(e).__name__}"] += 1
        return seen, time.monotonic() - started
    finally:
        writer.close()


async def read_nothing(url, body, end):
    """Requests a stream and reads nothing of it."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connection, (url.hostname, url.port))
    await loop.sock_sendall(connection, request(url, json.dumps(body).encode()))
    await end.wait()
    connection.close()


async def send_huge_prompts(url, model, end, counts, times):
    """Sends prompts that are longer than the context, one after another."""
    payload = json.dumps({"model": model, "prompt": "w5 " * (PROMPT_MB * 1_000_000 // 3), "max_tokens": 1}).encode()
    while not end.is_set():
        started = time.monotonic()
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        try:
            writer.write(request(url, payload))
            await writer.drain()
            counts[int((await reader.readline()).split()[1])] += 1
            times.append((time.monotonic() - started) * 1e3)
        except (OSError, IndexError) as e:
            counts[type(e).__name__] += 1
        finally:
            writer.close()


async def load(arguments, url, model):
    body = {"model": model, "prompt": "w5 w6 w7", "max_tokens": arguments.tokens, "ignore_eos": True, "stream": True,
            "temperature": 0}
    slow_body = dict(body, logprobs=5)
    counts, refused = collections.Counter(), collections.Counter()
    gaps, refusals = [], []
    end = asyncio.Event()
    hanging = [asyncio.create_task(read_nothing(url, slow_body, end)) for _ in range(arguments.slow)]
    huge = [asyncio.create_task(send_huge_prompts(url, model, end, refused, refusals)) for _ in range(arguments.huge)]
    started = time.monotonic()
    streams = [asyncio.create_task(stream(url, body, counts, gaps)) for _ in range(arguments.streams)]
    done, late = await asyncio.wait(streams, timeout=arguments.timeout)
    for task in late:
        task.cancel()
    elapsed = time.monotonic() - started
    end.set()
    await asyncio.gather(*hanging, *huge, *late, return_exceptions=True)
    seconds = [task.result()[1] for task in done]
    return {
        "streams": arguments.streams, "complete": counts["complete"], "starved": len(late),
        "other": {key: count for key, count in counts.items() if key != "complete"},
        "tokens": arguments.tokens, "seconds": round(elapsed, 1), "stream_s_p50": percentile(seconds, 0.5),
        "stream_s_max": percentile(seconds, 1), "gap_s_p99": percentile(gaps, 0.99), "gap_s_max": percentile(gaps, 1),
        "slow_readers": arguments.slow, "huge_answers": dict(refused), "huge_ms_p50": percentile(refusals, 0.5),
        "huge_ms_max": percentile(refusals, 1),
    }


def main():
    arguments = options()
    url = urllib.parse.urlsplit(arguments.url)
    with urllib.request.urlopen(f"{arguments.url}/v1/models", timeout=20) as answer:
        model = json.load(answer)["data"][0]["id"]
    context = multiprocessing.get_context("spawn")
    end, results = context.Event(), context.Queue()
    prober = context.Process(target=time_health, args=(url.hostname, url.port, end, results))
    prober.start()
    try:
        summary = asyncio.run(load(arguments, url, model))
    finally:
        end.set()
        times, failures = results.get(timeout=30)
        prober.join()
    summary |= {"health_asked": len(times), "health_failures": failures, "health_ms_p50": percentile(times, 0.5),
                "health_ms_p99": percentile(times, 0.99), "health_ms_max": percentile(times, 1)}
    good = (summary["complete"] == arguments.streams and failures == 0 and summary["health_ms_p99"] <= HEALTH_LIMIT_MS
            and set(summary["huge_answers"]) <= {400, 413})
    print(json.dumps(summary | {"good": good}))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
