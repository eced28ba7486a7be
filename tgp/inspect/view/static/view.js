"use strict";
(() => {
  const one = (id) => document.getElementById(id);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const state = () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");

  // The fragment stores theme, level and view. Links inside of the viewer keep the theme; a turn to another graph keeps all.
  const kept = (names) => {
    const found = state(), result = new URLSearchParams();
    for (const name of names) if (found.has(name)) result.set(name, found.get(name));
    return String(result);
  };
  const target = (link) => {
    const address = new URL(link.href);
    if (!address.hash) address.hash = kept(link.rel === "prev" || link.rel === "next" ? ["theme", "level", "view"] : ["theme"]);
    return address;
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!link || link.origin !== location.origin || link.getAttribute("href").startsWith("#")) return;
    link.href = target(link);
  }, true);
  for (const form of all("form:not(#filter)")) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      location.assign(target(Object.assign(document.createElement("a"), { href: form.action + "?" + values(form) })));
    });
  }

  // Arrow keys turn to the next graph, except where they already have a meaning.
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.defaultPrevented) return;
    if (event.target.closest("input, select, textarea, .scroll.wide")) return;
    const link = { ArrowLeft: one("previous"), ArrowRight: one("next") }[event.key];
    if (link && link.href) { event.preventDefault(); location.assign(target(link)); }
  });

  // Empty values are left out, so that addresses stay short.
  function values(form) {
    const found = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value.trim()) found.set(name, value.trim());
    return String(found);
  }

  const filter = one("filter");
  if (!filter) return;
  const status = one("status"), result = one("result"), table = one("list");
  const cell = (kind, text, link) => {
    const made = document.createElement(kind);
    if (link === null || link === undefined) { made.textContent = text; return made; }
    const anchor = document.createElement("a");
    anchor.href = link;
    anchor.textContent = text;
    made.append(anchor);
    return made;
  };
  const show = (page) => {
    table.tHead.rows[0].replaceChildren(...page.headings.map((heading, i) => {
      const made = cell("th", heading.label, heading.link);
      made.scope = "col";
      made.title = heading.meaning;
      if (i) made.className = "n";
      if (heading.order) made.setAttribute("aria-sort", heading.order);
      return made;
    }));
    table.tBodies[0].replaceChildren(...page.rows.map((row) => {
      const made = document.createElement("tr");
      made.append(cell("td", String(row.graph), row.link), ...row.cells.map((text) => Object.assign(cell("td", text), { className: "n" })));
      return made;
    }));
    for (const link of all(".pager a")) {
      const to = page[link.dataset.to];
      if (to === null) link.removeAttribute("href"); else link.setAttribute("href", to);
    }
    result.hidden = false;
  };

  // The list follows the form while a user types. An answer that is no longer wanted is cancelled.
  let timer = null, running = null;
  const update = async () => {
    const query = values(filter);
    if (running) running.abort();
    const own = running = new AbortController();
    result.classList.add("old");
    try {
      const answer = await fetch("graphs.json" + (query ? "?" + query : ""), { signal: own.signal });
      const page = await answer.json();
      if (answer.ok) show(page);
      status.textContent = answer.ok ? page.status : page.error;
      status.classList.toggle("bad", !answer.ok);
      if (answer.ok) history.replaceState(null, "", "graphs" + (query ? "?" + query : "") + location.hash);
    } catch (error) {
      if (error.name === "AbortError") return;
      status.textContent = "The server does not answer. Was it ended?";
      status.classList.add("bad");
    }
    result.classList.remove("old");
    running = null;
    dispatchEvent(new Event("resize"));  // the table may have become too wide
  };
  filter.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(update, 200); });
  filter.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(timer); update(); });
})();
