// One policy: its limits, what it does, whom it refuses, and a button to ask it.

import { curl, pathOf, post, question, SOMEBODY } from "./ask.js";
import { bars, lines } from "./charts.js";
import { clock, copyButton, count, make, percent, say, span } from "./dom.js";
import { feed } from "./feed.js";
import { details, meaning, membersOf } from "./rules.js";

const rate = (value, tick) => (tick.ms ? ((value ?? 0) * 1000) / tick.ms : 0);

export function mount(root, name) {
  root.append(make("div", { className: "heading" },
    make("div", {}, make("p", { className: "soft" }, make("a", { href: "#/", textContent: "Live" }), " / policy"), make("h1", { textContent: name }))));
  const [columns, whole] = [make("div", { className: "columns" }), make("div", { className: "whole-of" })];
  const parts = [tiles(whole, name)];
  whole.append(columns);
  parts.push(limits(columns, name), tryIt(columns, name), series(whole, name), inForce(whole, name), refused(whole, name));
  const unknown = make("p", { className: "card empty", role: "status", hidden: true, textContent: "No policy of this name is in force." });
  root.append(whole, unknown);
  const stop = feed.watch((now) => {
    if (!now.state) return;
    whole.hidden = !(name in now.policies || name in now.state.policies);
    unknown.hidden = !whole.hidden;
    for (const part of parts) part.update(now);
  });
  return () => {
    stop();
    for (const part of parts) part.destroy?.();
  };
}

function tiles(root, name) {
  const names = ["Allowed", "Denied", "Denied of all", "Latency p99"];
  const values = names.map(() => [make("dd"), make("dd")]);
  root.append(make("dl", { className: "tiles", "aria-label": "Since the start" }, names.map((dt, index) => make("div", { className: "tile" }, make("dt", { textContent: dt }), values[index]))));
  const set = (index, ...texts) => texts.forEach((text, at) => say(values[index][at], text));
  return {
    update({ state, ticks }) {
      const since = state.policies[name] ?? { allowed: 0, denied: 0, shadow_denied: 0, error: 0 };
      const asked = since.allowed + since.denied + since.shadow_denied + since.error;
      const last = ticks.findLast((tick) => !tick.gap);
      const now = last?.policies[name];
      set(0, count(since.allowed), `${count(rate(now?.allowed, last ?? {}))} a second now`);
      set(1, count(since.denied), since.shadow_denied ? `${count(since.shadow_denied)} more if it were enforced` : `${count(rate(now?.denied, last ?? {}))} a second now`);
      set(2, asked ? percent((since.denied + since.shadow_denied) / asked) : "–", since.error ? `${count(since.error)} errors` : "since the start");
      const timed = ticks.findLast((tick) => tick.policies?.[name]?.p99_us !== undefined)?.policies[name];
      set(3, timed ? span(timed.p99_us / 1000) : "–", timed ? `p50 ${span(timed.p50_us / 1000)}` : "not asked lately");
    },
  };
}

function limits(root, name) {
  const [list, note] = [make("div", { className: "limits" }), make("p", { className: "soft" })];
  root.append(make("section", { className: "card" }, make("h2", { textContent: "Limits" }), note, list));
  let shown = "";
  return {
    update({ policies, state }) {
      const policy = policies?.[name];
      const moving = state.adaptive.filter((one) => one.policy === name);
      const wanted = JSON.stringify([policy, moving]);
      if (wanted === shown) return;
      shown = wanted;
      const members = membersOf(policy);
      say(note, policy?.mode ? `${policy.mode === "any" ? "Any" : "All"} of ${members.length} limits, in one atomic step.` : "");
      list.replaceChildren(...members.map((limit) => limitNode(limit, moving.find((one) => one.limit === (limit.name ?? "") || !one.limit))));
    },
  };
}

/** One limit, with what is in force of it if it follows a load. */
function limitNode(limit, moving) {
  const node = make("div", {}, make("p", { className: "soft", textContent: [limit.name, ...details(limit)].filter(Boolean).join(", ") }), make("p", { className: "big", textContent: limit.rate }));
  if (!moving) return node;
  const units = moving.mode === "shadow" ? moving.declared : moving.effective;
  const bar = make("i");
  bar.style.width = `${(units / moving.declared) * 100}%`;
  bar.style.background = "var(--series-1)";
  const by = moving.binding ? `, because of ${moving.binding}` : "";
  node.append(make("p", { className: "soft", textContent: `${count(units)} of ${count(moving.declared)} in force${by}${moving.stale ? ", its signal is missing" : ""}` }), make("div", { className: "track", "aria-hidden": "true" }, bar));
  return node;
}

function tryIt(root, name) {
  const key = make("input", { id: "try-key", value: SOMEBODY, autocomplete: "off", spellcheck: false, maxLength: 200, required: true });
  const cost = make("input", { type: "number", value: "1", min: "0", max: "1000000", step: "1", required: true });
  const [verdict, rest, bar] = [make("b"), make("span", { className: "soft" }), make("i")];
  const answer = make("p", { className: "answer", role: "status" }, verdict, " ", rest);
  const button = make("button", { type: "submit", textContent: "Check" });
  const line = make("code");
  const form = make("form", { className: "controls" }, make("label", {}, "Key", key), make("label", {}, "Cost", cost), button);
  root.append(make("section", { className: "card try" }, make("h2", { textContent: "Try a check" }), form,
    make("div", { className: "track", "aria-hidden": "true" }, bar), answer,
    make("div", { className: "line" }, make("pre", { tabIndex: 0, "aria-label": "Command" }, line), copyButton(() => line.textContent))));
  const policy = () => feed.policies?.[name] ?? {};
  const command = () => say(line, curl(name, policy(), key.value || SOMEBODY));
  key.addEventListener("input", command);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const said = await post(pathOf(policy()), question(name, policy(), key.value, cost.valueAsNumber));
      const { good, verdict: word, rest: more, share } = meaning(name, said, policy());
      answer.className = `answer ${good ? "good" : "bad"}`;
      verdict.textContent = word;
      rest.textContent = more;
      bar.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
      bar.style.background = `var(${good ? "--allowed" : "--denied"})`;
    } catch (error) {
      answer.className = "answer bad";
      verdict.textContent = "Error";
      rest.textContent = error.message;
    }
  });
  return { update: command };
}

function series(root, name) {
  const card = make("section", { className: "card" });
  root.append(card);
  const kinds = { allowed: ["allowed", "--allowed"], denied: ["denied", "--denied"], shadow_denied: ["denied if it were enforced", "--shadow"] };
  let [chart, shown] = [null, []];
  return {
    update(now) {
      // Few policies are only tried out, and the others need no line for it.
      const wanted = Object.keys(kinds).slice(0, now.state.policies[name]?.shadow_denied ? 3 : 2);
      if (wanted.length !== shown.length) {
        shown = wanted;
        chart?.destroy();
        chart = lines(card, { title: "Decisions a second", series: shown.map((what) => ({ label: kinds[what][0], values: [], colour: kinds[what][1] })), x: [] });
      }
      chart.update(now.series(...shown.map((what) => (tick) => rate(tick.policies[name]?.[what], tick))));
    },
    destroy: () => chart?.destroy(),
  };
}

/** Of a policy whose limits follow the load. */
function inForce(root, name) {
  const card = make("section", { className: "card", hidden: true });
  root.append(card);
  let [chart, names] = [null, ""];
  return {
    update(now) {
      const own = now.state.adaptive.filter((one) => one.policy === name).map((one) => (one.limit ? `${name}/${one.limit}` : name));
      card.hidden = !own.length;
      if (!own.length) return;
      if (names !== own.join()) {
        names = own.join();
        chart?.destroy();
        chart = lines(card, { title: "Limit in force", series: own.map((label) => ({ label, values: [] })), x: [] });
      }
      chart.update(now.series(...own.map((one) => (tick) => tick.limits[one])));
    },
    destroy: () => chart?.destroy(),
  };
}

function refused(root, name) {
  const [who, why, when] = ["Refused most", "Which limit refused", "Refused last, and when to come back"].map((title) => make("section", { className: "card" }, make("h2", { textContent: title })));
  root.append(make("div", { className: "columns" }, who, why, when));
  const top = bars(who, { items: [], empty: "Nobody was refused in the last minutes." });
  const limit = bars(why, { items: [], empty: "None of them, in the last minutes." });
  const list = make("ol", { className: "bars" });
  when.append(list);
  let told = null;
  return {
    update({ state, policies }) {
      why.hidden = membersOf(policies?.[name]).length < 2;
      const { top: keys = [], limits: bound = [], recent = [] } = state.policies[name] ?? {};
      top.update({ items: keys.map(({ key, count: value }) => ({ label: key, value, colour: "--denied" })) });
      limit.update({ items: bound.map(({ limit: label, count: value }) => ({ label, value, colour: "--series-3" })) });
      // What is selected to be copied stays so while nothing changes.
      if (told === JSON.stringify(recent)) return;
      told = JSON.stringify(recent);
      if (!recent.length) list.replaceChildren(make("li", { className: "soft none", textContent: "Nobody yet." }));
      else list.replaceChildren(...recent.map((one) => make("li", {},
        make("span", { className: "label", textContent: one.key, title: one.key }),
        make("span", { className: "soft", textContent: `${one.retry_after_ms === null ? "never" : `in ${span(one.retry_after_ms)}`} · ${clock(one.t)}` }))));
    },
    destroy() { top.destroy(); limit.destroy(); },
  };
}
