// The live feed: one event per second from the server, kept for as long as the charts reach back.

import { timeOfDay } from "./dom.js";

/** The server keeps as many. */
const TICKS_MAX = 300;
/** One late tick is normal; two missing ticks are a gap. */
const GAP_MS = 2500;
/** The server sends every second. A connection silent for this long is dead, even if TCP has not noticed. */
const SILENT_MS = 10_000;
const RETRY_MS = [500, 1000, 2000, 3000];

/** Rates are averaged over as many seconds, everywhere on the page. */
export const AVERAGED_TICKS = 5;

/** A tick's count as a rate. */
export const perSecond = (value, tick) => (tick.ms ? ((value ?? 0) * 1000) / tick.ms : 0);

/** Removes the prototype: a policy may be named `constructor`. */
const withoutPrototype = (object) => Object.setPrototypeOf(object, null);

class Feed {
  #watchers = new Set();
  #stream = null;
  #timer = 0;
  #attempts = 0;
  #generation = 0;
  #lostAt = 0;
  #setReady;
  ticks = [];
  state = null;
  policies = null;
  link = "connecting";
  error = "";
  /** Resolves with the first data, or with the first failure to get any. */
  ready = new Promise((resolve) => { this.#setReady = resolve; });

  constructor() {
    // A browser opens six connections per server, and the server limits its watchers: a hidden page uses neither.
    // The server's history fills the gap afterwards.
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#close() : this.start()));
  }

  /** Calls `watcher` now and after every change. Returns a function that unsubscribes. */
  watch(watcher) {
    this.#watchers.add(watcher);
    watcher(this);
    return () => this.#watchers.delete(watcher);
  }

  /** Connects, or connects again. */
  start(stream = globalThis.openStream()) {
    this.#close();
    this.#stream = stream;
    if (document.hidden) return this.#close();
    this.#restartTimeout();
    this.#read(stream.response).then(
      () => "",
      (error) => (error instanceof TypeError ? "" : error.message),
    ).then((reason) => { if (stream === this.#stream) this.#onLost(reason); });
  }

  #close() {
    clearTimeout(this.#timer);
    this.#stream?.abort.abort();
    this.#stream = null;
  }

  #restartTimeout() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#onLost(""), SILENT_MS);
  }

  /** Reads events until the stream ends. A network error is a TypeError; a refusal by the server is a plain Error. */
  async #read(pending) {
    const response = await pending;
    if (!response.ok) throw new Error((await response.json().catch(() => ({}))).detail ?? `The server answered ${response.status}`);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let buffer = ""; ;) {
      const { value, done } = await reader.read();
      if (done) return;
      buffer += value;
      // An event may arrive in several chunks.
      if (!buffer.endsWith("\n\n")) continue;
      for (const [, name, data] of buffer.matchAll(/^event: ([^\n]+)\ndata: ([^\n]+)$/gm)) this.#onEvent(name, JSON.parse(data));
      buffer = "";
    }
  }

  #onEvent(name, { history, policies, tick, state }) {
    this.#restartTimeout();
    withoutPrototype(state.policies);
    this.state = state;
    if (name === "snapshot") {
      const last = this.ticks.at(-1)?.t ?? 0;
      for (const one of history) if (one.t > last) this.#add(one);
      this.policies = withoutPrototype(policies);
      this.#generation = state.generation;
      this.#attempts = 0;
      this.link = "live";
    } else {
      this.#add(tick);
      // The configuration changed, and only a snapshot contains the policies.
      if (state.generation !== this.#generation) this.start();
    }
    this.#notify();
  }

  #add(tick) {
    const last = this.ticks.at(-1);
    withoutPrototype(tick.policies);
    // Charts interrupt their lines at a gap.
    if (last && tick.t - last.t > GAP_MS) this.ticks.push({ t: last.t + 1000, gap: true });
    this.ticks.push(tick);
    while (this.ticks.length > TICKS_MAX) this.ticks.shift();
  }

  #onLost(reason) {
    this.#close();
    if (this.link !== "reconnecting") this.#lostAt = Date.now();
    this.link = "reconnecting";
    this.error = `${reason || `Connection to the server lost at ${timeOfDay(this.#lostAt)}`}. Reconnecting…`;
    this.#timer = setTimeout(() => this.start(), RETRY_MS[Math.min(this.#attempts++, RETRY_MS.length - 1)]);
    this.#notify();
  }

  #notify() {
    this.#setReady();
    for (const watcher of this.#watchers) watcher(this);
  }

  /** Chart data: x, and one array of values for each reader of a tick. Gaps are null. */
  series(...readers) {
    const x = this.ticks.map((tick) => tick.t / 1000);
    return { x, series: readers.map((read) => ({ values: this.ticks.map((tick) => (tick.gap ? null : read(tick) ?? null)) })) };
  }

  /** The mean over the last seconds. */
  recent(read) {
    const ticks = this.ticks.slice(-AVERAGED_TICKS).filter((tick) => !tick.gap);
    return ticks.length ? ticks.reduce((all, tick) => all + read(tick), 0) / ticks.length : 0;
  }

  /** The newest tick that is not a gap and passes `test`. */
  lastTick(test = () => true) {
    return this.ticks.findLast((tick) => !tick.gap && test(tick));
  }
}

export const feed = new Feed();
