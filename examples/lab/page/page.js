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
  const drawn = (svg, name, attributes, text) => {
    const node = document.createElementNS(svg.namespaceURI, name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  for (const title of document.querySelectorAll("svg.chart title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }
  const points_of = series => series.dataset.p.trim().split(" ").filter(Boolean).map(p => p.split(",").map(Number));
  const four = value => Number(value.toPrecision(4));

  // Curves: what is under the pointer, and a window into them. A window is a box in the units of the whole drawing.
  const curves = svg => {
    const [left, right, low_x, high_x] = svg.dataset.x.split(" ").map(Number);
    const [bottom, top, low_y, high_y] = svg.dataset.y.split(" ").map(Number);
    const along = svg.dataset.log === undefined ? x => x : Math.log;
    const [low, high] = [low_x, high_x].map(along);
    const cross = svg.querySelector(".cross");
    const all = [...svg.querySelectorAll(".series")].map(node => ({node, name: node.dataset.name,
      points: points_of(node)}));
    let box = [left, right, top, bottom];
    const at_x = x => left + (x - box[0]) / (box[1] - box[0]) * (right - left);
    const at_y = y => top + (y - box[2]) / (box[3] - box[2]) * (bottom - top);
    const place_of = x => left + (along(x) - low) / (high - low) * (right - left);
    const spot = event => {
      const frame = svg.getBoundingClientRect();
      return [(event.clientX - frame.left) * 480 / frame.width, (event.clientY - frame.top) * 480 / frame.width];
    };
    svg.addEventListener("pointerleave", () => { cross.style.visibility = "hidden"; hide(); });
    svg.addEventListener("pointermove", event => {
      const wanted = spot(event)[0];
      const seen = all.filter(one => !one.node.classList.contains("off"));
      let best = null;
      for (const one of seen)
        for (const [x] of one.points) {
          const far = Math.abs(at_x(place_of(x)) - wanted);
          if (place_of(x) >= box[0] - 1 && place_of(x) <= box[1] + 1 && (best === null || far < best[0]))
            best = [far, x];
        }
      if (best === null) return hide();
      cross.setAttribute("x1", at_x(place_of(best[1])));
      cross.setAttribute("x2", at_x(place_of(best[1])));
      cross.style.visibility = "visible";
      const lines = [svg.dataset.title + " " + Number(best[1].toPrecision(6))];
      for (const one of seen)
        for (const [x, y, least, most] of one.points)
          if (x === best[1])
            lines.push(one.name + ": " + four(y) + " " + svg.dataset.unit +
              (least === undefined ? "" : " (" + four(least) + " to " + four(most) + ")"));
      show(event, lines);
    });
    if (svg.dataset.log !== undefined || svg.dataset.logY !== undefined) return;

    const pane = drawn(svg, "svg", {x: left, y: top, width: right - left, height: bottom - top, overflow: "visible",
      viewBox: [left, top, right - left, bottom - top].join(" ")});
    all[0].node.before(pane);
    for (const {node} of all) pane.append(node);
    const shapes = [...pane.querySelectorAll("path, circle")].map(node => ({node, d: node.getAttribute("d"),
      x: Number(node.getAttribute("cx")), y: Number(node.getAttribute("cy"))}));
    const ticks = drawn(svg, "g", {});
    pane.before(ticks);
    const steps = (from, to, wanted) => {
      const raw = (to - from) / wanted, power = 10 ** Math.floor(Math.log10(raw));
      const step = power * [1, 2, 5, 10].find(lead => raw / power <= lead * 1.0001);
      const first = Math.ceil(from / step - 1e-9), out = [];
      for (let k = first; k * step <= to + 1e-9 * step; ++k) out.push(k);
      const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
      return out.map(k => [k * step, (k * step).toFixed(digits)]);
    };
    const look = () => {
      const whole = box[1] - box[0] > right - left - 0.01 && box[3] - box[2] > bottom - top - 0.01;
      svg.classList.toggle("zoomed", !whole);
      pane.setAttribute("overflow", whole ? "visible" : "hidden");
      for (const {node, d, x, y} of shapes)
        if (d === null) node.setAttribute("cx", at_x(x)), node.setAttribute("cy", at_y(y));
        else node.setAttribute("d", d.replace(/([-\d.e]+) ([-\d.e]+)/g,
          (_, a, b) => at_x(Number(a)).toFixed(2) + " " + at_y(Number(b)).toFixed(2)));
      ticks.replaceChildren();
      cross.style.visibility = "hidden";
      if (whole) return;
      const x_at = place => low + (place - left) / (right - left) * (high - low);
      const y_at = place => low_y + (bottom - place) / (bottom - top) * (high_y - low_y);
      for (const [value, label] of steps(x_at(box[0]), x_at(box[1]), 6)) {
        const x = at_x(place_of(value));
        ticks.append(drawn(svg, "line", {class: "tick", x1: x, x2: x, y1: bottom, y2: bottom + 4}),
          drawn(svg, "text", {class: "middle", x, y: bottom + 19}, label));
      }
      for (const [value, label] of steps(y_at(box[3]), y_at(box[2]), 5)) {
        const y = at_y(bottom - (value - low_y) / (high_y - low_y) * (bottom - top));
        ticks.append(drawn(svg, "line", {class: "grid", x1: left, x2: right, y1: y, y2: y}),
          drawn(svg, "text", {class: "end", x: left - 7, y: y + 4}, label));
      }
    };
    const inside = (from, to, least, most) => {
      const wide = Math.min(most - least, Math.max(to - from, (most - least) / 40));
      const start = Math.min(most - wide, Math.max(least, (from + to - wide) / 2));
      return [start, start + wide];
    };
    const see = (x0, x1, y0, y1) => {
      box = [...inside(x0, x1, left, right), ...inside(y0, y1, top, bottom)];
      look();
    };
    const back = () => see(left, right, top, bottom);
    let start = null;
    const lens = drawn(svg, "rect", {class: "lens"});
    svg.addEventListener("pointerdown", event => {
      if (event.pointerType !== "mouse" || event.button !== 0) return;
      start = spot(event);
      svg.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    const dragged = event => {
      const end = spot(event), clamp = (value, a, b) => Math.min(b, Math.max(a, value));
      const pair = (i, a, b) => [start[i], end[i]].map(value => clamp(value, a, b)).sort((p, q) => p - q);
      const [x0, x1] = pair(0, left, right), [y0, y1] = pair(1, top, bottom);
      const flat = y1 - y0 < 12, thin = x1 - x0 < 12;  // a stroke along one axis leaves the other as it is
      return {none: flat && thin, x: thin ? [left, right] : [x0, x1], y: flat ? [top, bottom] : [y0, y1]};
    };
    svg.addEventListener("pointermove", event => {
      if (!start) return;
      hide();
      const {none, x, y} = dragged(event);
      if (none) return lens.remove();
      for (const [key, value] of Object.entries({x: x[0], y: y[0], width: x[1] - x[0], height: y[1] - y[0]}))
        lens.setAttribute(key, value);
      svg.append(lens);
    });
    svg.addEventListener("pointerup", event => {
      if (!start) return;
      const {none, x, y} = dragged(event);
      start = null;
      lens.remove();
      if (none) return;
      const old_x = place => box[0] + (place - left) / (right - left) * (box[1] - box[0]);
      const old_y = place => box[2] + (place - top) / (bottom - top) * (box[3] - box[2]);
      see(...x.map(old_x), ...y.map(old_y));
    });
    svg.addEventListener("dblclick", back);
    svg.tabIndex = 0;
    svg.addEventListener("keydown", event => {
      const [x0, x1, y0, y1] = box, x = (x1 - x0) / 4, y = (y1 - y0) / 4;
      const act = {"+": () => see(x0 + x, x1 - x, y0 + y, y1 - y), "-": () => see(x0 - 2 * x, x1 + 2 * x, y0 - 2 * y,
        y1 + 2 * y), ArrowLeft: () => see(x0 - x, x1 - x, y0, y1), ArrowRight: () => see(x0 + x, x1 + x, y0, y1),
        ArrowUp: () => see(x0, x1, y0 - y, y1 - y), ArrowDown: () => see(x0, x1, y0 + y, y1 + y), 0: back, Escape: back
      }[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
  };
  for (const svg of document.querySelectorAll("svg.chart")) {
    if (svg.classList.contains("lines")) { curves(svg); continue; }
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("pointermove", event => {
      const text = event.target.dataset.tip;
      if (text) show(event, [text]); else hide();
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

  // Numbers of what is drawn; a mark brings what it is called along.
  const csv = rows => rows.map(row => row.map(text => /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)
    .join(",") + "\r\n").join("");
  const numbers = figure => {
    const svg = figure.querySelector("svg.chart");
    if (!svg)
      return csv([...figure.querySelectorAll("tr")].map(row => [...row.cells].map(cell => cell.textContent)));
    if (svg.classList.contains("lines")) {
      const series = [...svg.querySelectorAll(".series")], rows = [];
      for (const one of series)
        for (const point of points_of(one)) rows.push([one.dataset.name, ...point.map(String)]);
      const bands = rows.some(row => row.length > 3);
      return csv([["series", svg.dataset.xAxis, svg.dataset.yAxis, ...(bands ? ["least", "most"] : [])], ...rows]);
    }
    const lines = svg.querySelector("metadata").textContent.trim().split("\n");
    const marks = [...svg.querySelectorAll("[data-tip]")].map(mark => [mark.dataset.tip]);
    if (marks.length !== lines.length - 1) return lines.join("\r\n") + "\r\n";
    return lines[0] + ",text\r\n" + marks.map((text, i) => lines[i + 1] + "," + csv([text])).join("");
  };
  // The drawing with its title, its legend and all styles written out, in the colours of paper.
  const plain = {fill: "rgb(0, 0, 0)", "fill-opacity": "1", stroke: "none", "stroke-width": "1px",
    "stroke-dasharray": "none", "stroke-linecap": "butt", "stroke-linejoin": "miter", "text-anchor": "start",
    "font-size": "", "shape-rendering": "auto"};
  const drawing = figure => {
    const svg = figure.querySelector("svg.chart"), copy = svg.cloneNode(true), gone = [];
    document.documentElement.classList.add("paper");
    const nodes = [...copy.querySelectorAll("*")];
    [...svg.querySelectorAll("*")].forEach((node, i) => {
      const style = getComputedStyle(node), to = nodes[i];
      if (style.display === "none" || style.visibility === "hidden") gone.push(to);
      if (/^(path|circle|rect|line|text)$/.test(node.tagName))
        for (const name in plain)
          if (style.getPropertyValue(name) !== plain[name] && (name !== "font-size" || node.tagName === "text"))
            to.setAttribute(name, style.getPropertyValue(name));
      if (node.dataset.tip) to.append(drawn(svg, "title", {}, node.dataset.tip));
      for (const {name} of [...to.attributes]) if (/^(class|data-.*)$/.test(name)) to.removeAttribute(name);
    });
    for (const node of gone) node.remove();
    if (!copy.querySelector("metadata")) copy.append(drawn(svg, "metadata", {}, numbers(figure)));
    const ramp = figure.querySelector(".ramp");
    const keys = [...figure.querySelectorAll(".legend li")].filter(key => key.getAttribute("aria-checked") !== "false");
    const lines = keys.length + (ramp ? 1 : 0), top = 30 + 17 * lines;
    const words = (x, y, text, more) => drawn(svg, "text", {x, y, "font-size": "12px", fill: "#1b1f23", ...more}, text);
    const head = [drawn(svg, "rect", {x: 0, y: -top, width: 480, height: 300 + top, fill: "#ffffff"}),
      words(2, 18 - top, figure.querySelector("h3").textContent, {"font-size": "14px", "font-weight": "600"})];
    keys.forEach((key, i) => {
      const colour = getComputedStyle(key).getPropertyValue("--c"), y = 38 - top + 17 * i;
      const dash = key.querySelector("i.dash") ? "5 4" : "none";
      head.push(drawn(svg, "line", {x1: 2, x2: 22, y1: y - 4, y2: y - 4, stroke: colour, "stroke-width": 3,
        "stroke-dasharray": dash}), words(29, y, key.textContent));
    });
    if (ramp) head.push(words(2, 38 - top + 17 * keys.length, "colour: " + ramp.dataset.text));
    document.documentElement.classList.remove("paper");
    for (const {name} of [...copy.attributes]) if (/^(class|tabindex|data-.*)$/.test(name)) copy.removeAttribute(name);
    for (const [name, value] of Object.entries({viewBox: `0 ${-top} 480 ${300 + top}`, width: 960,
      height: 2 * (300 + top), "font-family": "system-ui, sans-serif"})) copy.setAttribute(name, value);
    copy.prepend(...head);
    return new XMLSerializer().serializeToString(copy);
  };
  for (const figure of document.querySelectorAll("figure")) {
    if (figure.querySelector(":scope > .empty")) continue;
    const bar = make("div", ""), title = figure.querySelector("h3").textContent;
    bar.className = "save";
    if (figure.querySelector("svg.lines")) {
      const whole = make("button", "Whole");
      whole.type = "button";
      whole.className = "whole";
      whole.setAttribute("aria-label", `Zoom out: ${title}`);
      whole.addEventListener("click", () => figure.querySelector("svg.lines").dispatchEvent(new Event("dblclick")));
      bar.append(whole);
    }
    const offer = (kind, type, text) => {
      const button = make("button", kind);
      button.type = "button";
      button.setAttribute("aria-label", `Save as ${kind}: ${title}`);
      button.addEventListener("click", () => {
        const link = make("a", "");
        link.download = figure.id.replace("fig-", "") + "." + kind.toLowerCase();
        link.href = URL.createObjectURL(new Blob([text(figure)], {type}));
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 1000);
      });
      bar.append(button);
    };
    if (figure.querySelector("svg.chart")) offer("SVG", "image/svg+xml", drawing);
    offer("CSV", "text/csv", numbers);
    figure.querySelector("figcaption").prepend(bar);
  }
})();
