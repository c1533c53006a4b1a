// Calls to the HTTP API: single checks, sample traffic, and playground runs.

import { shellQuote } from "./dom.js";

export const SAMPLE_KEY = "user-42";
const SAMPLE_SECONDS = 8;
const SAMPLE_INTERVAL_MS = 125;
const SAMPLE_CHECKS_MAX = 600;
const DEBOUNCE_MS = 120;
const PLAYGROUND_TRIES = 5;

const sleep = (ms, signal) => new Promise((resolve, reject) => {
  setTimeout(resolve, ms);
  signal?.addEventListener("abort", reject);
});

/** Returns the JSON of a response. Retries a busy server (503), up to `tries` attempts in total. */
async function call(path, options, tries = 1) {
  for (let tried = 1; ; tried += 1) {
    const response = await fetch(path, options).catch((error) => {
      throw error instanceof TypeError ? new Error("Cannot reach the server.") : error;
    });
    const body = await response.json().catch(() => ({}));
    if (response.ok) return body;
    if (response.status !== 503 || tried >= tries) {
      throw Object.assign(new Error(body.detail ?? `The server answered ${response.status}.`), { field: body.field });
    }
    await sleep(1000 * (Number(response.headers.get("retry-after")) || 1), options.signal);
  }
}

export const post = (path, body) => call(path, { method: "POST", body: JSON.stringify(body) });

/** A leaky bucket is reserved, a concurrency limit acquired, any other limit checked. */
export function checkPath(policy) {
  if (policy.algorithm === "leaky-bucket") return "/v1/reserve";
  return policy.algorithm === "concurrency" ? "/v1/acquire" : "/v1/check";
}

/** A policy with several named keys gets the same value for each: enough to try it. */
export function checkBody(name, policy, key, cost = 1) {
  const named = (policy.members ?? []).filter((member) => member.key).map((member) => [member.key, key]);
  const keys = named.length ? { keys: Object.fromEntries(named) } : { key };
  return { policy: name, ...keys, cost };
}

export function curl(name, policy, key = SAMPLE_KEY) {
  const { cost, ...body } = checkBody(name, policy, key);
  return `curl -s ${location.origin}${checkPath(policy)} -d ${shellQuote(JSON.stringify(body))}`;
}

/** Sends checks for a few seconds, one key far above its limit. Calls `onProgress(sent, isDone)`; returns a stop function. */
export function sendSamples(policies, onProgress) {
  const names = Object.keys(policies).filter((name) => policies[name].algorithm !== "concurrency").slice(0, 6);
  let [sent, round, isDone] = [0, 0, false];
  const timer = setInterval(step, SAMPLE_INTERVAL_MS);
  async function step() {
    round += 1;
    if (round * SAMPLE_INTERVAL_MS > SAMPLE_SECONDS * 1000 || sent >= SAMPLE_CHECKS_MAX || isDone) return finish();
    const checks = names.flatMap((name, index) => {
      const key = `visitor-${(round * (index + 1)) % 5}`;
      const heavy = index === 0 ? Array(6).fill("mallory") : [];
      return [key, ...heavy].map((one) => post(checkPath(policies[name]), checkBody(name, policies[name], one)));
    });
    sent += checks.length;
    onProgress(sent, false);
    const results = await Promise.allSettled(checks);
    if (results.every(({ status }) => status === "rejected")) finish();
  }
  function finish() {
    clearInterval(timer);
    if (!isDone) onProgress(sent, true);
    isDone = true;
  }
  return finish;
}

let experiments;

/** The playground's experiments with the range of each parameter, fetched once. */
export function fetchExperiments() {
  experiments ??= call("/v1/playground", {}, PLAYGROUND_TRIES).catch((error) => {
    experiments = undefined;
    throw error;
  });
  return experiments;
}

/** Runs one experiment. A newer `run` aborts the older one, which then returns null; so does `stop`. */
export function experimentRunner(name) {
  let current;
  let delay = 0;
  const stop = () => current?.abort();
  return {
    stop,
    async run(input) {
      stop();
      current = new AbortController();
      const { signal } = current;
      try {
        await sleep(delay, signal);
        delay = DEBOUNCE_MS;
        return await call(`/v1/playground/${name}`, { method: "POST", body: JSON.stringify(input), signal }, PLAYGROUND_TRIES);
      } catch (error) {
        if (signal.aborted) return null;
        throw error;
      }
    },
  };
}
