// Files that the user gets: rows as CSV (RFC 4180), objects as JSON lines.

import { h } from "./dom.js";
import { lines } from "./lines.js";

const cell = (value) => {
  if (value === undefined || value === null) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

const rows = (all) => all.map((row) => `${row.map(cell).join(",")}\r\n`).join("");

// Rows of cells as CSV. The byte order mark makes Excel read it as UTF-8.
export const csv = (all) => `\ufeff${rows(all)}`;

// Objects as JSON lines.
export const jsonLines = (objects) => objects.map((object) => `${JSON.stringify(object)}\n`).join("");

const OWN = ["id", "written_at", "expires_at", "deletion_at", "hash", "text"];

// Documents as CSV: the known members, then a column for each metadata field.
export const documentsCsv = (documents) => table(() => [documents]);

// An export, a blob of JSON lines, as CSV. It is read twice, so that only a part of it is held at a time.
export function exportCsv(blob) {
  const file = new File([blob], "export.jsonl");
  return table(async function* () {
    for await (const some of lines(file, () => {}))
      yield some
        .filter(({ text }) => text)
        .map(({ text }) => JSON.parse(text))
        .filter((one) => !one.export)
        .map((one) => ({ ...one, ...one.exported }));
  });
}

// The table of documents that come in parts, twice.
async function table(parts) {
  const names = new Set();
  for await (const part of parts())
    part.forEach((one) => Object.keys(one.metadata ?? {}).forEach((name) => names.add(name)));
  const fields = [...names].sort();
  const row = (one) => [...OWN.map((name) => one[name]), ...fields.map((name) => one.metadata?.[name])];
  const made = [csv([[...OWN, ...fields.map((name) => `metadata.${name}`)]])];
  for await (const part of parts()) made.push(new Blob([rows(part.map(row))]));
  return new Blob(made, { type: "text/csv" });
}

// Hands a text or a blob over as a file.
export function save(name, content, type = "text/plain") {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const address = URL.createObjectURL(blob);
  const link = h("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
