// What is asked of the server: one question at a time, the newest; who finds it busy comes back a few times.

const DEBOUNCE_MS = 120;
const TRIES = 5;

const pause = (ms, signal) => new Promise((then, fail) => {
  setTimeout(then, ms);
  signal?.addEventListener("abort", fail);
});

async function call(path, options) {
  for (let tried = 1; ; tried += 1) {
    const response = await fetch(path, options).catch((error) => {
      throw error instanceof TypeError ? new Error("The server cannot be reached.") : error;
    });
    const said = await response.json().catch(() => ({}));
    if (response.ok) return said;
    if (response.status !== 503 || tried === TRIES) {
      throw Object.assign(new Error(said.detail ?? `The server answered ${response.status}.`), { field: said.field });
    }
    await pause(1000 * (Number(response.headers.get("retry-after")) || 1), options.signal);
  }
}

let told;

/** The experiments with their ranges, asked for once. */
export function described() {
  told ??= call("/v1/playground", {}).catch((error) => {
    told = undefined;
    throw error;
  });
  return told;
}

/** Questions to one experiment. `ask` answers null if somebody asked again meanwhile, or stopped. */
export function asker(name) {
  let under;
  let wait = 0;
  const stop = () => under?.abort();
  return {
    stop,
    async ask(input) {
      stop();
      under = new AbortController();
      const { signal } = under;
      try {
        await pause(wait, signal);
        wait = DEBOUNCE_MS;
        return await call(`/v1/playground/${name}`, { method: "POST", body: JSON.stringify(input), signal });
      } catch (error) {
        if (signal.aborted) return null;
        throw error;
      }
    },
  };
}
