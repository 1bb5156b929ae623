// Errors as the user reads them: what happened in the language of the page, and what the server said.

import { h, notice } from "./dom.js";
import { has } from "./i18n.js";

// A notice about an error of a request.
export function problem(error) {
  if (error.code === "unreachable") return notice("bad", h("span", { t: "problem.unreachable" }));
  if (!error.code) throw error;
  const title = has(`problem.${error.code}`) ? `problem.${error.code}` : "problem.other";
  const fields = (error.body.errors ?? []).filter((one) => one.detail !== error.message);
  return notice(
    "bad",
    h("strong", { t: title }),
    h("p", {}, error.message),
    fields.length > 0 &&
      h(
        "ul",
        {},
        fields.map((one) => h("li", {}, `${one.pointer ?? one.parameter}: ${one.detail}`)),
      ),
  );
}

// Whether an error only means that a newer request took its place.
export const isAborted = (error) => error.name === "AbortError";
