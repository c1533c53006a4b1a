// When the circuit opens, and when it closes again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Circuit, PAUSE_MS } from '../dist/esm/circuit.js';

test('after five failures in a row one call per second probes the server', () => {
  let now = 0;
  const circuit = new Circuit(() => now);
  for (let failure = 0; failure < 5; failure += 1) {
    assert.equal(circuit.enter(), true);
    circuit.failed(PAUSE_MS);
  }
  assert.deepEqual([circuit.open, circuit.enter()], [true, false]);
  now += PAUSE_MS;
  assert.deepEqual([circuit.enter(), circuit.enter()], [true, false], 'only one probes');
  circuit.failed(PAUSE_MS);
  assert.equal(circuit.enter(), false);
  now += PAUSE_MS;
  assert.equal(circuit.enter(), true);
  circuit.undecided();
  assert.deepEqual([circuit.enter(), circuit.enter()], [true, false]);
  circuit.succeeded();
  assert.deepEqual([circuit.enter(), circuit.enter()], [true, true]);
});

test('the pause is ten times the duration of the failure, at most a second', () => {
  for (const [tookMs, pauseMs] of [[2, 20], [99, 990], [100, 1000], [60_000, 1000]]) {
    let now = 0;
    const circuit = new Circuit(() => now);
    for (let failure = 0; failure < 5; failure += 1) {
      circuit.failed(tookMs);
    }
    const asks = [];
    for (now of [pauseMs - 1, pauseMs]) {
      asks.push(!circuit.open);
    }
    assert.deepEqual(asks, [false, true], `${tookMs} ms`);
  }
});

test('failures with an answer between them do not open the circuit', () => {
  const circuit = new Circuit(() => 0);
  for (let round = 0; round < 20; round += 1) {
    circuit.enter();
    round % 5 === 4 ? circuit.succeeded() : circuit.failed(PAUSE_MS);
    assert.equal(circuit.open, false);
  }
});
