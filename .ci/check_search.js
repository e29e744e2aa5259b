// Check what the search of a built site finds first: `node .ci/check_search.js SITE`.
//
// It runs the site's own search without a browser.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const EXPECTED = {
  "cancel": "cancellation",
  "sigterm": "how_to/shut_down",
  "Retry-After": "how_to/retry_http",
  "timeout": "how_to/choose_a_time_limit",
  "retry": "retries",
  "ticker": "tickers",
  "circuit breaker": "circuit_breaker",
  "jitter": "policies",
  "test": "testing",
  "celery": "how_to/retry_celery_tasks",
  "fastapi": "how_to/shut_down_fastapi",
  "parse_retry_after": "reference/retries", // a name leads to its description
};
const FOR_FEW = /^(from_|coming_from|architecture|changelog|contributing|project|speed)/;

const files = path.join(process.argv[2], "_static");
const context = vm.createContext({
  document: { addEventListener() {}, getElementById: () => null },
  SPHINX_HIGHLIGHT_ENABLED: false,
  _ready() {}, // is to start a search when the page is there
  _: (text) => text, // translates
});
context.window = context;
for (const name of ["language_data.js", "searchtools.js"]) {
  let code = fs.readFileSync(path.join(files, name), "utf-8");
  if (name === "searchtools.js") code += "\nthis.Search = Search;";
  vm.runInContext(code, context);
}
vm.runInContext(fs.readFileSync(path.join(files, "..", "searchindex.js"), "utf-8"), context);

let faults = 0;
for (const [query, page] of Object.entries(EXPECTED)) {
  const found = context.Search._performSearch(...context.Search._parseQuery(query));
  const pages = [...new Set(found.map((result) => result[0]).reverse())]; // the best comes last
  const first = pages.slice(0, 3);
  if (process.argv[3] === "--show") console.log(`${query}: ${found.slice(-6).reverse().map((r) => [r[0], r[4], r[6]])}`);
  if (first[0] !== page || first.some((one) => FOR_FEW.test(one))) {
    console.error(`search: ${query}: found ${first.join(", ")}; ${page} should come first`);
    faults += 1;
  }
}
process.exit(faults && 1);
