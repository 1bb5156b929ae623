// The page that measures which k suits the texts of a collection, and applies it.

import { guard } from "./access.js";
import { at, call, get, post } from "./api.js";
import { lines } from "./charts.js";
import { button, choice, field, figure, fill, h, notice, say, show, translated } from "./dom.js";
import { bytes, number, percent, significant, time } from "./format.js";
import { t } from "./i18n.js";
import { records } from "./lines.js";
import { chosen, chosenName, load, onPick } from "./pick.js";
import { problem } from "./problems.js";
import { reindex } from "./reindex.js";
import { address } from "./route.js";

// Milliseconds between two looks at a running calibration.
const EVERY = 800;
// Texts of an uploaded sample, and its characters: the server takes one body of at most 32 MiB.
const SAMPLE = 5000;
const SAMPLE_CHARACTERS = 8 << 20;
const LEAST_TEXTS = 100;
// The least number of documents that is assumed if the user names none.
const LEAST_DOCUMENTS = 10_000;

// Builds the page.
export function create() {
  const file = h("input", { type: "file", accept: ".jsonl,.ndjson,.json,.csv,.tsv,.gz" });
  const sample = show(field("calibrate.file", file), false);
  const documents = h("input", {
    type: "number",
    min: "1",
    step: "1",
    class: "short",
  });
  const share = h("input", {
    type: "number",
    min: "0.1",
    max: "100",
    step: "any",
    class: "short",
    placeholder: "10",
  });
  const run = button("calibrate.run", () => begin(), { class: "primary" });
  const end = button("calibrate.end", () => forget(), { class: "quiet" });
  const state = h("div", { "aria-live": "polite" });
  const result = h("div", { class: "result" });
  const hint = h("div", {});
  let source = "collection";
  let timer = 0;
  let shown = null;
  const sources = choice(
    "calibrate.source",
    [
      ["collection", "calibrate.source.collection"],
      ["file", "calibrate.source.file"],
    ],
    source,
    (value) => {
      source = value;
      show(sample, value === "file");
      fit();
    },
  );
  const reason = guard(run, "admin", chosenName);
  const node = h(
    "div",
    { class: "page" },
    h("div", { class: "head" }, h("h1", { t: "calibrate.title" }), h("p", { t: "calibrate.intro" })),
    h(
      "section",
      { class: "panel" },
      h(
        "div",
        { class: "row fields" },
        h("div", { class: "field" }, h("span", { class: "label", t: "calibrate.source" }), sources),
        sample,
        field("calibrate.documents", documents, "calibrate.documents.note"),
        field("calibrate.share", share, "calibrate.share.note"),
      ),
      hint,
      h("div", { class: "row actions" }, run, end),
      reason,
    ),
    state,
    result,
  );

  onPick(() => {
    fit();
    run.checkAccess();
    if (chosenName() !== shown && !node.hidden && node.isConnected) look();
  });

  function fit() {
    const collection = chosen();
    // Wrong neighbours are rare among few documents, so a small collection is assumed to grow.
    documents.placeholder = String(Math.max(LEAST_DOCUMENTS, collection?.documents ?? 0));
    const isWithout = source === "collection" && collection && !collection.keep_text;
    fill(hint, isWithout && notice("warn", h("span", { t: "calibrate.notext" })));
  }

  async function begin() {
    fill(state);
    try {
      const body = {};
      const collection = chosen();
      body.documents = Number(documents.value || documents.placeholder);
      if (share.value !== "") body.duplicate_share = Number(share.value) / 100;
      const own = collection.profile;
      body.profiles = [...new Set(["copies-64", "copies-128", "minhash-copies", own])];
      if (source === "file") {
        if (!file.files[0]) return fill(state, notice("warn", h("span", { t: "calibrate.nofile" })));
        body.texts = await sampleOf(file.files[0]);
        if (body.texts.length < LEAST_TEXTS) {
          return fill(
            state,
            notice(
              "warn",
              h("span", { t: ["calibrate.few", { n: body.texts.length, least: LEAST_TEXTS }] }),
            ),
          );
        }
      }
      draw(await post(at(collection.name, "/calibrate"), body));
    } catch (error) {
      fill(state, problem(error));
    }
  }

  async function forget() {
    try {
      await call("DELETE", at(chosenName(), "/calibrate"));
      look();
    } catch (error) {
      fill(state, problem(error));
    }
  }

  async function look() {
    clearTimeout(timer);
    const name = chosenName();
    shown = name;
    try {
      const calibration = await get(at(name, "/calibrate"));
      if (name === chosenName()) draw(calibration);
    } catch (error) {
      fill(result);
      show(end, false);
      fill(state, error.code === "no_calibration" ? null : problem(error));
    }
  }

  function draw(calibration) {
    clearTimeout(timer);
    show(end, true);
    if (calibration.state === "running") {
      say(end, "calibrate.end");
      fill(state, progress(calibration));
      fill(result);
      timer = setTimeout(look, EVERY);
    } else if (calibration.state === "failed") {
      say(end, "calibrate.forget");
      fill(
        state,
        notice(
          "bad",
          h("strong", { t: "calibrate.failed" }),
          h("p", {}, calibration.error?.detail ?? ""),
        ),
      );
    } else {
      say(end, "calibrate.forget");
      fill(state);
      fill(result, ...report(calibration));
    }
  }

  return { node, show: look };
}

// The texts of a file, at most as many as a calibration takes.
async function sampleOf(file) {
  const texts = [];
  let length = 0;
  for await (const some of records(file, { text: "text", id: "id" }, () => {})) {
    for (const { document } of some) {
      if (typeof document?.text !== "string" || document.text === "") continue;
      texts.push(document.text);
      length += document.text.length;
      if (texts.length === SAMPLE || length > SAMPLE_CHARACTERS) return texts;
    }
  }
  return texts;
}

function progress({
  progress: { documents_read: read, documents, profiles_measured: measured, profiles },
}) {
  const isReading = read < documents;
  const share = isReading
    ? (read / Math.max(1, documents)) * 0.3
    : 0.3 + (measured / Math.max(1, profiles)) * 0.7;
  const message = isReading
    ? ["calibrate.reading", { n: read, all: documents }]
    : ["calibrate.measuring", { n: measured, all: profiles }];
  return h(
    "section",
    { class: "panel" },
    h("p", { class: "lead", t: message }),
    h("progress", { max: "1", value: share.toFixed(3), label: message }),
  );
}

// The result: the recommendation, and the curves of each profile.
function report({ result, ended_at: endedAt }) {
  const measured = [
    ...result.profiles.map((profile) => ({ ...profile, curve: profile.points })),
    ...(result.signatures ?? []).map((profile) => ({
      ...profile,
      curve: profile.thresholds,
      isSigned: true,
    })),
  ];
  const own = chosen()?.profile;
  const first = measured.find(({ profile }) => profile === own) ?? measured[0];
  const place = h("div", {});
  const tabs = choice(
    "calibrate.profile",
    measured.map(({ profile }) => [profile, ["calibrate.tab", { profile }]]),
    first.profile,
    (wanted) =>
      fill(
        place,
        curves(
          measured.find(({ profile }) => profile === wanted),
          result,
        ),
      ),
  );
  fill(place, curves(first, result));
  const { recommended, assumptions } = result;
  const facts = {
    n: result.texts,
    size: () => bytes(result.bytes),
    pairs: result.pairs,
    time: () => time(endedAt),
  };
  const assumed = { n: assumptions.documents, share: () => percent(assumptions.duplicate_share, 1) };
  return [
    h(
      "section",
      { class: "panel" },
      h("h2", { t: "calibrate.result" }),
      recommended
        ? h("p", {
            class: "lead",
            t: [
              "calibrate.recommended",
              {
                profile: recommended.profile,
                k: recommended.k,
                recall: () => percent(recommended.recall, 1),
                precision: () => percent(recommended.precision, 1),
              },
            ],
          })
        : notice("warn", h("span", { t: "calibrate.nothing" })),
      h("p", { class: "note", t: ["calibrate.facts", facts] }),
      h("p", { class: "note", t: ["calibrate.assumed", assumed] }),
    ),
    h("section", { class: "panel" }, tabs, place),
  ];
}

// The best k of a profile: the largest whose precision the server promises, as in its recommendation.
function recommendedK(measured, result) {
  const given = [result.recommended, result.recommended_with_this_profile].find(
    (one) => one?.profile === measured.profile,
  );
  return given?.k ?? null;
}

function curves(measured, result) {
  const points = measured.curve;
  const best = recommendedK(measured, result);
  const isOwn = chosen()?.profile === measured.profile;
  const used = () => (isOwn ? (chosen()?.k ?? null) : null);
  let at_ = best ?? used() ?? points[Math.floor(points.length / 2)].k;
  const range = h("input", {
    type: "range",
    min: "0",
    max: String(points.length - 1),
    step: "1",
    label: "calibrate.k",
  });
  const readout = h("dl", { class: "figures" });
  const plain = h("p", { class: "lead", "aria-live": "polite" });
  const apply = button("calibrate.apply", () => use(), { class: "primary" });
  const applied = h("div", { "aria-live": "polite" });
  const reason = guard(apply, "admin", chosenName);
  const marks = () =>
    [
      best !== null && { at: best, name: t("calibrate.mark.best", { k: best }), className: "best" },
      used() !== null &&
        used() !== best && {
          at: used(),
          name: t("calibrate.mark.used", { k: used() }),
          className: "used",
        },
      { at: at_, name: at_ === best || at_ === used() ? "" : `k = ${at_}`, className: "here" },
    ].filter(Boolean);
  const x = {
    min: points[0].k,
    max: points.at(-1).k,
    label: () => t(measured.isSigned ? "calibrate.cells" : "calibrate.bits"),
  };
  const of = (name) =>
    points.map((point) => [
      point.k,
      point[name],
      point[`${name}_interval`].low,
      point[`${name}_interval`].high,
    ]);
  const shares = lines({
    height: 300,
    label: () => t("calibrate.chart.shares"),
    x,
    marks,
    series: [
      { className: "precision", points: of("precision") },
      { className: "recall", points: of("recall") },
    ],
    y: { ticks: [0, 0.25, 0.5, 0.75, 1], format: (value) => percent(value), scale: (value) => value },
  });
  const [low, high] = [
    -6,
    Math.max(0, Math.ceil(Math.log10(Math.max(...points.map((point) => point.false_neighbours), 1)))),
  ];
  const log = (value) =>
    Math.min(1, Math.max(0, (Math.log10(Math.max(value, 1e-9)) - low) / (high - low)));
  const powers = Array.from({ length: high - low + 1 }, (_, index) => low + index).filter(
    (power) => power % 2 === 0,
  );
  const wrong = lines({
    height: 220,
    label: () => t("calibrate.chart.wrong"),
    x,
    marks,
    series: [{ className: "wrong", points: of("false_neighbours") }],
    y: { ticks: powers.map((power) => 10 ** power), format: (value) => power(value), scale: log },
  });

  function fit() {
    const point = points.find(({ k }) => k === at_) ?? points[0];
    const between = ({ low: from, high: to }) => [
      "calibrate.between",
      { low: () => percent(from, 1), high: () => percent(to, 1) },
    ];
    fill(
      readout,
      figure(
        "calibrate.k",
        h("span", {}, String(point.k)),
        point.threshold === undefined
          ? null
          : ["calibrate.similarity", { share: () => percent(point.threshold) }],
      ),
      figure(
        "calibrate.recall",
        translated(() => percent(point.recall, 1)),
        between(point.recall_interval),
      ),
      figure(
        "calibrate.precision",
        translated(() => percent(point.precision, 1)),
        between(point.precision_interval),
      ),
      figure(
        "calibrate.wrong",
        translated(() => significant(point.false_neighbours)),
        point.extrapolated ? "calibrate.extrapolated" : null,
      ),
    );
    range.value = points.indexOf(point);
    const facts = { k: point.k, name: chosenName(), profile: measured.profile };
    say(apply, [isOwn ? "calibrate.apply" : "calibrate.reindex", facts]);
    const of100 = (share) => Math.round(100 * share);
    const facts100 = { k: point.k, right: of100(point.precision), found: of100(point.recall) };
    say(plain, ["calibrate.plain", facts100]);
    shares.redraw();
    wrong.redraw();
  }

  async function use() {
    const point = points.find(({ k }) => k === at_);
    if (!isOwn) return reindex({ profile: measured.profile, k: point.k }, applied);
    try {
      await call("PUT", at(chosenName()), { body: { k: point.k } });
      fill(
        applied,
        notice("good", h("span", { t: ["calibrate.applied", { k: point.k, name: chosenName() }] })),
      );
      await load();
      fit();
    } catch (error) {
      fill(applied, problem(error));
    }
  }

  range.addEventListener("input", () => {
    at_ = points[Number(range.value)].k;
    fit();
  });
  show(apply, isOwn);
  show(reason, isOwn && !reason.hidden);
  fit();
  const legend = (names) =>
    h(
      "p",
      { class: "legend" },
      names.map((name) =>
        h(
          "span",
          { class: "key" },
          h("i", { class: `swatch ${name}` }),
          h("span", { t: `calibrate.${name}` }),
        ),
      ),
    );
  const facts = {
    speed: () => bytes(measured.bytes_per_second),
    memory: () => number(measured.index_bytes_per_document, 1),
    short: measured.short,
  };
  return h(
    "div",
    { class: "stack" },
    h("h3", { t: "calibrate.chart.shares" }),
    legend(["precision", "recall"]),
    shares,
    h("label", { class: "slider wide" }, h("span", { t: "calibrate.move" }), range),
    plain,
    readout,
    best === null && h("p", { class: "note", t: ["calibrate.nobest", { profile: measured.profile }] }),
    h(
      "div",
      { class: "row" },
      apply,
      h("a", {
        class: "small",
        href: address("find", { collection: chosenName() }),
        t: "calibrate.similarity.try",
      }),
    ),
    h("p", {
      class: "note",
      t: isOwn ? "calibrate.next" : ["calibrate.other", { profile: measured.profile }],
    }),
    reason,
    applied,
    h("h3", { t: "calibrate.chart.wrong" }),
    wrong,
    h("p", { class: "note", t: ["calibrate.costs", facts] }),
  );
}

// A power of ten.
function power(value) {
  const exponent = Math.round(Math.log10(value));
  const digits = String(Math.abs(exponent)).replace(
    /./g,
    (digit) => "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"[digit],
  );
  return exponent === 0 ? "1" : `10${exponent < 0 ? "\u207b" : ""}${digits}`;
}
