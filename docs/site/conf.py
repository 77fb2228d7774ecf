# SPDX-License-Identifier: BSD-3-Clause
# Sphinx reads this for scripts/site. The pages are those of docs/, laid out by prepare.py.
import os

project = "Tessera"
version = release = os.environ["TESSERA_VERSION"]
html_title = f"Tessera {version}"

extensions = ["myst_parser"]
myst_heading_anchors = 4  # page.md#a-heading, as code hosts have it
highlight_language = "text"  # of indented blocks: commands and equations

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["wide.css"]
html_js_files = ["theme.js"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
