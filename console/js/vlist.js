// A list of any length of which only the rows in sight are elements. Pages of rows are read as they come
// near, and forgotten when they are far; their cursors are kept, so that they can be read again.

import { h, newId, sayAttribute } from "./dom.js";

// The height of a row in pixels, and the greatest height of an element that browsers draw. A longer list
// scrolls by several rows for each row of the wheel.
const ROW = 52;
const MOST = 12_000_000;
// Rows drawn above and below those in sight, and pages whose rows are kept.
const AROUND = 6;
const KEPT = 24;

// The list. `read(cursor)` returns a page: `rows` and the cursor `next`; `draw(row)` returns what a row
// shows; `open(row)` is called when a row is chosen, `changed()` when the selection or the number of rows
// changes, `rested(rows)` with the rows in sight when scrolling pauses.
export function virtualList(label, { read, draw, open, changed, rested, failed }) {
  const layer = h("div", { class: "layer", role: "presentation" });
  const space = h("div", { class: "space", role: "presentation" }, layer);
  const node = h(
    "div",
    { class: "vlist", role: "listbox", "aria-multiselectable": "true", tabindex: "0" },
    space,
  );
  sayAttribute(node, "aria-label", label);
  const stem = newId("row");
  const selected = new Map();
  // Whether all rows are selected, also those that were not read.
  let isWhole = false;
  let pages = [];
  let next = null;
  let turn = 0;
  let loading = null;
  let active = 0;
  let anchor = 0;
  let timer = 0;

  const count = () => (pages.length ? pages.at(-1).from + pages.at(-1).count : 0);
  const height = () => Math.min(MOST, Math.max(count() * ROW, 1));
  // Rows of the list for each row of the scroll bar.
  const scale = () => {
    const room = height() - node.clientHeight;
    return room > 0 ? (count() * ROW - node.clientHeight) / room : 1;
  };
  const pageOf = (at) => {
    let [low, high] = [0, pages.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (pages[middle].from <= at) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  const rowAt = (at) => {
    const page = pages[pageOf(at)];
    return page?.rows?.[at - page.from];
  };

  // Reads a page, one at a time. Pages without rows are passed over, as a filter makes them.
  async function load(index) {
    if (loading) return loading;
    const own = turn;
    const step = async () => {
      const cursor = index < pages.length ? pages[index].cursor : next;
      const page = await read(cursor);
      if (own !== turn) return;
      if (index < pages.length) pages[index].rows = page.rows;
      else {
        pages.push({ cursor, from: count(), count: page.rows.length, rows: page.rows });
        next = page.next ?? null;
      }
      forget(index);
      changed();
    };
    loading = step().catch(failed);
    await loading;
    if (own !== turn) return;
    loading = null;
    paint();
  }

  function forget(near) {
    const held = pages.map((page, at) => at).filter((at) => pages[at].rows);
    held.sort((a, b) => Math.abs(b - near) - Math.abs(a - near));
    held.slice(0, Math.max(0, held.length - KEPT)).forEach((at) => {
      pages[at].rows = null;
    });
  }

  function element(at) {
    const row = rowAt(at);
    const one = h("div", { class: "vrow", role: "option", id: `${stem}-${at}`, data: { at } });
    one.setAttribute("aria-posinset", at + 1);
    one.setAttribute("aria-setsize", next === null ? count() : -1);
    one.setAttribute("aria-selected", String(Boolean(row && (isWhole || selected.has(row.id)))));
    one.classList.toggle("active", at === active);
    one.append(
      h("i", { class: "check", "aria-hidden": "true" }),
      row ? draw(row) : h("span", {}, "\u2026"),
    );
    return one;
  }

  function paint() {
    space.style.setProperty("height", `${height()}px`);
    const top = node.scrollTop * scale();
    const first = Math.max(0, Math.floor(top / ROW) - AROUND);
    const last = Math.min(count() - 1, Math.ceil((top + node.clientHeight) / ROW) + AROUND);
    const rows = [];
    for (let at = first; at <= last; at += 1) rows.push(element(at));
    layer.replaceChildren(...rows);
    layer.style.setProperty("transform", `translateY(${node.scrollTop - (top - first * ROW)}px)`);
    if (rows.length) node.setAttribute("aria-activedescendant", `${stem}-${active}`);
    else node.removeAttribute("aria-activedescendant");
    clearTimeout(timer);
    timer = setTimeout(() => rested(inSight(first, last)), 120);
    want(first, last);
  }

  const inSight = (first, last) => {
    const rows = [];
    for (let at = first; at <= last; at += 1) if (rowAt(at)) rows.push(rowAt(at));
    return rows;
  };

  // Reads what is missing in sight, then what follows.
  function want(first, last) {
    for (const at of [first, last]) {
      const index = pageOf(at);
      if (pages[index] && pages[index].count > 0 && !pages[index].rows) return load(index);
    }
    if (next !== null && last >= count() - 2 * AROUND - 1) load(pages.length);
  }

  function moveTo(at, extends_) {
    active = Math.max(0, Math.min(count() - 1, at));
    if (!extends_) anchor = active;
    else pickRange();
    const top = active * ROW;
    const now = node.scrollTop * scale();
    if (top < now) node.scrollTop = top / scale();
    else if (top + ROW > now + node.clientHeight) {
      node.scrollTop = (top + ROW - node.clientHeight) / scale() + 1;
    }
    paint();
  }

  function pickRange() {
    const [low, high] = [Math.min(anchor, active), Math.max(anchor, active)];
    for (let at = low; at <= high; at += 1) if (rowAt(at)) selected.set(rowAt(at).id, rowAt(at));
    changed();
  }

  // Selects the rows that are held, and with `whole` all others, too.
  function select(whole) {
    isWhole = whole;
    pages.forEach(({ rows }) => rows?.forEach((row) => selected.set(row.id, row)));
    changed();
    paint();
  }

  function toggle(at) {
    const row = rowAt(at);
    if (!row) return;
    if (isWhole) select(false);
    if (!selected.delete(row.id)) selected.set(row.id, row);
    changed();
    paint();
  }

  node.addEventListener("scroll", () => paint(), { passive: true });
  node.addEventListener("click", (event) => {
    const one = event.target.closest(".vrow");
    if (!one) return;
    const at = Number(one.dataset.at);
    moveTo(at, event.shiftKey);
    if (event.shiftKey) return;
    if (event.target.closest(".check")) toggle(at);
    else if (rowAt(at)) open(rowAt(at));
  });
  const page = () => Math.max(1, Math.floor(node.clientHeight / ROW) - 1);
  const KEYS = {
    ArrowDown: (event) => moveTo(active + 1, event.shiftKey),
    ArrowUp: (event) => moveTo(active - 1, event.shiftKey),
    PageDown: (event) => moveTo(active + page(), event.shiftKey),
    PageUp: (event) => moveTo(active - page(), event.shiftKey),
    Home: (event) => moveTo(0, event.shiftKey),
    End: (event) => moveTo(count() - 1, event.shiftKey),
    " ": () => toggle(active),
    Enter: () => rowAt(active) && open(rowAt(active)),
  };
  node.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS)) return;
    event.preventDefault();
    KEYS[event.key](event);
  });
  new ResizeObserver(() => paint()).observe(node);

  return {
    node,
    selected,
    isWhole: () => isWhole,
    select,
    clear() {
      isWhole = false;
      selected.clear();
      changed();
      paint();
    },
    paint,
    // Begins anew: the first page is read, and nothing is selected.
    restart() {
      turn += 1;
      [pages, next, loading, active, anchor] = [[], null, null, 0, 0];
      selected.clear();
      isWhole = false;
      node.scrollTop = 0;
      return load(0);
    },
    // How many rows are known, and whether more follow.
    size: () => ({ count: count(), isAll: next === null }),
    // Changes a row everywhere it is shown.
    update(id, change) {
      pages.forEach(({ rows }) =>
        rows?.filter((row) => row.id === id).forEach((row) => Object.assign(row, change)),
      );
      paint();
    },
  };
}
