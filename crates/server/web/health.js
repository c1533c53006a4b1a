// Health of the store, its circuit breaker, the leases and the nodes.

import { bytes, count, duration, fold, make, setText } from "./dom.js";

/** The server's words for the store and its breaker: colour and label. */
const STATES = {
  ok: ["ok", "healthy"], "not-connected": ["bad", "not connected"], "left-alone": ["bad", "not called: breaker open"],
  closed: ["ok", "closed"], probing: ["warn", "half-open: probing the store"], open: ["bad", "open: store not called"],
};

export const storeState = (word) => STATES[word] ?? ["warn", word];

function card(root, title) {
  const [pill, facts] = [make("span", { className: "pill" }, make("i"), make("span")), make("dl", { className: "facts" })];
  const values = new Map();
  root.append(make("section", { className: "card", "aria-label": title }, make("div", { className: "heading" }, make("h2", { textContent: title }), pill), facts));
  return {
    pill(kind, text) { pill.className = `pill ${kind}`; setText(pill.lastElementChild, text); },
    fact(name, text) {
      if (!values.has(name)) {
        values.set(name, make("dd"));
        facts.append(make("dt", { textContent: name }), values.get(name));
      }
      setText(values.get(name), text);
    },
  };
}

export function health(root) {
  const columns = make("div", { className: "columns four" });
  root.append(fold("Health", { className: "bare" }, columns));
  const [store, breaker, leases, nodes] = ["Store", "Breaker", "Leases", "Nodes"].map((title) => card(columns, title));
  return {
    update(feed) {
      const { state } = feed;
      const calls = feed.lastTick()?.calls;
      store.pill(...storeState(state.store.condition));
      store.fact("Type", state.store.kind);
      if (state.store.keys !== undefined) {
        store.fact("Memory", bytes(state.store.bytes));
        store.fact("Keys evicted early", count(state.store.given_up));
      }
      if (calls) {
        store.fact("Calls/s", count(calls.count));
        store.fact("Call latency p99", duration(calls.p99_us && calls.p99_us / 1000));
      }
      store.fact("Failed checks", count(state.store.errors));

      const hasBreaker = state.store.breaker !== null;
      breaker.pill(...(hasBreaker ? storeState(state.store.breaker) : ["", "not used"]));
      breaker.fact("Times opened", count(state.store.breaker_opened));
      breaker.fact("Protects", hasBreaker ? "every store node" : "no remote store");

      const { keys, requests, granted, returned, decided } = state.leases;
      leases.pill(keys ? "ok" : "", keys ? "in use" : "not used");
      leases.fact("Leased keys", count(keys));
      leases.fact("Local decisions", count(decided));
      leases.fact("Lease requests", count(requests));
      leases.fact("Units granted / returned", `${count(granted)} / ${count(returned)}`);

      nodes.pill("ok", state.nodes > 1 ? `${count(state.nodes)} nodes` : "single node");
      nodes.fact("Nodes sharing the store", count(state.nodes));
      const open = Object.entries(state.connections).filter(([, number]) => number);
      nodes.fact("Connections", open.map(([door, number]) => `${door} ${count(number)}`).join(", ") || "none");
      nodes.fact("Open dashboards", count(state.watchers));
      nodes.fact("Version", state.version);
    },
  };
}
