// Builds elements. Texts become text nodes, never markup.

import { bind, t } from "./i18n.js";

const SVG = "http://www.w3.org/2000/svg";

// An HTML element. `t` is its text as a key of the dictionary, or a key with values; `label`, `hint` and
// `tip` are attributes of the same form; `on` has listeners, `style` custom properties, `data` data
// attributes. Other properties are attributes; `true` is an empty one, and `false` or absent is none.
export function h(name, properties = {}, ...children) {
  return build(document.createElement(name), properties, children);
}

// An SVG element.
export function svg(name, properties = {}, ...children) {
  return build(document.createElementNS(SVG, name), properties, children);
}

const TRANSLATED = { label: "aria-label", hint: "placeholder", tip: "title" };

function build(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      Object.entries(value).forEach(([event, listener]) => node.addEventListener(event, listener));
    } else if (name === "t") {
      say(node, value);
    } else if (name in TRANSLATED) {
      sayAttribute(node, TRANSLATED[name], value);
    } else if (name === "style") {
      Object.entries(value).forEach(([property, of]) => node.style.setProperty(property, of));
    } else if (name === "data") {
      Object.assign(node.dataset, value);
    } else {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  node.append(...present(children));
  return node;
}

const present = (children) => children.flat(Infinity).filter((child) => child || child === 0);

const text = (message) => (Array.isArray(message) ? t(...message) : t(message));

// Sets the text of an element in the language of the page, now and when the language changes.
export function say(node, message) {
  bind(node, "text", () => {
    node.textContent = message ? text(message) : "";
  });
  return node;
}

// A value that follows the language, such as a number.
export function translated(value) {
  const node = h("span", {});
  bind(node, "text", () => {
    node.textContent = value();
  });
  return node;
}

// Sets an attribute in the language of the page.
export function sayAttribute(node, name, message) {
  bind(node, name, () => node.setAttribute(name, text(message)));
  return node;
}

// Replaces the children of an element.
export function fill(node, ...children) {
  node.replaceChildren(...present(children));
  return node;
}

// Shows or hides an element.
export function show(node, isShown) {
  node.hidden = !isShown;
  return node;
}

let ids = 0;

// A new id for `aria-describedby`, `for` and the like.
export function newId(stem) {
  ids += 1;
  return `${stem}-${ids}`;
}

// A label above a field, with an optional note under it.
export function field(message, input, note) {
  const id = input.id || newId("field");
  input.id = id;
  const below = note && h("p", { class: "note", id: `${id}-note`, t: note });
  if (below) input.setAttribute("aria-describedby", below.id);
  return h("div", { class: "field" }, h("label", { for: id, t: message }), input, below);
}

// A button.
export function button(message, listener, properties = {}) {
  return h("button", { type: "button", t: message, on: { click: listener }, ...properties });
}

// A group of radio buttons that looks like a row of tabs. `choose` gets the chosen value.
export function choice(label, values, chosen, choose) {
  const name = newId("choice");
  const radio = ([value, message]) => {
    const input = h("input", { type: "radio", name, value, checked: value === chosen });
    input.addEventListener("change", () => choose(value));
    return h("label", {}, input, h("span", { t: message }));
  };
  const group = h("div", { class: "choice", role: "radiogroup", label }, values.map(radio));
  // Marks another value as chosen, without a call of `choose`.
  group.set = (value) => {
    group.querySelectorAll("input").forEach((input) => {
      input.checked = input.value === value;
    });
  };
  return group;
}

// A number with its name under it.
export function figure(message, value, note) {
  return h(
    "div",
    { class: "figure" },
    h("dt", { t: message }),
    h("dd", {}, value),
    note && h("dd", { class: "note", t: note }),
  );
}

// Says that one text stands in another; nothing if it does not.
export function partOf(relation, message) {
  const isPart = relation === "contained_in" || relation === "contains";
  return isPart && h("span", { class: "tag warn", t: message });
}

// The head of a table. The last `right` columns have numbers.
export function tableHead(messages, right = 0) {
  const of = (message, at) => {
    const isNumber = at >= messages.length - right;
    return h("th", { scope: "col", class: isNumber ? "num" : null, t: message });
  };
  return h("thead", {}, h("tr", {}, messages.map(of)));
}

// A notice: `bad`, `warn`, `good` or `plain`.
export function notice(kind, ...children) {
  return h("div", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : "status" }, ...children);
}
