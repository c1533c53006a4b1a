// Kills a tidegate and starts a new one, while the test's event loop is blocked.
import { kill, startServer, until } from './server.mjs';

const [pid, on, folder] = process.argv.slice(2);
kill(Number(pid));
// The killed process may hold its address a moment longer.
const server = await until('the address', () => startServer({ on, folder }).catch(() => undefined));
console.log(server.pid);
process.exit(0);
