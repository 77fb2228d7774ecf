#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The report as a browser shows it: narrow and wide, light and dark, and what its buttons save.

    page.py PATH-TO-tessera-lab

Needs chromium; without one it is skipped (exit code 77).
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BROWSERS = ["chromium", "chromium-browser", "google-chrome"]
SMALL = ["run", "--data", "synthetic", "--clients", "12", "--per-round", "7", "--rounds", "6", "--quiet"]
WIDTHS = {1280: 4000, 400: 9000}  # with the height of the frame
OTHERS = {  # pages that look different, with figures they must have
    "seeds": (["seeds"], ["run", "--algorithm", "pfedme", "--seeds", "1,2,3"]),
    "routed": (["routing", "routing-loss", "breakdown", "change-violins"],
               ["run", "--algorithm", "flow", "--model", "dnn", "--analyse", "routing,clients"]),
    "masked": (["mask-density", "mask-overlap"], ["run", "--algorithm", "fedspa-dst", "--model", "dnn", "--analyse", "masks"]),
    "private": (["privacy", "privacy-clients"], ["run", "--algorithm", "ditto", "--dp", "clip=1,noise=1"]),
    "staged": (["fine-tuning"], ["run", "--stages", "fedavg rounds=3; fedalt rounds=3; tune tune_epochs=2", "--model", "dnn",
                                 "--scope", "output", "--analyse", "clients"]),
    "swept": (["sweep"], ["sweep", "--algorithm", "pfedme", "--grid", "rate=0.01,0.1", "lambda=1,15"]),
}

# Runs before everything else in the page.
EARLY = """<script>
window.refused = [];
window.faults = [];
addEventListener("error", event => faults.push(String(event.message)));
addEventListener("unhandledrejection", event => faults.push(String(event.reason)));
for (const loud of ["error", "warn", "assert"]) {
  const plain = console[loud].bind(console);
  console[loud] = (...words) => {
    if (loud !== "assert" || !words[0]) faults.push(words.join(" "));
    plain(...words);
  };
}
addEventListener("securitypolicyviolation", event => refused.push(event.blockedURI));
window.saved = [];
window.Blob = class { constructor(parts) { this.parts = parts; } };
URL.createObjectURL = blob => { saved.push(blob.parts.join("")); return "about:blank"; };
URL.revokeObjectURL = () => {};
HTMLAnchorElement.prototype.click = () => {};
</script>"""

# Runs at the end; FAULTS is what a control breaks on purpose. It must not overlap by more than a hair: glyphs do not
# fill their boxes, whose height is that of a line.
LATE = """<script>
(async () => {
  FAULTS
  const found = {dark: matchMedia("(prefers-color-scheme: dark)").matches, width: innerWidth, beyond: [], over: [],
    empty: [], twice: [], unsaved: [], svg: {}, csv: {}, zoom: {}};
  const box = node => node.getBoundingClientRect();
  const texts = svg => [...svg.querySelectorAll("text")].filter(text => box(text).width > 0);
  const crowded = (figure, svg) => {
    const outer = box(figure), all = texts(svg);
    for (const text of all) {
      const inner = box(text);
      if (inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.top < outer.top - 1 ||
          inner.bottom > outer.bottom + 1) found.beyond.push(figure.id + ": " + text.textContent);
    }
    all.forEach((a, i) => all.slice(i + 1).forEach(b => {
      const p = box(a), q = box(b), hair = 3;
      if (Math.min(p.right, q.right) - Math.max(p.left, q.left) > 0 &&
          Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > hair)
        found.over.push(figure.id + ": " + a.textContent + " and " + b.textContent);
    }));
  };
  const marks = svg => [...svg.querySelectorAll(".series path, .series circle, .series rect, .cell")]
    .filter(mark => box(mark).width > 0 || box(mark).height > 0);
  const figures = [...document.querySelectorAll("figure")];
  for (const figure of figures) {
    const svg = figure.querySelector("svg.chart"), told = figure.querySelector(":scope > .empty");
    if (told) continue;
    if (svg ? marks(svg).length === 0 : figure.querySelectorAll("tbody tr").length === 0) found.empty.push(figure.id);
    if (svg) crowded(figure, svg);
    for (const button of figure.querySelectorAll(".save button:not(.whole)")) {
      if (button.tabIndex < 0) found.unsaved.push(figure.id + ": not reachable by keyboard");
      saved.length = 0;
      button.click();
      found[button.textContent.toLowerCase()][figure.id] = saved.join("");
    }
    if (!(figure.id in found.csv)) found.unsaved.push(figure.id + ": no CSV");
    if (svg && !(figure.id in found.svg)) found.unsaved.push(figure.id + ": no SVG");
  }
  const seen = new Set();
  for (const {id} of document.querySelectorAll("[id]")) seen.has(id) ? found.twice.push(id) : seen.add(id);
  const curves = document.querySelector("#fig-accuracy svg");
  const labels = () => texts(curves).map(text => text.textContent).join(" ");
  const press = key => curves.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
  const path = () => curves.querySelector(".series path:not(.band)").getAttribute("d");
  found.zoom.before = [labels(), path()];
  press("+");
  found.zoom.near = [labels(), path()];
  crowded(curves.closest("figure"), curves);
  const whole = curves.closest("figure").querySelector(".whole");
  found.zoom.whole = [box(whole).width > 0];
  whole.click();
  found.zoom.whole.push(box(whole).width > 0, labels());
  press("+");
  press("Escape");
  found.zoom.after = [labels(), path()];
  const point = (name, x, y) => curves.dispatchEvent(new PointerEvent(name, {pointerType: "mouse", bubbles: true,
    clientX: box(curves).left + x * box(curves).width, clientY: box(curves).top + y * box(curves).height}));
  curves.setPointerCapture = () => {};  // the pointer of a script cannot be captured
  point("pointermove", 0.5, 0.5);
  found.tip = document.querySelector(".tip").textContent;
  point("pointerdown", 0.4, 0.5);
  point("pointermove", 0.6, 0.5);
  point("pointerup", 0.6, 0.5);
  found.zoom.along = [labels(), path()];
  curves.dispatchEvent(new MouseEvent("dblclick"));
  found.zoom.back = [labels(), path()];
  const key = curves.closest("figure").querySelector(".legend li");
  const visible = () => marks(curves).length;
  found.marks = [visible()];
  for (let i = 0; i < 2; ++i) key.click(), found.marks.push(visible());
  found.wider = document.documentElement.scrollWidth - innerWidth;
  found.refused = refused;
  found.faults = faults;
  // Where every series has a bar for every name, the bars of a name stand around its middle.
  const middle = node => (box(node).left + box(node).right) / 2;
  found.aside = [];
  found.barred = 0;
  for (const svg of document.querySelectorAll("figure[id^=fig-extra-] svg.chart.bars")) {
    const names = [...new Set([...svg.querySelectorAll("text.middle")].map(middle).map(x => Math.round(10 * x) / 10))];
    const series = [...svg.querySelectorAll(".series")].map(one => [...one.querySelectorAll("rect.bar")].map(middle));
    if (names.length < 2 || series.some(bars => bars.length !== names.length)) continue;
    found.barred += 1;
    names.forEach((x, i) => {
      const mean = series.reduce((sum, bars) => sum + bars[i], 0) / series.length;
      if (Math.abs(mean - x) > 1 + 0.05 * (names[1] - names[0]))
        found.aside.push(svg.closest("figure").id + ": " + Math.round(mean) + " for " + Math.round(x));
    });
  }
  // Each line of a legend has its series under the same name.
  found.nameless = [];
  for (const figure of figures) {
    const keys = [...figure.querySelectorAll(".legend li")];
    if (keys.length === 0 || !figure.querySelector("svg.lines")) continue;
    const drawn_as = [...figure.querySelectorAll(".series[data-name]")].map(one => one.dataset.name);
    for (const key of keys)
      if (!drawn_as.includes(key.textContent)) found.nameless.push(figure.id + ": " + key.textContent);
    if (new Set(drawn_as).size !== drawn_as.length) found.nameless.push(figure.id + ": a name twice");
  }
  found.requests = performance.getEntriesByType("resource").map(entry => entry.name);
  parent.postMessage(JSON.stringify(found), "*");
})();
</script>"""

# The window of a headless browser is never narrower than 500 pixels, a frame is.
FRAME = """<!DOCTYPE html><style>:root { color-scheme: light dark; } body { margin: 0; } iframe { border: 0; }</style>
<pre id="found"></pre><script>
addEventListener("message", event => { document.getElementById("found").textContent = event.data; });
</script><iframe src="PAGE" width="WIDTH" height="HEIGHT"></iframe>"""


def expect(condition, sentence):
    if not condition:
        sys.exit(f"failed: {sentence}")


def ran(*command):
    result = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    expect(result.returncode == 0, f"exit {result.returncode} of {command[0]}: {result.stderr.strip()[-400:]}")
    return result.stdout


def seen_by(browser, folder, page, width, dark, faults=""):
    """What the script finds in the page, as a browser shows it."""
    text = page.read_text()
    text = text.replace("</title>", "</title>" + EARLY, 1)
    text = text.replace("</body>", LATE.replace("FAULTS", faults) + "</body>", 1)
    (folder / "page.html").write_text(text)
    frame = FRAME.replace("PAGE", "page.html").replace("WIDTH", str(width)).replace("HEIGHT", str(WIDTHS[width]))
    (folder / "frame.html").write_text(frame)
    dom = ran(browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
              f"--user-data-dir={folder / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND",
              f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--window-size=1400,1000",
              "--virtual-time-budget=20000", "--dump-dom", (folder / "frame.html").as_uri())
    found = re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)
    expect(found and found.group(1), f"{page.name}, {width} pixels: the page never reported")
    found = json.loads(found.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    expect(found["width"] == width and found["dark"] == dark, f"asked for {width} pixels, dark {dark}: {found['width']}")
    return found


def check_saved(name, found):
    for figure, text in found["svg"].items():
        expect(text.startswith("<svg") and 'xmlns="' in text, f"{name}, {figure}: what is saved is no SVG")
        expect(not re.search(r'var\(|class="|data-p=', text), f"{name}, {figure}: the saved SVG needs the page's style")
        expect("<metadata>" in text, f"{name}, {figure}: the saved SVG has no numbers")
    for figure, text in found["csv"].items():
        lines = text.split("\r\n")
        expect(len(lines) > 2 and lines[-1] == "", f"{name}, {figure}: its CSV has no rows")
        expect(any(c.isdigit() for c in lines[1]), f"{name}, {figure}: its CSV has no numbers: {lines[1]}")


def check(name, found):
    for what, words in {"beyond": "text beyond its figure", "over": "text over text", "empty": "figures without data",
                        "twice": "ids that stand twice", "unsaved": "figures that cannot be saved",
                        "refused": "requests that were refused", "requests": "requests", "faults": "errors of scripts",
                        "aside": "bars beside their names", "nameless": "series that are not called as the legend says"}.items():
        expect(not found[what], f"{name}: {words}: {found[what][:8]}")
    expect(found["wider"] <= 0, f"{name}: the page is {found['wider']} pixels wider than the window")
    expect(len(found["csv"]) > 8 and len(found["svg"]) > 8, f"{name}: only {sorted(found['csv'])} can be saved")
    zoom = found["zoom"]
    expect(zoom["near"][0] != zoom["before"][0] and zoom["near"][1] != zoom["before"][1], f"{name}: + does not zoom")
    expect(zoom["after"][0] == zoom["before"][0], f"{name}: Escape does not zoom out: {zoom}")
    expect(zoom["whole"] == [True, False, zoom["before"][0]], f"{name}: the button that zooms out: {zoom['whole']}")
    expect(zoom["along"][0] != zoom["before"][0] and zoom["along"][1] != zoom["after"][1], f"{name}: a drag does not zoom")
    expect(zoom["back"] == zoom["after"], f"{name}: a double click does not zoom out: {zoom}")
    expect(found["tip"].startswith("round ") and re.search("(personal|global): ", found["tip"]), f"{name}: the pointer shows {found['tip']!r}")
    expect(0 < found["marks"][1] < found["marks"][0] == found["marks"][2], f"{name}: a legend hides {found['marks']}")
    check_saved(name, found)


def controls(browser, folder, page):
    """The same eyes on a page that was broken on purpose see each fault."""
    found = seen_by(browser, folder, page, 1280, False, """
  const broken = id => document.querySelector("#fig-" + id + " svg");
  broken("bytes").querySelectorAll(".series").forEach(series => series.replaceChildren());
  broken("seconds").querySelector("text").setAttribute("x", "-200");
  const [one, two] = broken("loss").querySelectorAll(".frame text");
  two.setAttribute("y", one.getAttribute("y"));
  broken("data").closest("figure").id = "fig-loss";
  document.querySelector("#fig-classes .save").remove();
  document.querySelector("#fig-accuracy .legend li").firstChild.nextSibling.textContent = "somebody";
  for (const bar of broken("extra-overlap").querySelectorAll("rect.bar")) bar.setAttribute("x", Number(bar.getAttribute("x")) - 30);
  console.error("a fault of the control");
  document.body.append(Object.assign(new Image(), {src: "https://tessera.invalid/x.png"}));
  await new Promise(done => setTimeout(done, 500));""")
    for what, fault in {"empty": "fig-bytes", "beyond": "fig-seconds", "over": "fig-loss", "twice": "fig-loss",
                        "unsaved": "fig-classes", "refused": "tessera.invalid", "nameless": "fig-accuracy: somebody",
                        "aside": "fig-extra-overlap", "faults": "a fault of the control"}.items():
        expect(any(fault in each for each in found[what]), f"a fault was not seen: {what} {fault}: {found[what]}")


def main():
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not browser:
        print("skipped: no chromium to look at the report with")
        sys.exit(77)
    program = sys.argv[1]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        one, many = folder / "one.html", folder / "many.html"
        a, b = folder / "a.json", folder / "b.json"
        run = [program, *SMALL, "--algorithm", "pfedme"]
        ran(*run, "--analyse", "clients,losses", "--report", one)
        ran(*run, "--seeds", "1,2", "--hits", "--json", a)
        ran(program, *SMALL, "--algorithm", "fedavg-ft", "--seeds", "1,2", "--hits", "--json", b)
        ran(program, "compare", a, b, "--report", many)
        for page in [one, many]:
            for width in WIDTHS:
                shown = {dark: seen_by(browser, folder, page, width, dark) for dark in [False, True]}
                for dark, found in shown.items():
                    check(f"{page.name}, {width} pixels, {'dark' if dark else 'light'}", found)
                expect(shown[True]["svg"] == shown[False]["svg"], f"{page.name}: a dark page saves other drawings")
        for name, (figures, arguments) in OTHERS.items():
            page = folder / f"{name}.html"
            command = [word for word in SMALL if word != "run"]
            ran(program, arguments[0], *command, *arguments[1:], "--report", page)
            for width, dark in [(1280, False), (400, True)]:
                found = seen_by(browser, folder, page, width, dark)
                check(f"{page.name}, {width} pixels", found)
                for figure in figures:
                    expect(f"fig-extra-{figure}" in found["csv"], f"{page.name}: there is no figure {figure}")
        # The name of a file is a word without an end, and the page is no wider for it.
        table, page = folder / ("tables-" * 12) / "table.csv", folder / "named.html"
        table.parent.mkdir()
        table.write_text("a,b,y\n" + "".join(f"{i % 7},{i % 5},{i % 2}\n" for i in range(80)))
        ran(program, "run", "--data", f"csv:{table},label=y", "--partition", "iid", *SMALL[3:], "--algorithm", "ditto", "--report", page)
        check("a page of a file with a long name", seen_by(browser, folder, page, 400, False))
        expect(seen_by(browser, folder, many, 1280, False)["barred"] > 0, "no bars over names in the comparison")
        controls(browser, folder, many)


if __name__ == "__main__":
    main()
