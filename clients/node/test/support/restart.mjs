// Kills a tidegate and starts one in its place, for a test that is not to notice meanwhile.
import { kill, startServer, until } from './server.mjs';

const [pid, on, folder] = process.argv.slice(2);
kill(Number(pid));
// The killed one may hold its address a moment longer.
const server = await until('the address', () => startServer({ on, folder }).catch(() => undefined));
console.log(server.pid);
process.exit(0);
