// Loads an endpoint that tidegate protects with more than its limit, and checks what its clients rely on.
//
//   k6 run -e URL=http://127.0.0.1:8080/v1/auth/api -e LIMIT=100 -e PERIOD_S=60 -e BURST=20 limits.js
//
// The endpoint may be behind tidegate's proxy, behind another proxy with forward-auth, or an app with a client. All
// requests come from one address: the limit must be one that counts by it, or for everybody.
import http from 'k6/http';
import { check } from 'k6';
import { Counter, Trend } from 'k6/metrics';

const number = (name, otherwise) => {
  const value = Number(__ENV[name] || otherwise);
  if (!(value > 0)) {
    throw new Error(`${name} is not a number above 0: ${__ENV[name]}`);
  }
  return value;
};

const url = __ENV.URL || 'http://127.0.0.1:8080/v1/auth/api';
// The policy: LIMIT units in PERIOD_S seconds, BURST of them at once.
const limit = number('LIMIT', 100);
const perSecond = limit / number('PERIOD_S', 60);
const burst = number('BURST', limit);
// The load: RATE requests a second for SECONDS. More than the limit, or nothing is refused.
const rate = number('RATE', 50);
const seconds = number('SECONDS', 10);
// A refusal has to be cheap.
const refusedWithinMs = number('REFUSED_WITHIN_MS', 100);

// Requests that are sent at the end may be counted a second later.
const allowedMost = Math.floor(burst + perSecond * (seconds + 1));

const allowed = new Counter('allowed');
const refused = new Counter('refused');
const refusedMs = new Trend('refused_ms');

// A 429 is what we came for.
http.setResponseCallback(http.expectedStatuses({ min: 200, max: 399 }, 429));

export const options = {
  scenarios: {
    load: {
      executor: 'constant-arrival-rate', rate, duration: `${seconds}s`, preAllocatedVUs: 20, maxVUs: 200,
    },
  },
  thresholds: {
    allowed: ['count>0', `count<=${allowedMost}`],
    refused: ['count>0'],
    refused_ms: [`p(95)<${refusedWithinMs}`],
    checks: ['rate==1'],
    http_req_failed: ['rate==0'],
  },
};

export default function () {
  const response = http.get(url, { redirects: 0 });
  if (response.status !== 429) {
    // An error is no answer, and neither is a broken connection, whose status is 0.
    const isAnswered = check(response, { 'is answered': ({ status }) => status >= 200 && status < 400 });
    allowed.add(isAnswered ? 1 : 0);
    return;
  }
  refused.add(1);
  refusedMs.add(response.timings.duration);
  check(response, {
    'a 429 says when to retry': ({ headers }) => /^[1-9][0-9]*$/.test(headers['Retry-After'] || ''),
    // Without a word about it, caches do not keep a 429.
    'a 429 is not cached': ({ headers }) => !/public|max-?age=[1-9]/.test(headers['Cache-Control'] || ''),
  });
}
