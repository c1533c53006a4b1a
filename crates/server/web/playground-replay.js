// Try a policy: a log that is pasted, a policy that is written or configured, and what it would have denied.

import { count, make, quoted, span } from "./dom.js";
import { bench, chosen, commandLine, remember } from "./playground-controls.js";
import { columns, legend, t, table } from "./playground-draw.js";

export const PAGE = {
  nav: "Try a policy",
  title: "Try a policy on your own traffic",
  see: "Paste an access log (common, combined or JSON lines) and a policy: you see whom it would have turned away.",
  instead: "of finding out in production, try it here, then with `mode: shadow`.",
};

/** Of a body, which may have 1 MiB, with quotes escaped and in UTF-8. */
const LOG_BYTES_MAX = 1_000_000;
const SAMPLE = "100/min burst 20";

/** Two people who read, and one who takes everything. */
function sample() {
  const lines = [];
  for (let second = 0; second < 90; second += 1) {
    const at = new Date(1791640500000 + second * 1000).toISOString();
    const line = (client, path) => lines.push(JSON.stringify({ time: at, client_ip: client, method: "GET", path }));
    if (second % 3 === 0) line("192.0.2.7", `/items/${second}`);
    if (second % 7 === 0) line("198.51.100.23", "/");
    for (let number = 0; second >= 20 && second < 50 && number < 6; number += 1) line("203.0.113.9", `/search?q=${second}`);
  }
  return lines.join("\n");
}

/** As many whole lines as may be sent. */
function fitting(log) {
  let fit = log;
  const cut = (most) => { fit = fit.slice(0, fit.lastIndexOf("\n", most) + 1); };
  if (log.length > LOG_BYTES_MAX) cut(LOG_BYTES_MAX);
  while (new Blob([JSON.stringify(fit)]).size > LOG_BYTES_MAX) cut(fit.length * 0.9);
  return fit;
}

export function mount(root) {
  const start = chosen();
  const field = (text, input) => t("label", t("span", text), input);
  const log = make("textarea", { rows: 9, spellcheck: false, wrap: "off", placeholder: '192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 5' });
  const file = make("input", { type: "file", "aria-label": "The log as a file" });
  const example = make("button", { type: "button", className: "plain" }, "Use an example");
  const which = t("select", make("option", { value: "" }, "One that I write"));
  const text = make("textarea", { rows: 3, spellcheck: false, value: start.get("policy_text") ?? SAMPLE });
  const written = field("The policy: a line, or YAML", text);
  const key = make("input", { autocomplete: "off", spellcheck: false, placeholder: "client_ip", value: start.get("key") ?? "" });
  const go = make("button", { type: "submit" }, "Replay");
  const form = make("form", { className: "card knobs replay", "aria-label": "What to try" },
    field("Access log", log), t("div.buttons", example, file), field("Policy", which), written, field("Count by, unless the policy says", key), t("div.buttons", go));
  const { result, ask, stop } = bench(root, "replay", form, "Paste a log, or use the example.");
  const found = t("div.found");
  const parts = () => key.value.split(",").map((part) => part.trim()).filter(Boolean);
  const command = commandLine(() => `tidegate replay access.log -c tidegate.yaml --policy ${quoted(which.value || "NAME")}${parts().length ? ` --key ${quoted(String(parts()))}` : ""}`);
  result.append(found);
  root.append(t("section.card", t("h2", "The whole log, on the command line"), command.node));

  const changed = () => {
    written.hidden = which.value !== "";
    const params = new URLSearchParams();
    if (which.value) params.set("policy", which.value);
    else if (text.value !== SAMPLE) params.set("policy_text", text.value);
    if (key.value) params.set("key", key.value);
    remember("replay", params);
    command.update();
  };
  fetch("/v1/policies").then((response) => response.json()).then((policies) => {
    which.append(...Object.entries(policies).map(([name, { rate }]) => make("option", { value: name }, rate ? `${name} (${rate})` : name)));
    which.value = start.get("policy") ?? "";
    if (root.isConnected) changed();
  }).catch(() => { /* then there are none to choose from */ });
  for (const input of [which, text, key]) input.addEventListener("input", changed);
  example.addEventListener("click", () => { log.value = sample(); form.requestSubmit(); });
  file.addEventListener("change", async () => {
    // One more than is sent, to know that there is more.
    if (file.files[0]) log.value = await file.files[0].slice(0, LOG_BYTES_MAX + 1).text();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const input = { log: fitting(log.value), key: parts(), ...(which.value ? { policy: which.value } : { policy_text: text.value }) };
    go.disabled = true;
    await ask(input, (report) => {
      const [row] = report.policies;
      if (!row) return "There is no request in this log.";
      const cut = input.log.length < log.value.length ? ` Only the first ${count(report.lines)} lines were used.` : "";
      found.replaceChildren(...shown(report, row).filter(Boolean));
      return `${count(row.denied)} of ${count(row.requests)} requests would have been denied (${row.denied_percent} %), of ${count(row.keys_denied)} ${row.keys_denied === 1 ? "key" : "keys"}.${cut}`;
    });
    go.disabled = false;
  });
  return stop;
}

function shown({ timeline: { steps, step_ms: step, from_ms: from }, unreadable, lines, first_unreadable: first, notes }, row) {
  const most = Math.max(1, ...steps.map(({ admitted, denied }) => admitted + denied));
  const clock = (ms) => t("span", new Date(ms).toISOString().slice(11, 19));
  return [
    t("figure.chart",
      t("figcaption", t("h3", `Requests in each ${span(step)}`), legend(["admitted", "--allowed"], ["denied", "--denied"])),
      columns(`Requests over time: ${row.requests - row.denied} admitted, ${row.denied} denied, at most ${most} in ${span(step)}`, most, [
        { values: steps.map((one) => one.admitted), colour: "--allowed" },
        { values: steps.map((one) => one.denied), colour: "--denied" },
      ]),
      t("p.axis.soft", clock(from), clock(from + steps.length * step))),
    row.keys.length && table("Who was denied most", ["Key", "Denied", "First", "Last"], row.keys.map((one) => [false, one.key, one.denied, one.first.slice(11, 19), one.last.slice(11, 19)])),
    unreadable && t("details", t("summary", `${count(unreadable)} of ${count(lines)} lines could not be read`),
      t("ul", first.map(({ line, reason }) => t("li", `line ${line}: ${reason}`)))),
    ...notes.map((note) => t("p.soft.small", `Note: ${note}.`)),
  ];
}
