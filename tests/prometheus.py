"""Debian's Prometheus, as `make system` unpacks it: the tool that reads deploy/prometheus, and a server that asks."""

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from serving.triton.server.ports import free_ports

ROOT = Path(__file__).parents[1]
DEPLOYED = ROOT / "deploy/prometheus"
PATIENCE_S = 120.0


def program(name):
    """The path of one of its programs; the test is skipped where there is none."""
    ours = ROOT / ".venv/prometheus/usr/bin" / name
    found = str(ours) if ours.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}: `make system` unpacks Debian's")
    return found


@contextmanager
def scraping(folder, targets):
    """``query(expression)`` of a server that reads deploy/prometheus, each second, of other targets, a job each."""
    config = yaml.safe_load((DEPLOYED / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(DEPLOYED / name) for name in config["rule_files"]]
    assert {job["job_name"] for job in config["scrape_configs"]} == targets.keys()
    for job in config["scrape_configs"]:
        job["static_configs"] = [{"targets": [targets[job["job_name"]]]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (port,) = free_ports(1)
    words = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    words += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]

    def query(expression):
        asked = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{asked}", timeout=30) as answer:
            return json.load(answer)["data"]["result"]

    with (folder / "log").open("w") as log:
        process = subprocess.Popen([program("prometheus"), *words], stdout=log, stderr=log)
    try:
        ends = time.monotonic() + PATIENCE_S
        while True:
            try:
                query("up")
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < ends, (folder / "log").read_text()
                time.sleep(0.1)
        yield query
    finally:
        process.terminate()
        process.wait(30)
