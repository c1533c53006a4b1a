// One policy: its limits, decisions and denied keys, and a form that sends a check.

import { checkBody, checkPath, curl, post, SAMPLE_KEY } from "./api.js";
import { bars, lines, tiles } from "./charts.js";
import { describeAnswer, enforcement, limitDetails, limitsOf } from "./describe.js";
import { copyButton, count, duration, make, percent, setText, timeOfDay } from "./dom.js";
import { feed } from "./feed.js";
import { decisionsChart, failedClosed, passed, rateOf, turnedAway } from "./outcomes.js";

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
      const now = (read) => `${count(feed.recent(rateOf((tick) => [tick.policies[name]], read)))} per second now`;
      const closed = failedClosed(total);
      allowed(count(passed(total)), total.shadow_denied ? `${count(total.shadow_denied)} over the limit, in shadow mode` : now(passed));
      denied(count(turnedAway(total)), closed ? `${count(closed)} because the store failed` : now(turnedAway));
      const others = total.error - closed;
      share(all ? percent((turnedAway(total) + total.shadow_denied) / all) : "–", others ? `${count(others)} errors` : "since server start");
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
      const step = policy?.mode ? `A check passes if ${policy.mode === "any" ? "any" : "each"} of ${members.length} limits allows it. All are checked in one atomic step.` : "";
      const part = enforcement(policy);
      setText(note, [step, part && `The policy is ${part}.`].filter(Boolean).join(" "));
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

/** What the form does, by how a policy is asked: what it spends, and whether it can be peeked. */
const TRY = {
  "/v1/check": ["Check", "A check spends real units of this key, as a client's would. A peek spends nothing."],
  "/v1/acquire": ["Acquire", "Acquire takes a real permit of this key until it expires. A peek takes none."],
  "/v1/reserve": ["Reserve", "Reserve takes a real place in the queue of this key. A queue cannot be peeked."],
};

function tryIt(root, name) {
  const key = make("input", { id: "try-key", value: SAMPLE_KEY, autocomplete: "off", spellcheck: false, maxLength: 200, required: true });
  const cost = make("input", { type: "number", value: "1", min: "0", max: "1000000", step: "1", required: true });
  const [verdict, detail, bar] = [make("b"), make("span", { className: "muted" }), make("i")];
  const answer = make("p", { className: "answer", role: "status" }, verdict, " ", detail);
  const command = make("code");
  const [spend, peek, hint] = [make("button", { type: "submit" }), make("button", { type: "button", className: "plain", textContent: "Peek" }), make("p", { className: "muted small" })];
  const form = make("form", { className: "controls" }, make("label", {}, "Key", key), make("label", {}, "Cost", cost), spend, peek);
  root.append(make("section", { className: "card try" }, make("h2", { textContent: "Try a check" }), hint, form,
    make("div", { className: "track", "aria-hidden": "true" }, bar), answer,
    make("div", { className: "line" }, make("pre", { tabIndex: 0, "aria-label": "Command" }, command), copyButton(() => command.textContent))));
  const policy = () => feed.policies?.[name] ?? {};
  const update = () => {
    const path = checkPath(policy());
    setText(command, curl(name, policy(), key.value || SAMPLE_KEY));
    setText(spend, TRY[path][0]);
    setText(hint, TRY[path][1]);
    peek.hidden = path === "/v1/reserve";
  };
  let sent = 0;
  const send = async (path) => {
    const turn = ++sent;
    try {
      const reply = await post(path, checkBody(name, policy(), key.value, cost.valueAsNumber));
      // An answer that comes late does not replace that of a later check.
      if (turn !== sent) return;
      const described = describeAnswer(name, reply, policy());
      answer.className = `answer ${described.isGood ? "good" : "bad"}`;
      verdict.textContent = path === "/v1/peek" ? `Would be ${described.verdict.toLowerCase()}` : described.verdict;
      detail.textContent = described.detail;
      bar.style.width = `${Math.max(0, Math.min(1, described.share)) * 100}%`;
      bar.style.background = `var(${described.isGood ? "--allowed" : "--denied"})`;
    } catch (error) {
      if (turn !== sent) return;
      answer.className = "answer bad";
      verdict.textContent = "Error";
      detail.textContent = error.message;
    }
  };
  key.addEventListener("input", update);
  peek.addEventListener("click", () => { if (form.reportValidity()) send("/v1/peek"); });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(checkPath(policy()));
  });
  return { update };
}

function decisions(root, name) {
  const card = make("section", { className: "card" });
  root.append(card);
  return decisionsChart(card, (tick) => (tick.policies[name] ? [tick.policies[name]] : []));
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
