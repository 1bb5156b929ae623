// Numbers, sizes and times as people read them, in the language of the page.

import { tag, t } from "./i18n.js";

// A number with few digits.
export function number(value, digits = 0) {
  return value.toLocaleString(tag(), { maximumFractionDigits: digits });
}

// A number in three significant digits.
export function significant(value) {
  return value.toLocaleString(tag(), { maximumSignificantDigits: 3 });
}

// A share as a percentage. 100 % and 0 % are exact.
export function percent(share, digits = 0) {
  const step = 10 ** -(digits + 2);
  const kept = share < 1 ? Math.min(share, 1 - step) : share;
  return (kept > 0 ? Math.max(kept, step) : kept).toLocaleString(tag(), {
    style: "percent",
    maximumFractionDigits: digits,
  });
}

// A number of bytes.
export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = value < 1024 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), units.length - 1);
  return `${number(value / 1024 ** power, power && value / 1024 ** power < 100 ? 1 : 0)} ${units[power]}`;
}

// A time span from seconds.
export function span(seconds) {
  if (seconds < 1e-3) return t("span.us", { n: significant(seconds * 1e6) });
  if (seconds < 1) return t("span.ms", { n: significant(seconds * 1e3) });
  if (seconds < 120) return t("span.s", { n: significant(seconds) });
  if (seconds < 7200) return t("span.min", { n: number(seconds / 60) });
  if (seconds < 172800) return t("span.h", { n: number(seconds / 3600) });
  return t("span.d", { n: number(seconds / 86400) });
}

// A point in time.
export function time(text) {
  return new Date(text).toLocaleString(tag(), { dateStyle: "medium", timeStyle: "short" });
}

// The number of bytes of a text in UTF-8.
export const utf8Length = (text) => new TextEncoder().encode(text).length;
