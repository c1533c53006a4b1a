// rate-limiter-flexible under load: `node peer.mjs URL ASKERS KEYS MILLISECONDS` prints one line of JSON.
// Each asker waits for its answer before it asks again. The limit is 100/s on average, as in the benchmark of our own.
import Redis from 'ioredis'
import Memcached from 'memcached'
import pg from 'pg'
import limiters from 'rate-limiter-flexible'

const [url, ...numbers] = process.argv.slice(2)
const [askers, keys, milliseconds] = numbers.map(Number)
const options = { points: 6000, duration: 60, keyPrefix: 'rlflx' }

// Resolves when the limiter can be asked.
const makers = {
  async postgres() {
    // Beyond 32 connections two cores gain nothing; the default is 10.
    const pool = new pg.Pool({ connectionString: url, max: 32 })
    const limiter = await new Promise((resolve, reject) => {
      const made = new limiters.RateLimiterPostgres({ ...options, storeClient: pool }, (error) =>
        error ? reject(error) : resolve(made))
    })
    // Every key has a row before it is measured, as ours have.
    await pool.query(
      `INSERT INTO rlflx SELECT 'rlflx:user-' || lpad(n::text, 19, '0'), 1, 0
       FROM generate_series(0, $1::int - 1) AS n WHERE NOT EXISTS (SELECT FROM rlflx)`, [keys])
    return limiter
  },
  async redis() {
    const storeClient = new Redis(url)
    await storeClient.ping()
    return new limiters.RateLimiterRedis({ ...options, storeClient })
  },
  async memcached() {
    const storeClient = new Memcached(url.replace('memcached://', ''), { poolSize: 32 })
    return new limiters.RateLimiterMemcache({ ...options, storeClient })
  },
}
const limiter = await makers[url.split(':')[0]]()

const times = []
async function ask(until) {
  while (performance.now() < until) {
    const key = `user-${String(Math.floor(Math.random() * keys)).padStart(19, '0')}`
    const asked = performance.now()
    await limiter.consume(key)
    times.push(performance.now() - asked)
  }
}

async function load(time) {
  times.length = 0
  const start = performance.now()
  await Promise.all(Array.from({ length: askers }, () => ask(start + time)))
  return (performance.now() - start) / 1000
}

// Connects, and lets the compiler see the code.
await load(milliseconds / 4)
const warmUp = times.length
const cpu = process.cpuUsage()
const seconds = await load(milliseconds)
const { user, system } = process.cpuUsage(cpu)
times.sort((a, b) => a - b)
const us = (quantile) => times[Math.floor((times.length - 1) * quantile)] * 1000
const [decisions, cpu_us] = [times.length, user + system]
console.log(JSON.stringify({ decisions, seconds, p50_us: us(0.5), p99_us: us(0.99), cpu_us, asked: warmUp + decisions }))
process.exit()
