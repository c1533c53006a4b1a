// Try a policy: replays an access log and shows which requests a policy would have denied.

import { count, duration, make, shellQuote } from "./dom.js";
import { addressParams, commandLine, resultPanel, saveParams } from "./playground-controls.js";
import { columnChart, legend, table, tag } from "./playground-draw.js";

export const PAGE = {
  nav: "Try a policy",
  title: "Try a policy on your own traffic",
  problem: "A new policy may deny real users. Paste an access log (common, combined or JSON lines) to see which requests the policy would have denied.",
  fix: "try the policy here first, then in production with `mode: shadow`.",
};

/** As JSON in UTF-8; the server accepts a body of 1 MiB. */
const LOG_BYTES_MAX = 1_000_000;
const SAMPLE_POLICY = "100/min burst 20";

/** Two normal clients and a scraper. */
function sampleLog() {
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

/** As many whole lines as fit into a request. */
function truncate(log) {
  let fit = log;
  const cut = (most) => { fit = fit.slice(0, fit.lastIndexOf("\n", most) + 1); };
  if (log.length > LOG_BYTES_MAX) cut(LOG_BYTES_MAX);
  while (new Blob([JSON.stringify(fit)]).size > LOG_BYTES_MAX) cut(fit.length * 0.9);
  return fit;
}

export function mount(root) {
  const start = addressParams();
  const field = (text, input) => tag("label", tag("span", text), input);
  const log = make("textarea", { rows: 9, spellcheck: false, wrap: "off", placeholder: '192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 5' });
  const file = make("input", { type: "file", "aria-label": "Choose a log file" });
  const example = make("button", { type: "button", className: "plain" }, "Use example log");
  const policy = tag("select", make("option", { value: "" }, "Write my own"));
  const text = make("textarea", { rows: 3, spellcheck: false, value: start.get("policy_text") ?? SAMPLE_POLICY });
  const textField = field("Policy text (one line or YAML)", text);
  const key = make("input", { autocomplete: "off", spellcheck: false, placeholder: "client_ip", value: start.get("key") ?? "" });
  const go = make("button", { type: "submit" }, "Replay");
  const form = make("form", { className: "card knobs replay", "aria-label": "Parameters" },
    field("Access log", log), tag("div.buttons", example, file), field("Policy", policy), textField, field("Key (if the policy names none)", key), tag("div.buttons", go));
  const { result, run, stop } = resultPanel(root, "replay", form, "Paste an access log, choose a file, or use the example log. Then press Replay.");
  const report = tag("div.replay-report");
  const parts = () => key.value.split(",").map((part) => part.trim()).filter(Boolean);
  const isOneLine = () => policy.value === "" && !/[\n{:]/.test(text.value.trim());
  const asked = () => (isOneLine() ? `--policy ${shellQuote(text.value.trim())}` : `-c tidegate.yaml --policy ${shellQuote(policy.value || "NAME")}`);
  const command = commandLine(() => `tidegate replay access.log ${asked()}${parts().length ? ` --key ${shellQuote(String(parts()))}` : ""}`);
  result.append(report);
  root.append(tag("section.card", tag("h2", "Command line, for logs of any size"), command.node));

  const changed = () => {
    textField.hidden = policy.value !== "";
    const params = new URLSearchParams();
    if (policy.value) params.set("policy", policy.value);
    else if (text.value !== SAMPLE_POLICY) params.set("policy_text", text.value);
    if (key.value) params.set("key", key.value);
    saveParams("replay", params);
    command.update();
  };
  fetch("/v1/policies").then((response) => response.json()).then((policies) => {
    policy.append(...Object.entries(policies).map(([name, { rate }]) => make("option", { value: name }, rate ? `${name} (${rate})` : name)));
    policy.value = start.get("policy") ?? "";
    if (root.isConnected) changed();
  }).catch(() => { /* without the list, only written policies work */ });
  for (const input of [policy, text, key]) input.addEventListener("input", changed);
  example.addEventListener("click", () => { log.value = sampleLog(); fileBytes = 0; form.requestSubmit(); });
  /** The bytes of a chosen file, of which only the start is loaded; 0 for pasted lines. */
  let fileBytes = 0;
  log.addEventListener("input", () => { fileBytes = 0; });
  file.addEventListener("change", async () => {
    if (!file.files[0]) return;
    log.value = await file.files[0].slice(0, LOG_BYTES_MAX + 1).text();
    fileBytes = file.files[0].size;
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const input = { log: truncate(log.value), key: parts(), ...(policy.value ? { policy: policy.value } : { policy_text: text.value }) };
    go.disabled = true;
    await run(input, (reply) => {
      const [row] = reply.policies;
      if (!row) return "The log contains no requests. Check that it is a common, combined or JSON-lines access log.";
      const whole = Math.max(fileBytes, log.value.length);
      const percent = Math.max(1, Math.floor((100 * input.log.length) / whole));
      const cut = input.log.length < whole ? `${percent} % of the log was read, the first ${count(reply.lines)} lines; the command below reads all of it. ` : "";
      report.replaceChildren(...replayReport(reply, row).filter(Boolean));
      return `${cut}${count(row.denied)} of ${count(row.requests)} requests would have been denied (${row.denied_percent} %), from ${count(row.keys_denied)} ${row.keys_denied === 1 ? "key" : "keys"}.`;
    });
    go.disabled = false;
  });
  return stop;
}

function replayReport({ timeline: { steps, step_ms: step, from_ms: from }, unreadable, lines, first_unreadable: first, notes }, row) {
  const max = Math.max(1, ...steps.map(({ admitted, denied }) => admitted + denied));
  const clock = (ms) => tag("span", new Date(ms).toISOString().slice(11, 19));
  return [
    tag("figure.chart",
      tag("figcaption", tag("h3", `Requests per ${duration(step)}`), legend(["admitted", "--allowed"], ["denied", "--denied"])),
      columnChart(`Requests over time: ${row.requests - row.denied} admitted, ${row.denied} denied, peak ${max} per ${duration(step)}`, max, [
        { values: steps.map((one) => one.admitted), colour: "--allowed" },
        { values: steps.map((one) => one.denied), colour: "--denied" },
      ]),
      tag("p.axis.muted", clock(from), clock(from + steps.length * step))),
    row.keys.length && table("Most denied keys", ["Key", "Denied", "First", "Last"], row.keys.map((one) => [false, one.key, one.denied, one.first.slice(11, 19), one.last.slice(11, 19)])),
    unreadable && tag("details", tag("summary", `${count(unreadable)} of ${count(lines)} lines could not be read`),
      tag("ul", first.map(({ line, reason }) => tag("li", `line ${line}: ${reason}`)))),
    ...notes.map((note) => tag("p.muted.small", `Note: ${note}.`)),
  ];
}
