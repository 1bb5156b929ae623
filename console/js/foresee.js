// The dry run of a whole file: its documents are sent in parts, and the server compares each with what is
// stored and with all parts before it.

import { at, check, send } from "./api.js";
import { records } from "./lines.js";
import { chosenName } from "./pick.js";
import { bySkip } from "./preview.js";

// Characters and documents of a part; how often a busy server is asked again, and after how many seconds.
const CHARACTERS = 256 * 1024;
const DOCUMENTS = 500;
const PATIENCE = 30;
const WAIT = 10;
// Invalid records that are kept, to be had as a file.
const KEPT = 10_000;

const newName = () => [...crypto.getRandomValues(new Uint8Array(12))].map((one) => one.toString(16)).join("");

async function ask(path, body) {
  for (let attempt = 1; ; attempt += 1) {
    const response = await send("POST", path, { body, type: "application/json" });
    const isBusy = response.status === 429 || response.status === 503;
    if (!isBusy || attempt === PATIENCE) return (await check(response)).json();
    const seconds = Math.min(WAIT, Number(response.headers.get("retry-after")) || 1);
    await new Promise((done) => setTimeout(done, seconds * 1000));
  }
}

// Compares the whole file. `progress` gets the counts and the bytes that were read; `isOver` ends it.
export async function foresee(file, fields, form, rule, { isOver, progress }) {
  const [name, run] = [chosenName(), newName()];
  const counts = { n: 0, fresh: 0, known: 0, stored: 0, earlier: 0, errors: 0, left: 0, replaced: 0 };
  const [reasons, invalid] = [new Map(), []];
  let [bytes, sent, length] = [0, 0, 0];
  let part = [];
  const refuse = (record, why) => {
    counts.errors += 1;
    const key = JSON.stringify(why);
    reasons.set(key, { why, n: (reasons.get(key)?.n ?? 0) + 1 });
    if (invalid.length < KEPT) invalid.push({ record, why });
  };
  const found = () => ({ counts, invalid, reasons: [...reasons.values()].sort((a, b) => b.n - a.n) });
  async function flush() {
    if (part.length === 0) return;
    const query = new URLSearchParams({ ...rule, run, from: sent });
    const body = `[${part.map((record) => record.line).join(",")}]`;
    const answer = await ask(at(name, `/preview/documents?${query}`), body);
    answer.results.forEach(({ error }, place) => error && refuse(part[place], error.detail));
    counts.fresh += answer.new;
    counts.known += answer.known;
    counts.stored += answer.near_stored;
    counts.earlier += answer.near_earlier;
    const { left, replaced } = bySkip(answer.results);
    counts.left += left;
    counts.replaced += replaced;
    sent += part.length;
    [part, length] = [[], 0];
    progress(found(), bytes);
  }
  for await (const some of records(file, fields, (read) => (bytes = read), form)) {
    for (const record of some) {
      if (isOver()) return null;
      if (record.header) continue;
      counts.n += 1;
      if (record.line) {
        part.push(record);
        length += record.line.length;
      } else refuse(record, [record.error, record.values ?? {}]);
      if (length >= CHARACTERS || part.length >= DOCUMENTS) await flush();
    }
  }
  await flush();
  return found();
}
