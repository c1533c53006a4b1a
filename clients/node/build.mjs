// Builds the package for `import` and for `require`, each with its own types, and copies the project's licences.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const typescript = dirname(createRequire(import.meta.url).resolve('typescript/package.json'));
const tsc = join(typescript, 'bin', 'tsc');
const formats = [
  { folder: 'dist/esm', type: 'module', module: 'esnext' },
  { folder: 'dist/cjs', type: 'commonjs', module: 'commonjs' },
];

process.chdir(import.meta.dirname);
rmSync('dist', { recursive: true, force: true });
for (const { folder, type, module } of formats) {
  const options = ['--module', module, '--moduleResolution', 'bundler', '--outDir', folder];
  execFileSync(process.execPath, [tsc, '-p', '.', ...options], { stdio: 'inherit' });
  mkdirSync(folder, { recursive: true });
  // The module type of this folder's .js files.
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify({ type })}\n`);
}
for (const licence of ['LICENSE-APACHE', 'LICENSE-MIT']) {
  copyFileSync(join('../..', licence), join('dist', licence));
}
