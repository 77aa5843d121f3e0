"""What MkDocs does beyond mkdocs.yml: a link that leaves docs/ leads to a copy of the file within the site.

On the code host the same link leads to the file itself. A Markdown file outside docs/ becomes a page, and its links are
followed in the same way; every other file is copied as it is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)[^)#\s]+")


def place_in_site(path: Path) -> Path:
    """Where a file of the repository stands in the site: of docs/ as it is, all else below repository/."""
    return path.relative_to(DOCS) if path.is_relative_to(DOCS) else Path("repository") / path.relative_to(ROOT)


def linked_files(page: Path) -> dict[str, Path]:
    """The files of the repository that a page links to, by what stands in the link."""
    found = ((link, (page.parent / link).resolve()) for link in LINK.findall(page.read_text(encoding="utf-8")))
    return {link: path for link, path in found if path.is_file() and path.is_relative_to(ROOT)}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside docs/ that pages lead to, and those that these lead to."""
    known = {Path(str(file.abs_src_path)).resolve() for file in files}
    pages = [path for path in known if path.suffix == ".md"]
    while pages:
        for path in linked_files(pages.pop()).values():
            if path not in known:
                known.add(path)
                files.append(File.generated(config, place_in_site(path).as_posix(), abs_src_path=str(path)))
                pages += [path] * (path.suffix == ".md")
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Let every link lead to the place of its file in the site."""
    here = Path(page.file.src_uri).parent
    places = linked_files(Path(str(page.file.abs_src_path)).resolve())
    links = {link: Path(os.path.relpath(place_in_site(path), here)).as_posix() for link, path in places.items()}
    return LINK.sub(lambda match: links.get(match[0], match[0]), markdown)
