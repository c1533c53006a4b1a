// node-redis against the given port. Prints each reply as a line of JSON.
import { createClient } from "redis";

const client = createClient({ url: `redis://127.0.0.1:${process.argv[2]}`, socket: { reconnectStrategy: false } });
const print = (answer) => console.log(JSON.stringify(answer));
await client.connect();

print(await client.ping());
print(await client.sendCommand(["CL.THROTTLE", "node-redis", "2", "1", "3600"]));
// node-redis pipelines commands of the same tick.
const checks = [0, 1, 2].map(() => client.sendCommand(["TG.CHECK", "login", "node-redis"]));
print((await Promise.all(checks)).map((reply) => reply[2]));
const transaction = client.multi();
for (let n = 0; n < 3; n++) transaction.addCommand(["TG.CHECK", "login", "node-redis"]);
print((await transaction.exec()).map((reply) => reply[2]));
print((await client.command()).find(({ name }) => name === "cl.throttle").arity);
print(await client.sendCommand(["FROB"]).catch((error) => error.message));
await client.close();
print("OK");
