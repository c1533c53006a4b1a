// Limiters in memory for Node: `node --expose-gc peer.mjs LIBRARY KEYS MILLISECONDS` prints one line of JSON.
// Each check is awaited before the next, as a request would. No run uses the limit up.
import { MemoryStore } from 'express-rate-limit'
import limiters from 'rate-limiter-flexible'

const [library, ...numbers] = process.argv.slice(2)
const [count, milliseconds] = numbers.map(Number)
// Between two looks at the clock.
const BATCH = 64

// Each returns a function that checks one key.
const makers = {
  'rate-limiter-flexible'() {
    const limiter = new limiters.RateLimiterMemory({ points: 1e9, duration: 3600 })
    return (key) => limiter.consume(key)
  },
  'express-rate-limit'() {
    const store = new MemoryStore()
    store.init({ windowMs: 3600e3 })
    return (key) => store.increment(key)
  },
}

// Flat strings, as they come from a socket; `padStart` would leave ropes.
const text = (number) => Buffer.from(`user-${String(number).padStart(19, '0')}`).toString('latin1')
const keys = Array.from({ length: count }, (_, number) => text(number))
const order = Uint32Array.from({ length: 1 << 18 }, () => Math.floor(Math.random() * count))

function held() {
  globalThis.gc()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

const check = makers[library]()
const before = held()
for (const key of keys) await check(key)
const bytes_per_key = (held() - before) / count

async function load(time) {
  const start = performance.now()
  let checks = 0
  while (performance.now() - start < time) {
    for (let turn = 0; turn < BATCH; turn++) await check(keys[order[(checks + turn) & 0x3ffff]])
    checks += BATCH
  }
  return checks / (performance.now() - start) * 1000
}

// Lets the compiler see the code.
await load(milliseconds)
console.log(JSON.stringify({ rate: await load(milliseconds), bytes_per_key }))
process.exit()
