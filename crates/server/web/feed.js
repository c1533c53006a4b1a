// What the server tells once a second, kept for as long as the charts reach back.

/** As far back as the server remembers. */
const TICKS_MAX = 300;
/** A second may be late; two missing ones are a gap. */
const GAP_MS = 2500;
const RETRY_MS = [500, 1000, 2000, 3000];

class Feed {
  #watchers = new Set();
  #source = null;
  #attempts = 0;
  #generation = null;
  ticks = [];
  state = null;
  policies = null;
  link = "connecting";
  trouble = "";
  #lostAt = 0;

  constructor() {
    // Somebody who comes back to the page wants to see it at once.
    document.addEventListener("visibilitychange", () => this.#tell());
  }

  /** Calls back now and at every change. Answers how to stop. */
  watch(then) {
    this.#watchers.add(then);
    then(this);
    return () => this.#watchers.delete(then);
  }

  start() {
    const source = new EventSource("/v1/live");
    this.#source = source;
    source.addEventListener("snapshot", (event) => this.#snapshot(JSON.parse(event.data)));
    source.addEventListener("tick", (event) => this.#tick(JSON.parse(event.data)));
    source.addEventListener("error", () => this.#lost(source));
  }

  #snapshot({ history, state }) {
    const last = this.ticks.at(-1)?.t ?? 0;
    for (const tick of history) if (tick.t > last) this.#add(tick);
    this.#attempts = 0;
    this.link = "live";
    this.trouble = "";
    this.#now(state);
  }

  #tick({ tick, state }) {
    this.#add(tick);
    this.#now(state);
  }

  #now(state) {
    this.state = state;
    if (state.generation !== this.#generation) this.#rules(state.generation);
    this.#tell();
  }

  #add(tick) {
    const last = this.ticks.at(-1);
    // A gap is shown as one: charts do not draw over a tick without figures.
    if (last && tick.t - last.t > GAP_MS) this.ticks.push({ t: last.t + 1000, gap: true });
    this.ticks.push(tick);
    while (this.ticks.length > TICKS_MAX) this.ticks.shift();
  }

  /** The limits change only with the configuration. */
  async #rules(generation) {
    this.#generation = generation;
    try {
      this.policies = await (await fetch("/v1/policies")).json();
      this.#tell();
    } catch {
      this.#generation = null;
    }
  }

  #lost(source) {
    if (source !== this.#source) return;
    source.close();
    if (this.link !== "reconnecting") this.#lostAt = Date.now();
    this.link = "reconnecting";
    const since = new Date(this.#lostAt).toLocaleTimeString("en-GB");
    this.trouble = `No word from the server since ${since}. Trying again; what is missed is left out of the charts.`;
    const wait = RETRY_MS[Math.min(this.#attempts++, RETRY_MS.length - 1)];
    this.#generation = null;
    setTimeout(() => this.start(), wait);
    this.#tell();
  }

  #tell() {
    if (document.hidden) return;
    for (const then of this.#watchers) then(this);
  }

  /** x for charts, and one array of values for each of `of`: null where nothing is known. */
  series(...of) {
    const x = this.ticks.map((tick) => tick.t / 1000);
    return { x, series: of.map((one) => ({ values: this.ticks.map((tick) => (tick.gap ? null : one(tick) ?? null)) })) };
  }
}

export const feed = new Feed();
