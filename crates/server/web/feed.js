// What the server tells once a second, kept for as long as the charts reach back.

import { clock } from "./dom.js";

/** As far back as the server remembers. */
const TICKS_MAX = 300;
/** A second may be late; two missing ones are a gap. */
const GAP_MS = 2500;
/** A server that is there says something every second, but a connection can be gone without anybody being told. */
const SILENT_MS = 10_000;
const RETRY_MS = [500, 1000, 2000, 3000];

/** Without what every object has: a policy may be called `constructor`. */
const bare = (object) => Object.setPrototypeOf(object, null);

class Feed {
  #watchers = new Set();
  #stream = null;
  #timer = 0;
  #attempts = 0;
  #generation = 0;
  #lostAt = 0;
  #begin;
  ticks = [];
  state = null;
  policies = null;
  link = "connecting";
  trouble = "";
  /** Ready once something is known, or nothing will be for now. */
  begun = new Promise((then) => { this.#begin = then; });

  constructor() {
    // A browser has six connections to a server, and the server so many places: a page that nobody sees takes neither. The
    // server remembers as far back as the charts reach.
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#leave() : this.start()));
  }

  /** Calls back now and at every change. Answers how to stop. */
  watch(then) {
    this.#watchers.add(then);
    then(this);
    return () => this.#watchers.delete(then);
  }

  /** Listens, from the beginning. `stream` is one that was asked for already. */
  start(stream = globalThis.listen()) {
    this.#leave();
    this.#stream = stream;
    if (document.hidden) return this.#leave();
    this.#expect();
    this.#listen(stream.answer).then(
      () => "",
      (problem) => (problem instanceof TypeError ? "" : problem.message),
    ).then((why) => { if (stream === this.#stream) this.#lost(why); });
  }

  #leave() {
    clearTimeout(this.#timer);
    this.#stream?.stop.abort();
    this.#stream = null;
  }

  #expect() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#lost(""), SILENT_MS);
  }

  /** Hears events until there are no more. What fails on the way is a TypeError, what the server refuses is not. */
  async #listen(asked) {
    const answer = await asked;
    if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).detail ?? `The server answered ${answer.status}`);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let heard = ""; ;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard += value;
      // An event may come in pieces.
      if (!heard.endsWith("\n\n")) continue;
      for (const [, name, data] of heard.matchAll(/^event: ([^\n]+)\ndata: ([^\n]+)$/gm)) this.#hear(name, JSON.parse(data));
      heard = "";
    }
  }

  #hear(name, { history, policies, tick, state }) {
    this.#expect();
    bare(state.policies);
    this.state = state;
    if (name === "snapshot") {
      const last = this.ticks.at(-1)?.t ?? 0;
      for (const one of history) if (one.t > last) this.#add(one);
      this.policies = bare(policies);
      this.#generation = state.generation;
      this.#attempts = 0;
      this.link = "live";
    } else {
      this.#add(tick);
      // There may be other policies: they are told at the beginning.
      if (state.generation !== this.#generation) this.start();
    }
    this.#tell();
  }

  #add(tick) {
    const last = this.ticks.at(-1);
    bare(tick.policies);
    // A gap is shown as one: charts do not draw over a tick without figures.
    if (last && tick.t - last.t > GAP_MS) this.ticks.push({ t: last.t + 1000, gap: true });
    this.ticks.push(tick);
    while (this.ticks.length > TICKS_MAX) this.ticks.shift();
  }

  #lost(why) {
    this.#leave();
    if (this.link !== "reconnecting") this.#lostAt = Date.now();
    this.link = "reconnecting";
    this.trouble = `${why || `No word from the server since ${clock(this.#lostAt)}`}. Trying again.`;
    this.#timer = setTimeout(() => this.start(), RETRY_MS[Math.min(this.#attempts++, RETRY_MS.length - 1)]);
    this.#tell();
  }

  #tell() {
    this.#begin();
    for (const then of this.#watchers) then(this);
  }

  /** x for charts, and one array of values for each of `of`: null where nothing is known. */
  series(...of) {
    const x = this.ticks.map((tick) => tick.t / 1000);
    return { x, series: of.map((one) => ({ values: this.ticks.map((tick) => (tick.gap ? null : one(tick) ?? null)) })) };
  }
}

export const feed = new Feed();
