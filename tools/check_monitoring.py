#!/usr/bin/env python3
"""Checks the files of deploy/ against Prometheus itself and against a running Tandem server.

usage: tools/check_monitoring.py [--server http://127.0.0.1:8000]

Needs the programs promtool and prometheus (Debian's package "prometheus"). It checks
  - the configuration and the alert rules, and runs the rules' tests (promtool);
  - with --server: that a Prometheus which scrapes this server accepts every query of the dashboard and of the rules,
    and that each metric they name is on the server.
Metrics that docs/reference/metrics.md calls conditional ("only ...") may be absent, and are listed.
To have most of them, start the server with the guard and a profile, and send it a request first.

Exit status: 0 all is well, 1 something is not, 2 a program is missing. Standard library only.
"""

import argparse
import contextlib
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROMETHEUS = ROOT / "deploy" / "prometheus"
DASHBOARD = ROOT / "deploy" / "grafana" / "tandem.json"
PAGE = ROOT / "docs" / "reference" / "metrics.md"
SERIES = re.compile(r"\b(?:vllm|tandem):[a-z0-9_]+")
# what Grafana puts in for its variables
VARIABLES = {"$__rate_interval": "1m", "$instance": ".*", "$model_name": ".*"}
WAIT_SECONDS = 60


def need(*programs):
    """Ends with status 2 where one of the programs is missing."""
    for program in programs:
        if not shutil.which(program):
            print(f"{program} is not on the path; install Debian's package prometheus, or the release", file=sys.stderr)
            sys.exit(2)


def promtool(*arguments):
    result = subprocess.run(["promtool", *arguments], cwd=PROMETHEUS, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"promtool {' '.join(arguments)} failed:\n{result.stdout}{result.stderr}")
    print(f"promtool {' '.join(arguments)}: all is well")


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def ask(base, path, **parameters):
    try:
        return json.loads(get(f"{base}{path}?{urllib.parse.urlencode(parameters)}"))
    except urllib.error.HTTPError as e:
        return json.loads(e.read())


def fill_in(query):
    """The query with a value for each of the dashboard's variables."""
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    return query


def dashboard_queries():
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], fill_in(target["expr"])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def prometheus(server, interval="1s"):
    """The address of a Prometheus that scrapes the server once per interval, which is also its time limit."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(PROMETHEUS / "tandem-alerts.yml", folder)
        target = urllib.parse.urlparse(server)
        config = (PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8")
        config = config.replace("127.0.0.1:8000", target.netloc)
        config = config.replace("scrape_interval: 5s", f"scrape_interval: {interval}")
        pathlib.Path(folder, "prometheus.yml").write_text(config, encoding="utf-8")
        port = free_port()
        process = subprocess.Popen(
            [
                "prometheus",
                "--config.file=prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ],
            cwd=folder,
        )
        try:
            base = f"http://127.0.0.1:{port}"
            await_scrapes(base, process)
            yield base
        finally:
            process.terminate()
            process.wait()


def await_scrapes(base, process):
    """Waits until two scrapes have succeeded, which a rate needs."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"prometheus ended with status {process.returncode}; its output says why")
        with contextlib.suppress(OSError, ValueError):
            answer = ask(base, "/api/v1/query", query='sum_over_time(up{job="tandem"}[5m])')
            if any(int(sample["value"][1]) >= 2 for sample in answer["data"]["result"]):
                return
        time.sleep(0.5)
    sys.exit(f"prometheus has not scraped the server in {WAIT_SECONDS} s; is it there, and without TLS?")


def conditional():
    """Metrics that a server may be without, by the page of metrics."""
    rows = re.findall(r"^\| `([^`]+)` \|(.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name for name, rest in rows if "; only " in rest}


def check_server(server):
    findings = []
    with prometheus(server) as base:
        queries = list(dashboard_queries())
        groups = ask(base, "/api/v1/rules")["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        queries += [(rule["name"], rule["query"]) for rule in rules]
        findings += [f"{rule['name']}: {rule['lastError']}" for rule in rules if rule.get("lastError")]
        series = set(ask(base, "/api/v1/label/__name__/values")["data"])
        absent = set()
        for title, query in queries:
            answer = ask(base, "/api/v1/query", query=query)
            if answer["status"] != "success":
                findings.append(f"{title}: {answer['error']}")
            absent |= set(SERIES.findall(query)) - series
        up = ask(base, "/api/v1/query", query='up{job="tandem"}')["data"]["result"]
        if not up or up[0]["value"][1] != "1":
            findings.append(f"{server}/metrics cannot be scraped; prometheus' log says why")
    allowed = conditional()
    findings += [f"{name} is not on the server" for name in sorted(absent - allowed)]
    print(f"{len(queries)} queries; conditional and absent: {', '.join(sorted(absent & allowed)) or 'none'}")
    return findings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", metavar="URL", help="address of a running Tandem server, without a path")
    arguments = parser.parse_args()
    need("promtool", "prometheus")
    promtool("check", "config", "prometheus.yml")
    promtool("check", "rules", "tandem-alerts.yml")
    promtool("test", "rules", "tandem-alerts-test.yml")
    if arguments.server:
        findings = check_server(arguments.server.rstrip("/"))
        for finding in findings:
            print(finding)
        if findings:
            sys.exit(f"{len(findings)} findings")


if __name__ == "__main__":
    main()
