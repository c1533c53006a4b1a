// node-redis against the port given: what it answers, as one line of JSON each.
import { createClient } from "redis";

const client = createClient({ url: `redis://127.0.0.1:${process.argv[2]}`, socket: { reconnectStrategy: false } });
const say = (answer) => console.log(JSON.stringify(answer));
await client.connect();

say(await client.ping());
say(await client.sendCommand(["CL.THROTTLE", "node-redis", "2", "1", "3600"]));
// Sent in one go: what one tick asks for is one pipeline.
const checks = [0, 1, 2].map(() => client.sendCommand(["TG.CHECK", "login", "node-redis"]));
say((await Promise.all(checks)).map((five) => five[2]));
const transaction = client.multi();
for (let n = 0; n < 3; n++) transaction.addCommand(["TG.CHECK", "login", "node-redis"]);
say((await transaction.exec()).map((five) => five[2]));
say((await client.command()).find(({ name }) => name === "cl.throttle").arity);
say(await client.sendCommand(["FROB"]).catch((error) => error.message));
await client.close();
say("OK");
