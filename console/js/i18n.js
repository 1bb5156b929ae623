// The language of the page: that of the browser, or the one that the user chose. A change translates what is
// shown in place, so no input and no result is lost.

import { enWork } from "./en-work.js";
import { en } from "./en.js";
import { zhWork } from "./zh-work.js";
import { zh } from "./zh.js";

const DICTIONARIES = { en: { ...en, ...enWork }, zh: { ...zh, ...zhWork } };
const STORED = "lookalike.language";

// What to do when the language changes: for each element the attributes, or the text, that it translates.
const bound = new Set();
let language = initial();

function initial() {
  const stored = localStorage.getItem(STORED);
  if (stored in DICTIONARIES) return stored;
  const wanted = navigator.languages.map((tag) => tag.slice(0, 2).toLowerCase());
  return wanted.find((tag) => tag in DICTIONARIES) ?? "en";
}

// The language, `en` or `zh`.
export const current = () => language;

// The tag of the language, for formats of numbers and dates.
export const tag = () => (language === "zh" ? "zh-CN" : "en");

// Chooses a language.
export function choose(chosen) {
  language = chosen;
  localStorage.setItem(STORED, chosen);
  apply();
}

// Translates everything that is bound.
export function apply() {
  document.documentElement.lang = tag();
  for (const reference of bound) {
    const node = reference.deref();
    if (node) Object.values(node.translated).forEach((translate) => translate());
    else bound.delete(reference);
  }
}

// Runs `translate` now and at each change of the language, while the element exists.
export function bind(node, what, translate) {
  if (!node.translated) {
    node.translated = {};
    bound.add(new WeakRef(node));
  }
  node.translated[what] = translate;
  translate();
}

// Whether a dictionary has a text for a key.
export const has = (key) => key in DICTIONARIES[language];

const shown = (value) => {
  const plain = typeof value === "function" ? value() : value;
  return typeof plain === "number" ? plain.toLocaleString(tag()) : plain;
};

// The text of a key. `{name}` is replaced by a value, and `{name|document|documents}` by a number and the
// word for it. A value may be a function, which is called again when the language changes.
export function t(key, values = {}) {
  const text = DICTIONARIES[language][key] ?? key;
  return text.replace(/\{(\w+)(?:\|([^|}]*)\|([^|}]*))?\}/g, (_, name, one, many) => {
    const value = shown(values[name]);
    return one === undefined ? value : `${value} ${values[name] === 1 ? one : many}`;
  });
}
