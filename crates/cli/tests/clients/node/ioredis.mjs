// ioredis against the port given: what it answers, as one line of JSON each.
import Redis from "ioredis";

const client = new Redis({ host: "127.0.0.1", port: Number(process.argv[2]), retryStrategy: null });
const say = (answer) => console.log(JSON.stringify(answer));

say(await client.ping());
say(await client.call("CL.THROTTLE", "ioredis", 2, 1, 3600));
const burst = client.pipeline();
for (let n = 0; n < 3; n++) burst.call("TG.CHECK", "login", "ioredis");
say((await burst.exec()).map(([error, five]) => error ?? five[2]));
const transaction = client.multi();
for (let n = 0; n < 3; n++) transaction.call("TG.CHECK", "login", "ioredis");
say((await transaction.exec()).map(([error, five]) => error ?? five[2]));
say((await client.command()).find(([name]) => name === "cl.throttle")[1]);
say(await client.call("FROB").catch((error) => error.message));
say(await client.quit());
