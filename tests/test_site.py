"""The site that `make docs` builds of docs/: without a warning, with its search, and with nothing from another host."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT

KINDS = ("tutorials", "guides", "reference", "explanation")
# What a browser loads for a page: scripts, styles, pictures, frames; links that somebody has to follow are none.
LOADED = re.compile(r'<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)="([^"]*)"')


def build(root, site):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", site]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stdout + done.stderr
    return folder


def test_make_docs_builds_as_this_test_does():
    assert "\n\t$(BIN)/mkdocs build --strict\n" in (ROOT / "Makefile").read_text()
    assert "\ncheck: .venv/.dev docs " in (ROOT / "Makefile").read_text()


def test_every_page_of_the_docs_is_a_page_of_the_site(site):
    sources = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    pages = [path.with_name("index.html" if path.stem == "README" else f"{path.stem}.html") for path in sources]
    assert [page for page in pages if not (site / page).is_file()] == []


def test_a_page_stands_in_the_section_of_its_folder():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    sections = re.split(r"^  - ", navigation, flags=re.MULTILINE)
    folders = [{page.partition("/")[0] for page in re.findall(r"(\w+/[\w/-]+\.md)$", part, re.M)} for part in sections]
    assert [folder for folder in folders if folder] == [{kind} for kind in KINDS]


def test_a_page_loads_nothing_from_another_host(site):
    loaded = {(page.name, url) for page in site.rglob("*.html") for url in LOADED.findall(page.read_text())}
    assert len(loaded) > 100
    assert [(page, url) for page, url in loaded if re.match(r"(\w+:)?//", url)] == []
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//[^)]*", styles) == []


def test_search_finds_every_kind_of_page(site):
    places = {
        one["location"].partition("/")[0] for one in json.loads((site / "search/search_index.json").read_text())["docs"]
    }
    assert places >= {*KINDS, "repository"}


def dead_links(site):
    """(page, link) of each link within the site that leads to no file of it."""
    for page in site.rglob("*.html"):
        for link in re.findall(r'(?:href|src)="(?!\w+:|#|//)([^"#?]+)', page.read_text()):
            if not (site / link[1:] if link.startswith("/") else page.parent / link).exists():
                yield str(page.relative_to(site)), link


def test_every_link_of_the_site_leads_to_a_file_of_it(site):
    assert list(dead_links(site)) == []


def test_a_link_out_of_docs_leads_to_the_file_within_the_site(site):
    for page, file in (("guides/gateway", "deploy/envoy.yaml"), ("tutorials/attention-map", "models/layers/attend.py")):
        assert f'href="../repository/{file}"' in (site / f"{page}.html").read_text()
        assert (site / "repository" / file).read_text() == (ROOT / file).read_text()
    assert "<table>" in (site / "repository/benchmarks/results/2026-11-21-gateway-overhead.html").read_text()


@pytest.mark.planted
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path):
    root = tmp_path / "checkout"
    shutil.copytree(ROOT / "docs", root / "docs", ignore=shutil.ignore_patterns("images"))
    shutil.copy(ROOT / "mkdocs.yml", root)
    index = root / "docs/index.md"
    index.write_text(index.read_text() + "\n[gone](guides/gone.md) and [none](index.md#no-such-heading)\n")
    done = build(root, tmp_path / "site")
    assert done.returncode != 0
    assert "guides/gone.md" in done.stderr and "no-such-heading" in done.stderr
