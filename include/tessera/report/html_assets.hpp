// SPDX-License-Identifier: BSD-3-Clause
// The style and the script inside every HTML report. The script only adds tooltips and switches for the series.
#pragma once

#include <string_view>

namespace tessera::report::detail {

// Colours after Okabe and Ito, which stay apart under the common forms of colour blindness; each scheme shifts them
// until lines keep a contrast of 3 to 1 with its ground.
inline constexpr std::string_view style = R"css(
:root { color-scheme: light dark; --ground: #fbfbfa; --sheet: #ffffff; --ink: #1b1f23; --soft: #59626b; --rule: #dde1e4;
  --c0: #0072b2; --c1: #d55e00; --c2: #008f68; --c3: #b4528c; --c4: #a87400; --c5: #3d8fc4; --c6: #5a5f66; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #121518; --sheet: #191d21; --ink: #e7e9eb; --soft: #9ca6af; --rule: #2d343a;
    --c0: #4aa8e8; --c1: #f08a3c; --c2: #2cc295; --c3: #dd8fbb; --c4: #e3ae3c; --c5: #8fcbf2; --c6: #a9b0b7; } }
@media print {
  :root { --ground: #fff; --sheet: #fff; --ink: #000; --soft: #444; --rule: #ccc;
    --c0: #0072b2; --c1: #d55e00; --c2: #008f68; --c3: #b4528c; --c4: #a87400; --c5: #3d8fc4; --c6: #5a5f66; } }
.c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); }
.c4 { --c: var(--c4); } .c5 { --c: var(--c5); } .c6 { --c: var(--c6); }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI",
  Roboto, "Helvetica Neue", sans-serif; font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%; }
main { max-width: 1160px; margin: 0 auto; padding: 36px 24px 64px; }
h1 { font-size: 26px; line-height: 1.25; font-weight: 600; letter-spacing: -.01em; margin: 0 0 4px;
  overflow-wrap: anywhere; }
h2 { font-size: 17px; font-weight: 600; margin: 44px 0 14px; }
h3 { font-size: 15px; font-weight: 600; margin: 0; }
p { margin: 0; }
.soft, .sub { color: var(--soft); } p.soft { margin-bottom: 10px; font-size: 13px; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 14px; margin-top: 26px; }
.card { background: var(--sheet); border: 1px solid var(--rule); border-radius: 8px; padding: 14px 16px; }
.card b { display: block; font-size: 27px; line-height: 1.25; font-weight: 600; letter-spacing: -.01em; }
.card span { display: block; font-size: 13px; line-height: 1.4; color: var(--soft); margin-top: 4px; }
.grid { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 18px; }
figure { margin: 0; background: var(--sheet); border: 1px solid var(--rule); border-radius: 8px;
  padding: 16px 18px 12px; break-inside: avoid; min-width: 0; }
figcaption p { font-size: 13px; color: var(--soft); margin: 2px 0 10px; }
.empty { color: var(--soft); font-style: italic; padding: 44px 0; text-align: center; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 3px 16px; margin: 0 0 8px; padding: 0;
  font-size: 13px; }
.legend li { display: flex; align-items: center; gap: 7px; border-radius: 4px; overflow-wrap: anywhere; }
.legend i { flex: none; width: 20px; border-top: 2.5px solid var(--c); }
.legend i.dash { border-top-style: dashed; }
.legend i.block { width: 11px; height: 11px; border: 0; border-radius: 3px; background: var(--c); }
.legend [role=switch] { cursor: pointer; }
.legend [aria-checked=false] { opacity: .4; text-decoration: line-through; }
.ramp { display: flex; align-items: center; gap: 8px; font-size: 13px; color: var(--soft); margin-bottom: 8px; }
.ramp i { width: 110px; height: 10px; border-radius: 3px; border: 1px solid var(--rule);
  background: linear-gradient(to right, transparent, var(--c0)); }
.ramp i.minus { background: linear-gradient(to left, transparent, var(--c1)); }
svg.chart { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-size: 11.5px; fill: var(--soft); }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .grid { stroke: var(--rule); } svg .zero, svg .axis { stroke: var(--soft); } svg .tick { stroke: var(--soft); }
svg line { stroke-width: 1; vector-effect: non-scaling-stroke; }
svg .series path { fill: none; stroke: var(--c); stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
svg .series.dash path { stroke-dasharray: 5 4; stroke-linecap: butt; }
svg .series > circle { fill: var(--c); } svg .dot { fill-opacity: .62; } svg .bar { fill: var(--c); }
svg .ground { fill: none; stroke: var(--rule); } svg .cell { fill: var(--c0); shape-rendering: crispEdges; }
svg .cell.minus { fill: var(--c1); }
svg .series .violin { fill: var(--c); fill-opacity: .3; stroke-width: 1.2; }
svg .quartiles { stroke: var(--c); stroke-width: 5; stroke-linecap: round; }
svg .median { fill: var(--sheet); stroke: var(--c); stroke-width: 1.5; }
svg .off { display: none; } svg .cross { stroke: var(--soft); visibility: hidden; pointer-events: none; }
svg [data-tip]:hover { stroke: var(--ink); stroke-width: 1.2; }
.scroll { overflow-x: auto; background: var(--sheet); border: 1px solid var(--rule); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th, td { text-align: left; vertical-align: top; padding: 6px 14px; border-bottom: 1px solid var(--rule); }
tr:last-child > * { border-bottom: 0; }
th { font-weight: 600; white-space: nowrap; } thead th { color: var(--soft); font-weight: 500; }
td.n, th.n { text-align: right; white-space: nowrap; }
td.v { overflow-wrap: anywhere; min-width: 110px; }
small { display: block; color: var(--soft); font-size: 12px; line-height: 1.35; white-space: normal; min-width: 170px; }
td code { font: 12.5px ui-monospace, "SF Mono", Consolas, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
tr.differs th::after { content: " \2260"; color: var(--c1); }
.wide { grid-column: 1 / -1; } figure th, figure th.n { white-space: normal; }
figure thead th { vertical-align: bottom; }
.numbers { margin: 6px 0 4px; font-size: 13px; } .numbers summary { color: var(--soft); cursor: pointer; }
.numbers .scroll { max-height: 340px; overflow: auto; margin-top: 6px; } .numbers table { font-size: 12.5px; }
.numbers p { margin-top: 6px; color: var(--soft); } .numbers td { white-space: nowrap; }
.tip { position: fixed; z-index: 9; display: none; pointer-events: none; max-width: 320px; padding: 7px 10px;
  background: var(--ink); color: var(--ground); border-radius: 6px; font-size: 12.5px; line-height: 1.45; }
ul.notes { margin: 0; padding-left: 20px; }
@media (max-width: 860px) { .grid { grid-template-columns: minmax(0, 1fr); } }
@media (max-width: 520px) {
  main { padding: 22px 14px 40px; } h1 { font-size: 22px; } figure { padding: 14px 12px 10px; }
  .cards { grid-template-columns: 1fr 1fr; gap: 10px; } .card { padding: 11px 12px; } .card b { font-size: 21px; }
  svg text { font-size: 14px; } th, td { padding: 5px 8px; } table { font-size: 12.5px; }
  tbody th { white-space: normal; } }
@media print { body { font-size: 11pt; } main { max-width: none; padding: 0; } h2 { break-after: avoid; }
  .scroll { overflow: visible; } tr { break-inside: avoid; } }
)css";

inline constexpr std::string_view script = R"js(
(() => {
  const make = (name, text) => Object.assign(document.createElement(name), {textContent: text});
  const tip = make("div", "");
  tip.className = "tip";
  document.body.append(tip);
  const hide = () => { tip.style.display = "none"; };
  const show = (event, lines) => {
    tip.replaceChildren(...lines.map(text => make("div", text)));
    tip.style.display = "block";
    const below = event.clientY + 16, high = tip.offsetHeight;
    tip.style.left = Math.max(6, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = (below + high > innerHeight ? Math.max(6, event.clientY - high - 12) : below) + "px";
  };
  for (const title of document.querySelectorAll("svg.chart title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }
  for (const svg of document.querySelectorAll("svg.chart")) {
    svg.addEventListener("pointerleave", hide);
    if (!svg.classList.contains("lines")) {
      svg.addEventListener("pointermove", event => {
        const text = event.target.dataset.tip;
        if (text) show(event, [text]); else hide();
      });
      continue;
    }
    const along = svg.dataset.log === undefined ? x => x : Math.log;
    const [left, right] = svg.dataset.x.split(" ").map(Number);
    const [low, high] = svg.dataset.x.split(" ").slice(2).map(Number).map(along);
    const cross = svg.querySelector(".cross");
    const all = [...svg.querySelectorAll(".series")].map(node => ({node, name: node.dataset.name,
      points: node.dataset.p.trim().split(" ").filter(Boolean).map(pair => pair.split(",").map(Number))}));
    svg.addEventListener("pointerleave", () => { cross.style.visibility = "hidden"; });
    svg.addEventListener("pointermove", event => {
      const frame = svg.getBoundingClientRect();
      const place = (event.clientX - frame.left) * 480 / frame.width;
      const wanted = low + (place - left) / (right - left) * (high - low);
      const seen = all.filter(one => !one.node.classList.contains("off"));
      let best = null;
      for (const one of seen)
        for (const [x] of one.points)
          if (best === null || Math.abs(along(x) - wanted) < Math.abs(along(best) - wanted)) best = x;
      if (best === null) return hide();
      const at = left + (along(best) - low) / (high - low) * (right - left);
      cross.setAttribute("x1", at);
      cross.setAttribute("x2", at);
      cross.style.visibility = "visible";
      const lines = [svg.dataset.title + " " + best];
      for (const one of seen)
        for (const [x, y] of one.points)
          if (x === best) lines.push(one.name + ": " + Number(y.toPrecision(4)) + " " + svg.dataset.unit);
      show(event, lines);
    });
  }
  for (const item of document.querySelectorAll(".legend li[data-series]")) {
    const chart = item.closest("figure");
    item.setAttribute("role", "switch");
    item.setAttribute("aria-checked", "true");
    item.tabIndex = 0;
    const flip = () => {
      const on = item.getAttribute("aria-checked") !== "true";
      item.setAttribute("aria-checked", String(on));
      for (const group of chart.querySelectorAll(`.series[data-series="${item.dataset.series}"]`))
        group.classList.toggle("off", !on);
    };
    item.addEventListener("click", flip);
    item.addEventListener("keydown", event => {
      if (event.key === " " || event.key === "Enter") { event.preventDefault(); flip(); }
    });
  }
})();
)js";

}  // namespace tessera::report::detail
