"""Sphinx configuration of the documentation; ./tandem docs builds it."""

project = "Tandem"
author = "The Tandem authors"
copyright = "The Tandem authors, Apache-2.0"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["results/**", "performance/archive/**"]
html_theme = "furo"
html_title = "Tandem"
myst_heading_anchors = 3
# warnings are errors (-W): a link to a missing page or heading fails the build
nitpicky = True
