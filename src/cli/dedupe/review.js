"use strict";
// The marks on the pairs: y is a copy, n is none, a blank is unsure. They are kept in the browser.
const pairs = [...document.querySelectorAll("article")];
const rows = [...document.querySelectorAll("#classes tr[data-class]")];
const store = "lookalike-review-" + document.querySelector("main").dataset.page;
const words = { y: "a copy", n: "no copy", " ": "unsure" };
let marks = {};
let current = 0;
try {
  marks = JSON.parse(localStorage.getItem(store)) || {};
} catch {
  // Without a store the marks last as long as the page.
}

// The 95 % interval of Wilson of a share among n judgements.
function wilson(share, n) {
  const z = 1.959964;
  const middle = (share + z * z / (2 * n)) / (1 + z * z / n);
  const half = z * Math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n);
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}

function told(share, n) {
  const [least, most] = wilson(share, n);
  const percent = (number) => (100 * number).toFixed(1);
  return `${percent(share)} % (${percent(least)} to ${percent(most)} %)`;
}

// A class counts by the number of all its pairs. The number of judgements is that of a sample without
// classes which says as much: the square of all weights ÷ the sum of their squares.
function precision(classes) {
  let all = 0, copies = 0, squares = 0;
  for (const { size, y, n } of classes) {
    if (y + n > 0) {
      all += size;
      copies += size * y / (y + n);
      squares += size * size / (y + n);
    }
  }
  return all === 0 ? null : { share: copies / all, n: all * all / squares };
}

function count(number) {
  const of = (mark) => pairs.filter((pair, at) => pair.dataset.class === number && marks[at] === mark).length;
  return { y: of("y"), n: of("n") };
}

function show() {
  pairs.forEach((pair, at) => {
    pair.hidden = at !== current;
    pair.querySelector("output").textContent = words[marks[at]] || "";
  });
  const classes = rows.map((row) => {
    const { y, n } = count(row.dataset.class);
    const cells = row.querySelectorAll("td");
    cells[2].textContent = y;
    cells[3].textContent = n;
    cells[4].textContent = y + n > 0 ? told(y / (y + n), y + n) : "";
    return { size: Number(row.dataset.size), y, n };
  });
  const done = Object.keys(marks).length;
  const place = pairs.length > 0 ? `pair ${current + 1} of ${pairs.length}, ` : "no pairs, ";
  document.querySelector("#progress").textContent = `${place}${done} marked`;
  const found = precision(classes);
  const isPart = classes.some(({ y, n }) => y + n === 0);
  const of = isPart ? "in the classes judged so far" : "of the removals that are not equal";
  document.querySelector("#precision").textContent =
    found === null ? "" : `precision ${of}: ${told(found.share, found.n)}`;
}

function save() {
  try {
    localStorage.setItem(store, JSON.stringify(marks));
  } catch {
    // As above.
  }
}

function cell(text) {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function exported() {
  const lines = pairs.map((pair, at) => {
    const { dropped, kept, similarity } = pair.dataset;
    return [dropped, kept, similarity, (words[marks[at]] || "")].map(cell).join(",");
  });
  const text = ["dropped,kept,similarity,mark", ...lines].join("\r\n") + "\r\n";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = "review.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

function press(key) {
  const last = pairs.length - 1;
  if (key === "j") current = Math.min(current + 1, last);
  else if (key === "k") current = Math.max(current - 1, 0);
  else if (key === "e") exported();
  else if (key in words && last >= 0) {
    marks[current] = key;
    save();
    current = Math.min(current + 1, last);
  } else return false;
  show();
  window.scrollTo(0, 0);
  return true;
}

document.addEventListener("keydown", (event) => {
  const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (isPlain && press(event.key.toLowerCase())) event.preventDefault();
});
for (const button of document.querySelectorAll("button")) {
  button.addEventListener("click", () => {
    press(button.dataset.key);
    button.blur();
  });
}
// A review that was interrupted goes on at the first pair without a mark.
current = Math.max(0, pairs.findIndex((_, at) => !(at in marks)));
show();
