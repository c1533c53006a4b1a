// How the store, its breaker, the leases and the nodes do.

import { bytes, count, make, say, span } from "./dom.js";

const WORDS = {
  ok: ["ok", "well"], "not-connected": ["bad", "not connected"], "left-alone": ["bad", "left alone for now"],
  closed: ["ok", "closed: the store is asked"], probing: ["warn", "probing whether the store is back"], open: ["bad", "open: the store is left alone"],
};

function card(root, title) {
  const [pill, facts] = [make("span", { className: "pill" }, make("i"), make("span")), make("dl", { className: "facts" })];
  const known = new Map();
  root.append(make("section", { className: "card", "aria-label": title }, make("div", { className: "heading" }, make("h2", { textContent: title }), pill), facts));
  return {
    pill(kind, text) { pill.className = `pill ${kind}`; say(pill.lastElementChild, text); },
    fact(name, text) {
      if (!known.has(name)) {
        const value = make("dd");
        facts.append(make("dt", { textContent: name }), value);
        known.set(name, value);
      }
      say(known.get(name), text);
    },
  };
}

export function health(root) {
  const columns = make("div", { className: "columns four" });
  root.append(columns);
  const [store, breaker, leases, nodes] = ["Store", "Breaker", "Leases", "Nodes"].map((title) => card(columns, title));
  return {
    update({ state, ticks }) {
      const last = ticks.findLast((tick) => !tick.gap);
      store.pill(...(WORDS[state.store.condition] ?? ["warn", state.store.condition]));
      store.fact("Kind", state.store.kind);
      if (state.store.keys !== undefined) {
        store.fact("Memory", bytes(state.store.bytes));
        store.fact("Dropped too soon", count(state.store.given_up));
      }
      if (last?.calls) {
        store.fact("Calls a second", count(last.calls.count));
        store.fact("p99 of a call", span(last.calls.p99_us && last.calls.p99_us / 1000));
      }
      store.fact("Failed checks", count(state.store.errors));

      if (state.store.breaker === null) breaker.pill("", "none");
      else breaker.pill(...(WORDS[state.store.breaker] ?? ["warn", state.store.breaker]));
      breaker.fact("Has opened", `${count(state.store.breaker_opened)} times`);
      breaker.fact("Guards", state.store.breaker === null ? "nothing: memory never fails" : "every node of the store");

      const { keys, requests, granted, returned, decided } = state.leases;
      leases.pill(keys ? "ok" : "", keys ? "in use" : "none");
      leases.fact("Keys", count(keys));
      leases.fact("Decided here", count(decided));
      leases.fact("Requests", count(requests));
      leases.fact("Units granted, returned", `${count(granted)}, ${count(returned)}`);

      nodes.pill("ok", state.nodes > 1 ? `${count(state.nodes)} nodes` : "this one alone");
      nodes.fact("Share the store", count(state.nodes));
      const open = Object.entries(state.connections).filter(([, number]) => number);
      nodes.fact("Connections", open.map(([door, number]) => `${door} ${count(number)}`).join(", ") || "none");
      nodes.fact("Watching", count(state.watchers));
      nodes.fact("Version", state.version);
    },
  };
}
