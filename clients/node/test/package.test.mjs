// The package as published works with import, require and their compilers.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { installPackage } from './support/package.mjs';

const { folder, run, files } = installPackage(after);
const node = (...args) => run(process.execPath, ...args);
const tsc = (...args) => {
  try {
    node('node_modules/typescript/bin/tsc', '--noEmit', '--strict', '--types', 'node', '--ignoreConfig', ...args);
  } catch (error) {
    assert.fail(error.stdout + error.stderr);
  }
};

test('the package contains the expected files only', () => {
  const { dependencies, exports } = JSON.parse(readFileSync(join(folder, 'node_modules/tidegate/package.json')));
  assert.equal(dependencies, undefined);
  for (const format of ['esm', 'cjs']) {
    for (const entry of ['index', 'fastify', 'express']) {
      assert.ok(files.includes(`dist/${format}/${entry}.js`) && files.includes(`dist/${format}/${entry}.d.ts`));
    }
  }
  assert.deepEqual(Object.keys(exports), ['.', './fastify', './express', './package.json']);
  const others = files.filter((path) => !/^dist\/(esm|cjs)\/([a-z]+\.(js|d\.ts)|package\.json)$/.test(path));
  assert.deepEqual(others.sort(), ['README.md', 'dist/LICENSE-APACHE', 'dist/LICENSE-MIT', 'package.json']);
});

const names = 'Tidegate.name, TidegateError.name, typeof ipKey, typeof f.rateLimit, typeof e.rateLimit, '
  + 'f.default === f.rateLimit';
const expected = '["Tidegate","TidegateError","function","function","function",true]\n';

test('import gives ES modules', () => {
  writeFileSync(join(folder, 'a.mjs'), `import { Tidegate, TidegateError, ipKey } from 'tidegate';
    import * as f from 'tidegate/fastify'; import * as e from 'tidegate/express';
    console.log(JSON.stringify([${names}]));`);
  assert.equal(node('a.mjs'), expected);
  const resolve = 'console.log(import.meta.resolve("tidegate"))';
  assert.match(node('--input-type=module', '--eval', resolve), /dist\/esm\/index\.js/);
});

test('require gives CommonJS', () => {
  writeFileSync(join(folder, 'a.cjs'), `const { Tidegate, TidegateError, ipKey } = require('tidegate');
    const f = require('tidegate/fastify'), e = require('tidegate/express');
    console.log(JSON.stringify([${names}]));`);
  assert.equal(node('a.cjs'), expected);
  assert.match(node('--print', 'require.resolve("tidegate")'), /dist\/cjs\/index\.js/);
});

test('a client of one kind works in a middleware of the other', () => {
  writeFileSync(join(folder, 'mixed.mjs'), `import { createRequire } from 'node:module';
    import { Tidegate } from 'tidegate';
    const { rateLimit } = createRequire(import.meta.url)('tidegate/express');
    const client = new Tidegate({ socketPath: '/nowhere', onError: 'deny' });
    const response = { set() {}, status(code) { console.log(code); }, type() { return this; }, send() {} };
    await rateLimit({ client, policy: 'p' })({ ip: '192.0.2.7' }, response);`);
  assert.equal(node('mixed.mjs'), '503\n');
});

test('the types are right for both kinds of modules, and for bundlers', () => {
  tsc('--module', 'nodenext', '--target', 'es2022', 'types/use.mts', 'types/use.cts');
  tsc('--module', 'esnext', '--moduleResolution', 'bundler', '--target', 'es2022', 'types/use.mts');
});
