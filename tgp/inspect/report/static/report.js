"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const one = (id) => document.getElementById(id);
  root.classList.add("live", "slider");

  // The address stores the view, so that it can be linked. Fragments without "=" are plain anchors.
  const read = () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  let state = read();
  const remember = (key, value) => {
    if (value === null) state.delete(key); else state.set(key, value);
    try { history.replaceState(null, "", "#" + state); } catch { /* browsers do not allow it for some kinds of addresses */ }
  };

  const setTheme = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  };
  setTheme(state.get("theme"));
  one("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    setTheme(dark ? "light" : "dark");
    remember("theme", root.dataset.theme);
  });

  // A click on a heading sorts a table; a second click reverses the order.
  const key = (row, column) => {
    const cell = row.cells[column];
    const value = cell.dataset.v;
    if (value === undefined) return cell.textContent.toLowerCase();
    return value === "" ? -Infinity : Number(value);
  };
  for (const table of all("table.sort")) {
    if (table.tBodies[0].rows.length < 2) continue;
    all("th", table).forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = "Sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        all("th", table).forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].map((row) => [key(row, column), row]);
        rows.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1));
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }

  // Only tables that are too wide get a keyboard stop and a shadow at their sides.
  const fit = () => {
    for (const box of all(".scroll")) {
      const wide = box.scrollWidth > box.clientWidth;
      box.classList.toggle("wide", wide);
      box.tabIndex = wide ? 0 : -1;
    }
  };
  fit();
  addEventListener("resize", fit);

  // Sections of hierarchies are folded. A link opens its section; a printed page shows all of them.
  const sections = all("details");
  document.addEventListener("toggle", fit, true);
  const reveal = () => {
    const target = location.hash.length > 1 && !location.hash.includes("=") ? one(decodeURIComponent(location.hash.slice(1))) : null;
    if (target && target.tagName === "DETAILS" && !target.open) { target.open = true; target.scrollIntoView(); }
  };
  reveal();
  addEventListener("hashchange", reveal);
  for (const link of all("a[href^='#hierarchy-']")) link.addEventListener("click", () => { one(link.hash.slice(1)).open = true; });
  const unfold = one("unfold");
  if (unfold) unfold.addEventListener("click", () => {
    const open = sections.some((section) => !section.open);
    for (const section of sections) section.open = open;
    unfold.textContent = open ? "Close all" : "Open all";
  });
  const paper = matchMedia("print");
  let folded = [];
  const printing = () => {
    if (paper.matches) { folded = sections.filter((section) => !section.open); }
    for (const section of folded) section.open = paper.matches;
  };
  paper.addEventListener("change", printing);
  if (paper.matches) printing();

  // Show the titles of marks at once. Browsers show titles after a second, and not at all on touch screens.
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const place = (event) => {
    const box = tip.getBoundingClientRect();
    const x = Math.min(event.clientX + 12, innerWidth - box.width - 4);
    const above = event.clientY - box.height - 10;
    tip.style.transform = `translate(${Math.max(x, 4)}px, ${above < 4 ? event.clientY + 18 : above}px)`;
  };
  document.addEventListener("pointerover", (event) => {
    const mark = event.target.closest ? event.target.closest("svg circle, svg rect, .nodes path") : null;
    const title = mark && mark.querySelector("title");
    if (title) { mark.dataset.tip = title.textContent; title.remove(); }
    tip.hidden = !(mark && mark.dataset.tip);
    if (!tip.hidden) { tip.textContent = mark.dataset.tip; place(event); }
  });
  document.addEventListener("pointermove", (event) => { if (!tip.hidden) place(event); });
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  const slider = one("level");
  if (!slider) return;
  const chooser = one("graph"), every = one("all"), play = one("play");

  // Every hierarchy shows the selected level, or the nearest level that it has.
  const show = () => {
    for (const graph of all(".graph")) {
      const on = graph.dataset.graph === chooser.value;
      graph.classList.toggle("on", on);
      if (on) { slider.min = graph.dataset.first; slider.max = graph.dataset.last; }
    }
    const level = Number(slider.value);
    const name = level === 0 ? "level 0 (input)" : "level " + level;
    one("level-name").textContent = name;
    slider.setAttribute("aria-valuetext", name);
    root.classList.toggle("slider", !every.checked);
    slider.disabled = play.disabled = every.checked || slider.min === slider.max;
    for (const strip of all(".strip")) {
      const levels = all(".level", strip);
      const fit = levels.filter((figure) => Number(figure.dataset.level) <= level).pop() || levels[0];
      for (const figure of levels) {
        figure.classList.toggle("on", figure === fit);
        figure.classList.toggle("early", Number(figure.dataset.level) > level);
        figure.classList.toggle("past", Number(figure.dataset.level) < level);
      }
    }
  };

  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  };
  play.addEventListener("click", () => {
    if (timer) { stop(); return; }
    play.textContent = "Stop";
    root.classList.add("moved");
    timer = setInterval(() => {
      slider.value = slider.value === slider.max ? slider.min : String(Number(slider.value) + 1);
      show();
    }, 1100);
  });
  slider.addEventListener("input", () => { stop(); root.classList.add("moved"); show(); remember("level", slider.value); });
  chooser.addEventListener("change", () => { stop(); show(); remember("graph", chooser.value); });
  every.addEventListener("change", () => { stop(); show(); remember("view", every.checked ? "all" : null); });

  const restore = () => {
    state = read();
    setTheme(state.get("theme"));
    if (all("option", chooser).some((option) => option.value === state.get("graph"))) chooser.value = state.get("graph");
    every.checked = state.get("view") === "all";
    show();  // this sets the bounds of the slider
    if (state.has("level")) { slider.value = state.get("level"); show(); }
  };
  addEventListener("hashchange", () => { if (location.hash.includes("=")) restore(); });

  // Pointing at a node highlights all nodes of the same supernode.
  for (const group of all(".drawing .nodes")) {
    group.addEventListener("pointerover", (event) => {
      const mark = event.target.closest("circle, path");
      if (!mark) return;
      group.classList.add("focus");
      for (const other of group.children) other.classList.toggle("same", other.dataset.s === mark.dataset.s);
    });
    group.addEventListener("pointerleave", () => group.classList.remove("focus"));
  }
  restore();
})();
