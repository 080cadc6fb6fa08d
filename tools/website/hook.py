# SPDX-License-Identifier: MIT
"""A hook of mkdocs: what it does here as mkdocs does not by itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tools.lint.references import slug

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Headings get the anchors that GitHub gives them, so that a link works in both places."""
    config.mdx_configs["toc"]["slugify"] = lambda heading, _separator: slug(heading)
    return config


def on_post_build(config: MkDocsConfig) -> None:
    """Removes the page for addresses that do not exist: it works only where the site is all that a server has."""
    (Path(config.site_dir) / "404.html").unlink(missing_ok=True)
