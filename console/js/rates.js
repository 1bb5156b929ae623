// Live rates of lookups and writes with their times, from two readings of the metrics of the server.

import { refusal } from "./access.js";
import { check, send } from "./api.js";
import { spark } from "./charts.js";
import { fill, h, notice, say, translated } from "./dom.js";
import { significant, span } from "./format.js";
import { t } from "./i18n.js";
import { problem } from "./problems.js";

// Milliseconds between two readings, and readings that are kept.
const EVERY = 2000;
const KEPT = 60;
// Readings over which the times are taken.
const TIMES_OVER = 15;

const LOOKUPS = /^lookalike_http_request_seconds_(bucket|count)\{.*route="[^"]*\/similar".*\} (.*)$/;
const COMMITS = /^lookalike_commit_seconds_(bucket|count)\{?.*?\}? (.*)$/;
const CHANGES = /^lookalike_commit_changes_sum\S* (.*)$/;

// Adds the buckets of a histogram: upper end to number of events.
function add(histogram, line, [, kind, value]) {
  if (kind === "count") histogram.count += Number(value);
  else {
    const end = Number(/le="([^"]+)"/.exec(line)[1].replace("+Inf", "Infinity"));
    histogram.buckets.set(end, (histogram.buckets.get(end) ?? 0) + Number(value));
  }
}

// The figures of a page of metrics.
export function parse(text) {
  const empty = () => ({ count: 0, buckets: new Map() });
  const found = { lookups: empty(), commits: empty(), changes: 0 };
  for (const line of text.split("\n")) {
    const [lookup, commit, changes] = [LOOKUPS, COMMITS, CHANGES].map((pattern) => pattern.exec(line));
    if (lookup) add(found.lookups, line, lookup);
    if (commit) add(found.commits, line, commit);
    if (changes) found.changes += Number(changes[1]);
  }
  return found;
}

// A quantile of the events between two readings, by linear interpolation within a bucket; `null` without
// events.
export function quantile(from, to, share) {
  const total = to.count - from.count;
  if (total <= 0) return null;
  let start = 0;
  let before = 0;
  for (const [end, value] of [...to.buckets].sort(([one], [other]) => one - other)) {
    const upTo = value - (from.buckets.get(end) ?? 0);
    if (upTo >= share * total) {
      if (end === Infinity) return start;
      return start + ((share * total - before) / (upTo - before || 1)) * (end - start);
    }
    [start, before] = [end, upTo];
  }
  return start;
}

// The live figures. They are read while `isShown`.
export function rates(isShown) {
  const readings = [];
  const node = h("div", {});
  const lookups = pane("rates.lookups", "rates.persecond.lookups");
  const writes = pane("rates.writes", "rates.persecond.writes");
  let isReading = false;

  function pane(title, unit) {
    const values = [];
    const now = h("strong", {}, "\u2013");
    const times = h("p", { class: "note" });
    const line = spark({ height: 44, label: () => t(title), values: () => values, most: KEPT });
    return {
      node: h(
        "div",
        { class: "rate" },
        h("h3", { t: title }),
        h("p", {}, now, " ", h("span", { class: "note", t: unit })),
        line,
        times,
      ),
      push(rate, from, to) {
        values.push(rate);
        if (values.length > KEPT) values.shift();
        fill(
          now,
          translated(() => significant(rate)),
        );
        const [p50, p99] = [0.5, 0.99].map((share) => quantile(from, to, share));
        say(
          times,
          p50 === null ? "rates.idle" : ["rates.times", { p50: () => span(p50), p99: () => span(p99) }],
        );
        line.redraw();
      },
    };
  }

  async function read() {
    if (!isShown() || isReading || document.hidden) return;
    const why = refusal("read", null);
    if (why)
      return fill(node, notice("plain", h("span", { t: "rates.refused" }), " ", h("span", { t: why })));
    isReading = true;
    try {
      const response = await check(await send("GET", "/metrics"));
      readings.push({ at: performance.now(), ...parse(await response.text()) });
      if (readings.length > TIMES_OVER) readings.shift();
      if (!lookups.node.isConnected) fill(node, h("div", { class: "rates" }, lookups.node, writes.node));
      if (readings.length > 1) {
        const [first, last, now] = [readings[0], readings.at(-2), readings.at(-1)];
        const seconds = (now.at - last.at) / 1000;
        // The counts fall if the server was restarted.
        lookups.push(
          Math.max(0, now.lookups.count - last.lookups.count) / seconds,
          first.lookups,
          now.lookups,
        );
        writes.push(Math.max(0, now.changes - last.changes) / seconds, first.commits, now.commits);
      }
    } catch (error) {
      fill(node, problem(error));
    } finally {
      isReading = false;
    }
  }

  setInterval(read, EVERY);
  return { node, read };
}
