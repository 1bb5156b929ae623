// The page for the key of the session, and what it may do.

import { access, load, onAccess } from "./access.js";
import { key, setKey } from "./api.js";
import { button, choice, field, fill, h, notice, say, show } from "./dom.js";
import { chosenName, onPick } from "./pick.js";
import { problem } from "./problems.js";

// What the pages do, with the role that it needs, and whether it needs a key for all collections.
const ACTIONS = [
  ["read", "keys.do.find", false],
  ["read", "keys.do.stats", false],
  ["read", "keys.do.rates", true],
  ["write", "keys.do.import", false],
  ["admin", "keys.do.collections", false],
  ["admin", "keys.do.calibrate", false],
];
const ROLES = ["read", "write", "admin"];

// Builds the page.
export function create() {
  const input = h("input", { type: "password", autocomplete: "off", spellcheck: "false", class: "mono" });
  const state = h("div", { "aria-live": "polite" });
  const table = h("tbody", {});
  const form = h(
    "form",
    { class: "panel" },
    field("keys.key", input, "keys.note"),
    h(
      "div",
      { class: "row" },
      h("button", { type: "submit", class: "primary", t: "keys.use" }),
      button("keys.forget", forget, { class: "quiet" }),
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    use(input.value.trim());
  });

  async function use(secret) {
    if (!secret) return;
    try {
      await load({ secret });
      setKey(secret);
      input.value = "";
      window.dispatchEvent(new Event("key-changed"));
    } catch (error) {
      // The key that was in use before stays in use.
      if (key()) await load().catch(() => {});
      fill(state, problem(error));
    }
  }

  function forget() {
    setKey(null);
    input.value = "";
    fill(state, notice("plain", h("span", { t: "keys.forgotten" })));
    load().catch(() => {});
  }

  onAccess(() => {
    const { required, name, role, collections } = access();
    if (!required) fill(state, notice("plain", h("span", { t: "keys.open" })));
    else if (name) {
      const scope = collections
        ? ["keys.scope.some", { names: collections.join(", ") }]
        : "keys.scope.all";
      const of = h("span", { t: ["keys.in.use", { name }] });
      fill(
        state,
        notice("good", of, " ", h("span", { t: `keys.role.${role}` }), " ", h("span", { t: scope })),
      );
    }
    fill(
      table,
      ACTIONS.map(([needs, message, isAll]) => {
        const hasRole = !required || ROLES.indexOf(role) >= ROLES.indexOf(needs);
        const hasScope = !required || !isAll || !collections;
        const verdict = h("td", { class: hasRole && hasScope ? "yes" : "no" });
        say(verdict, hasRole && hasScope ? "keys.yes" : hasRole ? "keys.no.scope" : [`keys.no.${needs}`]);
        return h("tr", {}, h("th", { scope: "row", t: message }), verdict);
      }),
    );
  });

  const node = h(
    "div",
    { class: "page" },
    h("div", { class: "head" }, h("h1", { t: "keys.title" }), h("p", { t: "keys.intro" })),
    state,
    form,
    h(
      "section",
      { class: "panel" },
      h("h2", { t: "keys.may" }),
      h(
        "table",
        { class: "may" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col", t: "keys.action" }),
            h("th", { scope: "col", t: "keys.allowed" }),
          ),
        ),
        table,
      ),
    ),
    newKey(),
  );
  return {
    node,
    // Says that the server has refused the key, if that led here.
    show(_, payload) {
      if (!payload?.isRefused) return load().catch(() => {});
      const message = key() ? "keys.refused" : "keys.needed";
      fill(state, notice("bad", h("span", { t: message })));
      show(node, true);
      input.focus();
    },
  };
}

// The command that makes a key: keys are made on the machine of the server, not here.
function newKey() {
  let [role, isOne] = [ROLES[0], false];
  const command = h("code", { class: "fulltext", "aria-live": "polite" });
  const draw = () => {
    const scope = isOne ? ` --collection ${chosenName()}` : "";
    command.textContent = `lookalike keys create NAME --role ${role}${scope} --data FOLDER`;
  };
  const roles = choice(
    "keys.new.role",
    ROLES.map((name) => [name, `keys.new.${name}`]),
    role,
    (value) => {
      role = value;
      draw();
    },
  );
  const one = h("input", { type: "checkbox" });
  one.addEventListener("change", () => {
    isOne = one.checked;
    draw();
  });
  onPick(draw);
  return h(
    "section",
    { class: "panel" },
    h("h2", { t: "keys.new" }),
    h("p", { class: "note", t: "keys.new.note" }),
    h("div", { class: "row" }, roles, h("label", { class: "tick" }, one, h("span", { t: "keys.new.one" }))),
    h("p", {}, command),
  );
}
