// The script of the studio: comfort only. Every form works without it.
"use strict";
document.documentElement.classList.add("scripted");
const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// The code of the terminal's link is behind the #, which browsers send nowhere; it is posted, and taken out of sight.
function enter() {
  const form = one("form#enter"), code = location.hash.slice(1);
  if (form && code) {
    history.replaceState(null, "", location.pathname);
    one("#code").value = code;
    form.submit();
  }
  const onward = one("body.onward #onward");
  if (onward) location.replace(onward.href);
}

// A form is sent once; going back to the page enables its buttons again.
function sendOnce() {
  document.addEventListener("submit", event => {
    if (event.target.method !== "post") return;
    if (event.target.dataset.sent) { event.preventDefault(); return; }
    event.target.dataset.sent = "yes";
    setTimeout(() => all("button[type=submit]", event.target).forEach(button => { button.disabled = true; }));
  });
  window.addEventListener("pageshow", () => all("form").forEach(form => {
    delete form.dataset.sent;
    all("button[type=submit]", form).forEach(button => { button.disabled = false; });
  }));
}

// Columns: fields for the kind of a row, search, filter, choose all.
function columns() {
  const table = one("#columns");
  if (!table) return;
  const rows = all("tbody tr", table), search = one("#search"), filter = one("#filter"), every = one("#choose-all");
  const tally = one("#tally"), summary = tally.textContent;
  const show = () => {
    const words = search.value.trim().toLocaleLowerCase(), state = filter.value;
    rows.forEach(row => {
      row.hidden = !row.dataset.name.includes(words) || Boolean(state && row.dataset.state !== state);
    });
    const shown = rows.filter(row => !row.hidden).length;
    tally.textContent = shown < rows.length ? `${shown} of ${rows.length} columns are shown` : summary;
    every.checked = false;
  };
  table.addEventListener("change", event => {
    const row = event.target.closest("tr");
    if (event.target.matches(".kind")) row.dataset.kind = event.target.value;
    if (event.target.name.endsWith("-used")) row.classList.toggle("unused", !event.target.checked);
    if (event.target.name === "chosen" && event.target.checked) one("#bulk").open = true;
  });
  search.addEventListener("input", show);
  search.addEventListener("keydown", event => { if (event.key === "Enter") event.preventDefault(); });
  filter.addEventListener("change", show);
  // After "Save" and "Apply" the page comes back as it was: same search, same filter, same place.
  const kept = JSON.parse(sessionStorage.getItem("columns") || "null");
  sessionStorage.removeItem("columns");
  if (kept) [search.value, filter.value] = kept.shown;
  one("#columns-form").addEventListener("submit", event => {
    if (event.submitter?.value === "next") return;
    const place = event.submitter?.value === "save" ? scrollY : 0;
    sessionStorage.setItem("columns", JSON.stringify({ shown: [search.value, filter.value], place }));
  });
  every.addEventListener("change", () => {
    rows.filter(row => !row.hidden).forEach(row => { one("[name=chosen]", row).checked = every.checked; });
    if (every.checked) one("#bulk").open = true;
  });
  show();
  if (kept) scrollTo(0, kept.place);
}

// Budget: its effect is shown while it is typed; an older answer never replaces a newer one.
function budget() {
  const form = one("#budget-form"), effect = one("#effect");
  if (!form) return;
  let waiting = 0, asked = 0;
  const ways = () => {
    const way = one("[name=way]:checked", form).value;
    one("#accuracy").disabled = way !== "accuracy";
    one("#epsilon").disabled = way !== "epsilon";
  };
  const ask = async () => {
    const number = ++asked, fields = new URLSearchParams(new FormData(form));
    fields.delete("seen");
    effect.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(`/budget/effect?${fields}`);
      if (!answer.ok) throw new Error(answer.status);
      const text = await answer.text();
      if (number === asked) effect.innerHTML = text;
    } catch {
      if (number === asked) effect.textContent = "The server does not answer. Start hush studio again; nothing is lost.";
    }
    if (number === asked) effect.removeAttribute("aria-busy");
  };
  form.addEventListener("input", () => { ways(); clearTimeout(waiting); waiting = setTimeout(ask, 250); });
  form.addEventListener("submit", () => { one("#accuracy").disabled = one("#epsilon").disabled = false; });
  ways();
  ask();
}

// Progress, as the server tells it.
function progress() {
  const section = one("#progress");
  if (!section) return;
  const events = new EventSource(section.dataset.events);
  events.onmessage = event => {
    const now = JSON.parse(event.data);
    if (now.state !== "running") { events.close(); location.reload(); return; }
    one("#phase").textContent = `${now.phase_words} ...`;
    one("#share").value = Math.round(100 * now.share);
    one("#details").textContent = now.words;
  };
  events.onerror = () => {
    one("#details").textContent = "The server does not answer. Start hush studio again; what was paid for is kept.";
  };
}

// SQL: names and values that begin like the last word.
async function completion() {
  const area = one("textarea#sql");
  if (!area) return;
  let words = null, chosen = -1;
  const list = document.createElement("ul");
  Object.assign(list, { className: "suggestions", id: "suggestions", hidden: true });
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Suggestions");
  area.after(list);
  for (const [name, value] of [["role", "combobox"], ["aria-autocomplete", "list"], ["aria-controls", "suggestions"],
    ["aria-expanded", "false"]]) area.setAttribute(name, value);
  const close = () => { list.hidden = true; chosen = -1; area.setAttribute("aria-expanded", "false");
    area.removeAttribute("aria-activedescendant"); };
  const begun = () => area.value.slice(0, area.selectionStart).match(/["'\p{L}_][\p{L}\p{N}_ "'-]*$|$/u)[0];
  const mark = index => {
    chosen = index;
    all("li", list).forEach((item, at) => item.setAttribute("aria-selected", String(at === chosen)));
    const item = list.children[chosen];
    if (item) { area.setAttribute("aria-activedescendant", item.id); item.scrollIntoView({ block: "nearest" }); }
  };
  const take = item => {
    const end = area.selectionStart, start = end - item.dataset.begun.length;
    area.setRangeText(item.textContent, start, end, "end");
    close();
    area.focus();
  };
  const suggest = async () => {
    if (words === null) {
      try { words = await (await fetch(area.dataset.words)).json(); } catch { words = []; }
    }
    const tail = begun(), tries = tail.split(/ /).map((_, at, parts) => parts.slice(at).join(" ")).filter(Boolean);
    const plain = text => text.toLocaleLowerCase().replace(/^["']/, "");
    for (const start of tries) {
      const found = words.filter(word => plain(word).startsWith(plain(start)) && plain(word) !== plain(start)).slice(0, 12);
      if (!found.length || !plain(start)) continue;
      list.replaceChildren(...found.map((word, at) => {
        const item = document.createElement("li");
        Object.assign(item, { textContent: word, id: `suggestion-${at}` });
        item.setAttribute("role", "option");
        item.dataset.begun = start;
        item.addEventListener("mousedown", event => { event.preventDefault(); take(item); });
        return item;
      }));
      list.hidden = false;
      area.setAttribute("aria-expanded", "true");
      mark(0);
      return;
    }
    close();
  };
  area.addEventListener("input", suggest);
  area.addEventListener("blur", close);
  area.addEventListener("keydown", event => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { area.form.requestSubmit(); return; }
    if (list.hidden) return;
    const count = list.children.length;
    if (event.key === "ArrowDown") mark((chosen + 1) % count);
    else if (event.key === "ArrowUp") mark((chosen + count - 1) % count);
    else if (event.key === "Tab") take(list.children[chosen]);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
}

function copying() {
  all("button.copy").forEach(button => button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(one("code", button.parentElement).textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }));
}

enter();
sendOnce();
columns();
budget();
progress();
completion();
copying();
