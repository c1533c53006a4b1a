// One policy: its limits, decisions and denied keys, and a form that sends a check.

import { checkBody, checkPath, curl, post, SAMPLE_KEY } from "./api.js";
import { bars, lines, tiles } from "./charts.js";
import { describeAnswer, limitDetails, limitsOf } from "./describe.js";
import { copyButton, count, duration, make, percent, setText, timeOfDay } from "./dom.js";
import { feed, perSecond } from "./feed.js";

export function mount(root, name) {
  root.append(make("div", { className: "heading" },
    make("div", {}, make("p", { className: "muted" }, make("a", { href: "#/", textContent: "Live" }), " / Policy"), make("h1", { textContent: name }))));
  const [columns, content] = [make("div", { className: "columns" }), make("div", { className: "stack" })];
  const parts = [totals(content, name)];
  content.append(columns);
  parts.push(limits(columns, name), tryIt(columns, name), decisions(content, name), effectiveLimits(content, name), denials(content, name));
  const unknown = make("p", { className: "card empty", role: "status", hidden: true }, "No policy has this name. ", make("a", { href: "#/", textContent: "Show all policies" }));
  root.append(content, unknown);
  const unwatch = feed.watch(() => {
    if (!feed.state) return;
    content.hidden = !(name in feed.policies || name in feed.state.policies);
    unknown.hidden = !content.hidden;
    for (const part of parts) part.update(feed);
  });
  return () => {
    unwatch();
    for (const part of parts) part.destroy?.();
  };
}

function totals(root, name) {
  const [allowed, denied, share, latency] = tiles(root, "Since server start", ["Allowed", "Denied", "Denied share", "Latency p99"]);
  return {
    update({ state }) {
      const total = state.policies[name] ?? { allowed: 0, denied: 0, shadow_denied: 0, error: 0 };
      const all = total.allowed + total.denied + total.shadow_denied + total.error;
      const last = feed.lastTick();
      const now = (field) => `${count(last ? perSecond(last.policies[name]?.[field], last) : 0)} per second now`;
      allowed(count(total.allowed), now("allowed"));
      denied(count(total.denied), total.shadow_denied ? `${count(total.shadow_denied)} more in shadow mode` : now("denied"));
      share(all ? percent((total.denied + total.shadow_denied) / all) : "–", total.error ? `${count(total.error)} errors` : "since server start");
      const timed = feed.lastTick((tick) => tick.policies[name]?.p99_us !== undefined)?.policies[name];
      latency(timed ? duration(timed.p99_us / 1000) : "–", timed ? `p50 ${duration(timed.p50_us / 1000)}` : "no recent checks");
    },
  };
}

function limits(root, name) {
  const [list, note] = [make("div", { className: "limits" }), make("p", { className: "muted" })];
  root.append(make("section", { className: "card" }, make("h2", { textContent: "Limits" }), note, list));
  let drawn = "";
  return {
    update({ policies, state }) {
      const policy = policies?.[name];
      const adaptive = state.adaptive.filter((one) => one.policy === name);
      const wanted = JSON.stringify([policy, adaptive]);
      if (wanted === drawn) return;
      drawn = wanted;
      const members = limitsOf(policy);
      setText(note, policy?.mode ? `A check passes if ${policy.mode === "any" ? "any" : "each"} of ${members.length} limits allows it. All are checked in one atomic step.` : "");
      list.replaceChildren(...members.map((limit) => limitNode(limit, adaptive.find((one) => one.limit === (limit.name ?? "") || !one.limit))));
    },
  };
}

/** One limit; if it is adaptive, with its effective value. */
function limitNode(limit, adaptive) {
  const node = make("div", {}, make("p", { className: "muted", textContent: [limit.name, ...limitDetails(limit)].filter(Boolean).join(", ") }), make("p", { className: "big", textContent: limit.rate }));
  if (!adaptive) return node;
  const { declared, binding, stale } = adaptive;
  const effective = adaptive.mode === "shadow" ? declared : adaptive.effective;
  const bar = make("i");
  bar.style.width = `${(effective / declared) * 100}%`;
  bar.style.background = "var(--series-1)";
  node.append(make("p", { className: "muted", textContent: `Effective: ${count(effective)} of ${count(declared)}${binding ? `, set by ${binding}` : ""}${stale ? ", no recent signal" : ""}` }), make("div", { className: "track", "aria-hidden": "true" }, bar));
  return node;
}

function tryIt(root, name) {
  const key = make("input", { id: "try-key", value: SAMPLE_KEY, autocomplete: "off", spellcheck: false, maxLength: 200, required: true });
  const cost = make("input", { type: "number", value: "1", min: "0", max: "1000000", step: "1", required: true });
  const [verdict, detail, bar] = [make("b"), make("span", { className: "muted" }), make("i")];
  const answer = make("p", { className: "answer", role: "status" }, verdict, " ", detail);
  const command = make("code");
  const form = make("form", { className: "controls" }, make("label", {}, "Key", key), make("label", {}, "Cost", cost), make("button", { type: "submit", textContent: "Check" }));
  root.append(make("section", { className: "card try" }, make("h2", { textContent: "Try a check" }), form,
    make("div", { className: "track", "aria-hidden": "true" }, bar), answer,
    make("div", { className: "line" }, make("pre", { tabIndex: 0, "aria-label": "Command" }, command), copyButton(() => command.textContent))));
  const policy = () => feed.policies?.[name] ?? {};
  const update = () => setText(command, curl(name, policy(), key.value || SAMPLE_KEY));
  key.addEventListener("input", update);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const reply = await post(checkPath(policy()), checkBody(name, policy(), key.value, cost.valueAsNumber));
      const described = describeAnswer(name, reply, policy());
      answer.className = `answer ${described.isGood ? "good" : "bad"}`;
      verdict.textContent = described.verdict;
      detail.textContent = described.detail;
      bar.style.width = `${Math.max(0, Math.min(1, described.share)) * 100}%`;
      bar.style.background = `var(${described.isGood ? "--allowed" : "--denied"})`;
    } catch (error) {
      answer.className = "answer bad";
      verdict.textContent = "Error";
      detail.textContent = error.message;
    }
  });
  return { update };
}

function decisions(root, name) {
  const card = make("section", { className: "card" });
  root.append(card);
  const outcomes = { allowed: ["allowed", "--allowed"], denied: ["denied", "--denied"], shadow_denied: ["denied in shadow mode", "--shadow"] };
  let [chart, drawn] = [null, []];
  return {
    update({ state }) {
      // Only policies in shadow mode get a third line.
      const wanted = Object.keys(outcomes).slice(0, state.policies[name]?.shadow_denied ? 3 : 2);
      if (wanted.length !== drawn.length) {
        drawn = wanted;
        chart?.destroy();
        chart = lines(card, { title: "Decisions per second", series: drawn.map((field) => ({ label: outcomes[field][0], values: [], colour: outcomes[field][1] })), x: [] });
      }
      chart.update(feed.series(...drawn.map((field) => (tick) => perSecond(tick.policies[name]?.[field], tick))));
    },
    destroy: () => chart?.destroy(),
  };
}

/** For a policy with adaptive limits. */
function effectiveLimits(root, name) {
  const card = make("section", { className: "card", hidden: true });
  root.append(card);
  let [chart, drawn] = [null, ""];
  return {
    update({ state }) {
      const names = state.adaptive.filter((one) => one.policy === name).map((one) => (one.limit ? `${name}/${one.limit}` : name));
      card.hidden = !names.length;
      if (!names.length) return;
      if (drawn !== names.join()) {
        drawn = names.join();
        chart?.destroy();
        chart = lines(card, { title: "Effective limit", series: names.map((label) => ({ label, values: [] })), x: [] });
      }
      chart.update(feed.series(...names.map((one) => (tick) => tick.limits[one])));
    },
    destroy: () => chart?.destroy(),
  };
}

function denials(root, name) {
  const [keyCard, limitCard, latestCard] = ["Most denied keys", "Denials per limit", "Latest denials"].map((title) => make("section", { className: "card" }, make("h2", { textContent: title })));
  root.append(make("div", { className: "columns" }, keyCard, limitCard, latestCard));
  const empty = "No denials in the last 5 minutes.";
  const [byKey, byLimit] = [bars(keyCard, { items: [], empty }), bars(limitCard, { items: [], empty })];
  const list = make("ol", { className: "bars" });
  latestCard.append(list);
  let drawn = null;
  return {
    update({ state, policies }) {
      limitCard.hidden = limitsOf(policies?.[name]).length < 2;
      const { top = [], limits: counts = [], recent = [] } = state.policies[name] ?? {};
      byKey.update({ items: top.map(({ key, count: value }) => ({ label: key, value, colour: "--denied" })) });
      byLimit.update({ items: counts.map(({ limit: label, count: value }) => ({ label, value, colour: "--series-3" })) });
      // Unchanged rows stay, so that a selected key stays selected.
      if (drawn === JSON.stringify(recent)) return;
      drawn = JSON.stringify(recent);
      if (!recent.length) list.replaceChildren(make("li", { className: "muted none", textContent: "No denials yet." }));
      else list.replaceChildren(...recent.map((one) => make("li", {},
        make("span", { className: "label", textContent: one.key, title: one.key }),
        make("span", { className: "muted", textContent: `${one.retry_after_ms === null ? "no retry" : `retry in ${duration(one.retry_after_ms)}`} · ${timeOfDay(one.t)}` }))));
    },
    destroy() { byKey.destroy(); byLimit.destroy(); },
  };
}
