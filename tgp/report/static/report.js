"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const one = (id) => document.getElementById(id);
  root.classList.add("live", "slider");

  // What is shown is kept in the address, so that a view can be linked to. Other fragments are plain anchors.
  const state = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  const remember = (key, value) => {
    if (value === null) state.delete(key); else state.set(key, value);
    try { history.replaceState(null, "", "#" + state); } catch { /* not allowed for this kind of address */ }
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

  // Tables: a click on a heading sorts, a second one turns the order round.
  const key = (row, column) => {
    const cell = row.cells[column];
    const value = cell.dataset.v;
    if (value === undefined) return cell.textContent.toLowerCase();
    return value === "" ? -Infinity : Number(value);
  };
  for (const table of all("table")) {
    if (table.tBodies[0].rows.length < 2) continue;
    all("th", table).forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
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

  const slider = one("level");
  if (!slider) return;
  const chooser = one("graph"), every = one("all"), play = one("play");

  // Every hierarchy shows the level asked for, or the nearest it has.
  const show = () => {
    const level = Number(slider.value);
    one("level-name").textContent = level === 0 ? "input" : "level " + (level - 1);
    root.classList.toggle("slider", !every.checked);
    for (const graph of all(".graph")) graph.classList.toggle("on", graph.dataset.graph === chooser.value);
    for (const strip of all(".strip")) {
      const levels = all(".level", strip);
      const fit = levels.filter((figure) => Number(figure.dataset.level) <= level).pop() || levels[0];
      for (const figure of levels) {
        figure.classList.toggle("on", figure === fit);
        figure.classList.toggle("past", !every.checked && Number(figure.dataset.level) !== level);
      }
    }
  };
  if (all("option", chooser).some((option) => option.value === state.get("graph"))) chooser.value = state.get("graph");
  if (state.has("level")) slider.value = state.get("level");
  every.checked = state.get("view") === "all";
  slider.addEventListener("input", () => { root.classList.add("moved"); show(); remember("level", slider.value); });
  chooser.addEventListener("change", () => { show(); remember("graph", chooser.value); });
  every.addEventListener("change", () => { show(); remember("view", every.checked ? "all" : null); });

  let timer = null;
  play.addEventListener("click", () => {
    if (timer) { clearInterval(timer); timer = null; play.textContent = "Play"; return; }
    play.textContent = "Stop";
    root.classList.add("moved");
    timer = setInterval(() => {
      slider.value = slider.value === slider.max ? "0" : String(Number(slider.value) + 1);
      show();
    }, 1100);
  });

  // Pointing at a node shows all that join the same supernode.
  for (const group of all(".nodes")) {
    group.addEventListener("pointerover", (event) => {
      const circle = event.target.closest("circle");
      if (!circle) return;
      group.classList.add("focus");
      for (const other of group.children) other.classList.toggle("same", other.dataset.s === circle.dataset.s);
    });
    group.addEventListener("pointerleave", () => group.classList.remove("focus"));
  }
  show();
})();
