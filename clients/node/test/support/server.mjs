// A real tidegate for a test, on a free port or a Unix socket, with its own folder. Stopped afterwards.
import { spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const built = fileURLToPath(new URL('../../../../target/debug/tidegate', import.meta.url));
const program = resolve(process.env.TIDEGATE ?? built);

/** Periods of a day or more, so that no limit refills while a test runs. */
export const POLICIES = `
policies:
  three: { limit: 3/day }
  hundred: { limit: 100/day }
  plenty: { limit: 1000000/3650day }
  export: { algorithm: leaky-bucket, limit: 50/s, max_wait: 10s }
  decade: { algorithm: leaky-bucket, limit: 1/30day, max_wait: 300day }
  report: { algorithm: concurrency, limit: 2 }
  signup:
    all:
      - { name: ip, key: ip, limit: 3/day }
      - { name: domain, key: email_domain, limit: 50/day }
`;

const running = new Set();
process.on('exit', () => running.forEach((pid) => kill(pid)));

/** Waits until `probe` is truthy, and returns its value. */
export async function until(what, probe, seconds = 60) {
  const deadline = Date.now() + seconds * 1000;
  while (Date.now() < deadline) {
    const found = await probe();
    if (found) {
      return found;
    }
    await new Promise((done) => setTimeout(done, 5));
  }
  throw new Error(`waited ${seconds} s for ${what}`);
}

/**
 * `on` is the address: `127.0.0.1:0` for any free port, `unix` for a socket in its folder, null for the addresses in
 * `config`. A server with a given `folder` outlives this process. If `config` is null, it serves the demo policies.
 */
export async function startServer({ on = '127.0.0.1:0', config = POLICIES, folder: given } = {}) {
  const folder = given ?? mkdtempSync(join(tmpdir(), 'tidegate-node-'));
  const [file, out] = [join(folder, 'policies.yaml'), join(folder, 'out')];
  const configArgs = config === null ? [] : ['-c', file];
  writeFileSync(file, config ?? '');
  const listen = on === 'unix' ? `unix:${join(folder, 'http.sock')}` : on;
  const log = openSync(out, 'w');
  const child = spawn(program, ['serve', ...configArgs, ...(on === null ? [] : ['--listen', listen])], {
    stdio: ['ignore', log, log], detached: given !== undefined, cwd: folder,
  });
  closeSync(log);
  const failure = new Promise((_, reject) => child.on('error', reject));
  const ready = until('tidegate to listen', () => {
    const said = readFileSync(out, 'utf8');
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new Error(`${program} ended: ${said}`);
    }
    return /listens on (\S+)\n/.exec(said)?.[1];
  });
  const address = await Promise.race([ready, failure]);
  if (given === undefined) {
    running.add(child.pid);
  }
  const options = address.startsWith('unix:') ? { socketPath: address.slice('unix:'.length) } : { url: address };
  return {
    pid: child.pid,
    folder,
    options,
    url: options.url,
    listen: address.replace(/^http:\/\//, ''),
    /** Kills it at once, like a crash. */
    async stop() {
      running.delete(child.pid);
      const gone = child.exitCode ?? child.signalCode ?? new Promise((done) => child.on('exit', done));
      child.kill('SIGKILL');
      await gone;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export function kill(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (error.code !== 'ESRCH') {
      throw error;
    }
  }
}

/** A server and a client for the tests of one file, stopped by its `after`. */
export async function serve(after, Tidegate, options = {}, on = undefined) {
  const server = await startServer({ on });
  // Generous: these tests are not about being slow.
  const client = new Tidegate({ ...server.options, timeoutMs: 60_000, onError: 'throw', ...options });
  after(async () => {
    await client.close();
    await server.stop();
  });
  return { server, client };
}
