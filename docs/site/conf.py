# SPDX-License-Identifier: BSD-3-Clause
# Sphinx reads this for scripts/site. The pages are those of docs/, laid out by prepare.py.
import os
import pathlib

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


def leave_out_modules(app, pagename, templatename, context, doctree):
    """Debian ships furo's script as an ES module, which a browser refuses as it is included; static/theme.js does its work."""
    def is_module(script):
        name = str(getattr(script, "filename", script)).split("?")[0].removeprefix("_static/")
        found = [pathlib.Path(folder) / "static" / name for folder in app.builder.theme.get_theme_dirs()]
        return any(path.is_file() and path.read_text().startswith("import ") for path in found)
    context["script_files"] = [script for script in context.get("script_files", []) if not is_module(script)]


def setup(app):
    app.connect("html-page-context", leave_out_modules, priority=900)
