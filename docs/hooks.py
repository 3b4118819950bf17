# SPDX-License-Identifier: Apache-2.0
"""Adds to the site what pages link to outside docs/, such as results/README.md and its pictures."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

_LINK = re.compile(r"\]\(([^)#:]+)")
_TO_DOCS = re.compile(r"\]\((?:\.\./)*docs/")


def on_files(files: Files, config: Any) -> Files:
    """Follow relative links from every page, and from the pages that this adds.

    A file outside docs/ is known by its path relative to docs/, so that links to it resolve as
    they do in the repository.
    """
    docs = Path(config.docs_dir)
    pages = [docs / page.src_uri for page in files.documentation_pages()]
    seen = set(pages)
    for page in pages:
        for link in _LINK.findall(page.read_text(encoding="utf-8")):
            target = (page.parent / link).resolve()
            if target in seen or not target.is_file() or target.is_relative_to(docs):
                continue
            seen.add(target)
            inside = target.relative_to(docs.parent).as_posix()
            added = File(
                f"../{inside}",
                config.docs_dir,
                config.site_dir,
                config.use_directory_urls,
                inclusion=InclusionLevel.INCLUDED,  # a path that begins with a dot is left out
            )
            added.dest_uri = f"repository/{added.dest_uri.removeprefix('../')}"
            files.append(added)
            if target.suffix == ".md":
                pages.append(target)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let pages from outside docs/ link into it."""
    return _TO_DOCS.sub("](/", markdown) if page.file.src_uri.startswith("../") else markdown
