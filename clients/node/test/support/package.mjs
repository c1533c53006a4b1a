// The package as npm would publish it, unpacked into a temporary folder.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

export function installPackage(after) {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-pack-'));
  after(() => rmSync(folder, { recursive: true, force: true }));
  const run = (program, ...args) => execFileSync(program, args, { cwd: folder, encoding: 'utf8', stdio: 'pipe' });
  const [{ filename, files }] = JSON.parse(run('npm', 'pack', root, '--json', '--ignore-scripts'));
  const modules = join(folder, 'node_modules');
  mkdirSync(join(modules, 'tidegate'), { recursive: true });
  run('tar', '-xzf', filename, '-C', join(modules, 'tidegate'), '--strip-components=1');
  // Everything else that a user would have installed.
  for (const name of ['@fastify', '@types', 'cors', 'express', 'fastify', 'typescript']) {
    symlinkSync(join(root, 'node_modules', name), join(modules, name));
  }
  cpSync(join(root, 'test', 'types'), join(folder, 'types'), { recursive: true });
  return { folder, run, files: files.map(({ path }) => path) };
}
