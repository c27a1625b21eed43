"""Sphinx configuration of the documentation; ./tandem docs builds it."""

project = "Tandem"
author = "the Tandem authors"
copyright = "the Tandem authors, Apache-2.0"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["results/**"]
html_theme = "furo"
html_title = "Tandem"
html_show_sphinx = False
# anchors as on the repository's pages
myst_heading_anchors = 3
nitpicky = True
