// What is asked of the server: one question at a time, the newest; who finds it busy comes back a few times.

const DEBOUNCE_MS = 120;
const TRIES = 5;

let told;

/** The experiments with their ranges, asked for once. */
export function described() {
  told ??= fetch("/v1/playground").then((response) => {
    if (!response.ok) throw new Error(`The server answered ${response.status}.`);
    return response.json();
  }).catch((error) => {
    told = undefined;
    throw new Error(`The playground is out of reach: ${error.message}`);
  });
  return told;
}

const pause = (ms, signal) => new Promise((then, fail) => {
  const timer = setTimeout(then, ms);
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    fail(signal.reason);
  });
});

async function post(path, body, signal) {
  for (let tried = 1; ; tried += 1) {
    const response = await fetch(path, { method: "POST", body, signal, headers: { "content-type": "application/json" } });
    if (response.ok) return response.json();
    if (response.status === 503 && tried < TRIES) {
      await pause(1000 * (Number(response.headers.get("retry-after")) || 1), signal);
      continue;
    }
    const problem = await response.json().catch(() => ({}));
    throw Object.assign(new Error(problem.detail ?? `The server answered ${response.status}.`), { field: problem.field });
  }
}

/** Questions to one experiment, of which only the last is answered. */
export class Asking {
  constructor(name) {
    this.path = `/v1/playground/${name}`;
  }

  /** The answer, or null if somebody asked again meanwhile. */
  async ask(input) {
    this.stop();
    const { signal } = this.under = new AbortController();
    try {
      await pause(this.hasAsked ? DEBOUNCE_MS : 0, signal);
      this.hasAsked = true;
      return await post(this.path, JSON.stringify(input), signal);
    } catch (error) {
      if (signal.aborted) return null;
      throw error;
    }
  }

  stop() {
    this.under?.abort();
  }
}
