// Sample data: 200 made texts in English and Chinese, a quarter of them edited copies of others.

import { at, call, check, send } from "./api.js";

// The collection of the sample.
export const SAMPLE = "sample";
// Texts of each language that are no copies, and sentences of each.
const ORIGINALS = 75;
const LENGTH = 14;
const SOURCES = ["city-news", "harbour-post", "evening"];

const words = (text) => text.trim().split(/\s+/);
const EN = {
  who: words(`
    baker teacher sailor painter gardener student neighbour nurse farmer clerk singer driver carpenter
    judge fisher tailor doctor miller postman librarian cook mason weaver guide
  `),
  how: words(`
    old narrow quiet crowded wooden forgotten bright wet famous empty small northern broken blue painted
    steep distant lonely busy cheap modern frozen round southern
  `),
  what: words(`
    bridge orchard market theatre harbour station garden river museum tower mill chapel square tunnel
    factory school lighthouse forest meadow castle bakery archive workshop quarry
  `),
  did: words(`
    visited repaired measured described painted crossed opened closed photographed counted moved sold
    rented cleaned praised inspected admired mapped lit heated guarded drew missed found
  `),
  when: words(`
    yesterday today again early late twice often seldom alone together quickly slowly gladly silently
    finally nearly almost perhaps first once daily soon already never
  `),
};
const ZH = {
  who: words(`
    面包师 老师 水手 画家 园丁 学生 邻居 护士 农民 店员 歌手 司机 木匠 法官
    渔夫 裁缝 医生 邮递员 厨师 导游
  `),
  how: words(`
    古老的 狭窄的 安静的 拥挤的 木制的 明亮的 著名的 空旷的 北方的 破旧的
    彩色的 陡峭的 遥远的 热闹的 便宜的 现代的
  `),
  what: words(`
    大桥 果园 市场 剧院 港口 车站 花园 博物馆 高塔 磨坊 广场 隧道 图书馆
    学校 灯塔 森林 城堡 工厂 采石场 档案馆
  `),
  did: words(`
    参观了 修理了 测量了 描写了 打开了 关闭了 清点了 搬走了 打扫了 称赞了
    照亮了 找到了 拍摄了 卖掉了 租下了 看守着
  `),
  when: words(`
    昨天 今天 清晨 深夜 独自 一起 很快地 慢慢地 高兴地 悄悄地 最后 偶尔
    两次 每天 中午 去年
  `),
};

// The same numbers each time, so that the sample is the same everywhere (mulberry32).
function numbers(seed) {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

// In a sentence a name stands for one of its words, and `#` for a number.
const SENTENCES = {
  en: [
    "The {how} {who} {did} the {what} {when}, # people say.",
    "Near the {how} {what}, # {how} boats {when} met a {who}.",
    '"{what} and {what} are {how}", wrote a {who} who {when} {did} both.',
    "In # days no {who} has {did} this {how} {what} so {when}.",
  ],
  zh: [
    "{when}，{how}{who}{did}{how}{what}。",
    "{what}旁边有#名{who}，他们{when}{did}{what}。",
    "据{who}说，{how}{what}{when}接待了#位客人。",
    "{who}{when}给{who}写信，谈到{how}{what}。",
  ],
};
const TITLES = { en: "The {how} {what}", zh: "{how}{what}" };
const WORDS = { en: EN, zh: ZH };
// What is changed in a copy.
const EDITS = {
  en: [
    ["wrote", "said"],
    ["people say", "people think"],
    ["Near the", "Behind the"],
  ],
  zh: [
    ["他们", "大家"],
    ["谈到", "提到"],
    ["接待了", "迎来了"],
  ],
};

// The documents of the sample.
export function documents() {
  const n = numbers(7);
  const all = [];
  for (const language of ["en", "zh"]) {
    const pick = (list) => list[n(list.length)];
    const filled = (text) =>
      text.replace(/\{(\w+)\}|#/g, (_, kind) =>
        kind ? pick(WORDS[language][kind]) : String(n(900) + 2),
      );
    for (let number = 0; number < ORIGINALS; number += 1) {
      const title = filled(TITLES[language]);
      const sentences = Array.from({ length: LENGTH }, () => filled(pick(SENTENCES[language])));
      const text = sentences.join(language === "en" ? " " : "");
      const metadata = { title, language, source: pick(SOURCES), year: 2020 + n(6) };
      const id = `${language}-${String(number).padStart(3, "0")}`;
      all.push({ id, text: `${title}\n${text}`, metadata });
      if (number % 3 !== 2) continue;
      const edited = EDITS[language].reduce((so_far, [from, to]) => so_far.replace(from, to), text);
      const copied = { ...metadata, source: "reprint" };
      all.push({ id: `${id}-copy`, text: `${title}\n${edited}`, metadata: copied });
    }
  }
  return all;
}

// Makes the collection with its documents and its clusters.
export async function add() {
  await call("PUT", at(SAMPLE), {
    body: { profile: "copies-128", keep_text: true, clusters: { keep: "first" } },
  });
  const body = documents()
    .map((one) => `${JSON.stringify(one)}\n`)
    .join("");
  const path = at(SAMPLE, "/documents");
  await (await check(await send("POST", path, { body, type: "application/x-ndjson" }))).text();
}

// Removes it. Returns `false` if the collection has other documents, which would be lost.
export async function remove() {
  const own = new Set(documents().map((one) => one.id));
  const { documents: first } = await call("GET", at(SAMPLE, `/documents?limit=${own.size + 1}`));
  if (first.some((one) => !own.has(one.id))) return false;
  await call("DELETE", at(SAMPLE));
  return true;
}
