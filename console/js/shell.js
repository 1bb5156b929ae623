// The frame around the pages: navigation, the chosen collection, theme, language, and what is known about the
// server: whether it answers, is ready, and accepts the key.

import { access, onAccess } from "./access.js";
import { events, send } from "./api.js";
import { choice, fill, h, notice, say, show, svg } from "./dom.js";
import { choose as chooseLanguage, current } from "./i18n.js";
import { choose, chosenName, collections, onPick } from "./pick.js";
import { address } from "./route.js";
import { welcome } from "./welcome.js";

const THEME = "lookalike.theme";
// Milliseconds between two looks at the server, while it answers and while it does not.
const CALM = 5000;
const GONE = 1500;

// The strokes of the icons of the navigation, in a square of 20.
const ICONS = {
  documents: "M5 2.5h7l3 3v12H5zM12 2.5v3h3M7.5 9h5M7.5 12h5M7.5 15h3",
  review: "M3 5l2 2 3-3.5M3 12.5l2 2 3-3.5M11 6h6M11 13.5h6",
  compare: "M3 5h6v10H3zM11 5h6v10h-6z",
  find: "M8.5 3.5a5 5 0 1 0 0 10 5 5 0 0 0 0-10zM12.2 12.2 17 17",
  clusters:
    "M6 3.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM14 8.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5z" +
    "M6 12.5a2 2 0 1 0 0 4 2 2 0 0 0 0-4zM8.2 7.2l3.6 2.4M8 13.8l3.8-1.6",
  collections: "M3 6h14M3 10h14M3 14h14",
  calibrate: "M3 17V3M3 17h14M5 14c4 0 5-9 11-9",
  import: "M10 3v9M6.5 8.5 10 12l3.5-3.5M3 14v3h14v-3",
  keys: "M3.5 10a3 3 0 1 0 6 0 3 3 0 0 0-6 0zM9.5 10H17v3.5M13.5 10v2.5",
};

// Builds the frame. `pages` are the names of the pages; returns the place where they are shown.
export function build(pages) {
  const main = h("main", { id: "content", tabindex: "-1" });
  const links = pages.map((page) => link(page));
  const nav = h("nav", { label: "nav.label" }, links);
  const side = h(
    "header",
    { class: "side" },
    h("a", { class: "brand", href: "#/" }, mark(), h("span", {}, "lookalike")),
    picker(),
    nav,
    h("div", { class: "corner" }, keyState(), language(inSight), theme(), contract()),
  );
  const skip = h("a", { class: "skip", href: "#content", t: "nav.skip" });
  skip.addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  document.body.replaceChildren(skip, side, h("div", { class: "body" }, serverState(), welcome(), main));
  return {
    main,
    // Marks the link of a page.
    mark(page) {
      links.forEach((one) => {
        if (one.dataset.page === page) one.setAttribute("aria-current", "page");
        else one.removeAttribute("aria-current");
      });
      inSight();
    },
  };

  // In a narrow window the navigation is a row that scrolls: to the link of the page.
  function inSight() {
    const link = links.find((one) => one.hasAttribute("aria-current"));
    const left = (one) => one.getBoundingClientRect().left;
    if (link) nav.scrollBy(left(link) - left(nav) - parseFloat(getComputedStyle(nav).paddingLeft), 0);
  }
}

function mark() {
  return svg(
    "svg",
    { viewBox: "0 0 32 32", "aria-hidden": "true", class: "mark" },
    svg("rect", { width: 32, height: 32, rx: 8 }),
    svg("circle", { cx: 12.5, cy: 16, r: 7 }),
    svg("circle", { cx: 19.5, cy: 16, r: 7, "stroke-dasharray": "30 14" }),
  );
}

function link(page) {
  const icon = svg(
    "svg",
    { viewBox: "0 0 20 20", "aria-hidden": "true" },
    svg("path", { d: ICONS[page] }),
  );
  return h("a", { href: address(page), data: { page } }, icon, h("span", { t: `nav.${page}` }));
}

function picker() {
  const select = h("select", { id: "collection" });
  select.addEventListener("change", () => choose(select.value));
  onPick(() => {
    const names = collections().map((collection) => collection.name);
    fill(
      select,
      names.map((name) => h("option", { value: name }, name)),
    );
    select.value = chosenName();
    select.disabled = names.length === 0;
  });
  return h("div", { class: "picker" }, h("label", { for: "collection", t: "nav.collection" }), select);
}

function keyState() {
  const state = h("a", { class: "keystate", href: address("keys") });
  onAccess(() => {
    const { required, name, role } = access();
    show(state, required);
    if (required) say(state, name ? ["nav.key", { name, role }] : "nav.nokey");
  });
  return state;
}

function language(changed) {
  const values = [
    ["en", "language.en"],
    ["zh", "language.zh"],
  ];
  return choice("nav.language", values, current(), (chosen) => {
    chooseLanguage(chosen);
    changed();
  });
}

function theme() {
  const values = [
    ["auto", "theme.auto"],
    ["light", "theme.light"],
    ["dark", "theme.dark"],
  ];
  const set = (value) => {
    document.documentElement.dataset.theme = value;
    localStorage.setItem(THEME, value);
  };
  const stored = localStorage.getItem(THEME) ?? "auto";
  document.documentElement.dataset.theme = stored;
  return choice("nav.theme", values, stored, set);
}

function contract() {
  return h("a", { class: "small", href: "/docs", t: "nav.docs" });
}

// A bar that says that the server does not answer or is not ready. Looks at the server again and again, more
// often while it does not answer.
function serverState() {
  const bar = h("div", { class: "bar", role: "alert", hidden: true });
  let isDown = false;
  let isLooking = false;
  let timer = 0;
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(look, isDown ? GONE : CALM);
  };
  const down = () => {
    if (!isDown)
      fill(bar, notice("bad", h("strong", { t: "server.gone" }), " ", h("span", { t: "server.retry" })));
    isDown = true;
    show(bar, true);
    wait();
  };
  const look = async () => {
    if (document.hidden && !isDown) return wait();
    isLooking = true;
    try {
      const response = await send("GET", "/readyz");
      if (isDown) window.dispatchEvent(new Event("server-back"));
      isDown = false;
      const reason = response.ok ? "" : (await response.json()).detail;
      show(bar, !response.ok);
      if (reason)
        fill(bar, notice("warn", h("strong", { t: "server.unready" }), " ", h("span", {}, reason)));
      wait();
    } catch {
      down();
    } finally {
      isLooking = false;
    }
  };
  events.addEventListener("down", down);
  events.addEventListener("up", () => {
    if (isDown && !isLooking) look();
  });
  look();
  return bar;
}
