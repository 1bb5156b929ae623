// The headline of a document: a metadata field that the user picks, or the first line of its text. Texts are
// read as they are needed, a few at a time, and kept while the collection is chosen.

import { documentPath, get } from "./api.js";
import { chosen, chosenName, onPick } from "./pick.js";

const STORED = "lookalike.headline";
// Characters of a headline, requests at a time, and documents that are kept.
const LENGTH = 120;
const AT_ONCE = 4;
const KEPT = 2000;

const known = new Map();
let waiting = [];
let running = 0;
let of = null;
onPick(() => {
  if (of !== chosenName()) known.clear();
  of = chosenName();
});

// The metadata field whose value is the headline; empty for the first line of the text.
export const headlineField = () => localStorage.getItem(STORED) ?? "";
export const setHeadlineField = (name) => localStorage.setItem(STORED, name);

const firstLine = (text) => {
  const line = text.trimStart().split("\n", 1)[0].trim();
  const short = [...line.slice(0, 2 * LENGTH)].slice(0, LENGTH).join("");
  return short.length < line.length ? `${short}\u2026` : short;
};

// What a metadata value looks like as one line.
export const asLine = (value) => (typeof value === "string" ? value : JSON.stringify(value));

// The headline of a document as far as it is known; empty if it is not.
export function headline(document) {
  const value = headlineField() && document.metadata?.[headlineField()];
  if (value !== undefined && value !== null && value !== "") return firstLine(asLine(value));
  const text = document.text ?? known.get(document.id)?.text;
  return text ? firstLine(text) : "";
}

// A whole document, read once. A document that does not exist is `null`, and so is one that is read for its
// headline (`isForLine`) and is out of sight before its turn.
export function whole(id, isForLine = false) {
  const held = known.get(id);
  if (held) return Promise.resolve(held);
  return new Promise((done, fail) => {
    waiting.push({ id, done, fail, isForLine, name: chosenName() });
    next();
  });
}

async function next() {
  if (running >= AT_ONCE || waiting.length === 0) return;
  running += 1;
  const { id, done, fail, name } = waiting.shift();
  try {
    const document = known.get(id) ?? (await get(documentPath(name, id)));
    if (name === chosenName()) {
      known.set(id, document);
      if (known.size > KEPT) known.delete(known.keys().next().value);
    }
    done(document);
  } catch (error) {
    if (error.code === "no_document") done(null);
    else fail(error);
  } finally {
    running -= 1;
    next();
  }
}

// Forgets a document that was changed.
export const forget = (id) => known.delete(id);

// Reads the texts of documents without a headline, if the collection keeps texts; `then` is called for each.
export function readHeadlines(documents, then) {
  const isPassed = (one) => one.isForLine;
  waiting.filter(isPassed).forEach(({ done }) => done(null));
  waiting = waiting.filter((one) => !isPassed(one));
  if (!chosen()?.keep_text) return;
  documents
    .filter((document) => !headline(document) && !known.has(document.id))
    .forEach(({ id }) =>
      whole(id, true).then(
        (found) => found && then(id),
        () => {},
      ),
    );
}
