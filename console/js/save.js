// Files that the user gets: rows as CSV (RFC 4180), objects as JSON lines.

import { h } from "./dom.js";

const cell = (value) => {
  if (value === undefined || value === null) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

// Rows of cells as CSV. The byte order mark makes Excel read it as UTF-8.
export const csv = (rows) => `\ufeff${rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("")}`;

// Objects as JSON lines.
export const jsonLines = (objects) => objects.map((object) => `${JSON.stringify(object)}\n`).join("");

// Documents as CSV: the known members, then a column for each metadata field.
export function documentsCsv(documents) {
  const own = ["id", "written_at", "expires_at", "deletion_at", "hash", "text"];
  const fields = [...new Set(documents.flatMap((one) => Object.keys(one.metadata ?? {})))].sort();
  const row = (one) => [...own.map((name) => one[name]), ...fields.map((name) => one.metadata?.[name])];
  return csv([[...own, ...fields.map((name) => `metadata.${name}`)], ...documents.map(row)]);
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
