// ioredis against the given port. Prints each reply as a line of JSON.
import Redis from "ioredis";

const client = new Redis({ host: "127.0.0.1", port: Number(process.argv[2]), retryStrategy: null });
const print = (answer) => console.log(JSON.stringify(answer));

print(await client.ping());
print(await client.call("CL.THROTTLE", "ioredis", 2, 1, 3600));
const burst = client.pipeline();
for (let n = 0; n < 3; n++) burst.call("TG.CHECK", "login", "ioredis");
print((await burst.exec()).map(([error, reply]) => error ?? reply[2]));
const transaction = client.multi();
for (let n = 0; n < 3; n++) transaction.call("TG.CHECK", "login", "ioredis");
print((await transaction.exec()).map(([error, reply]) => error ?? reply[2]));
print((await client.command()).find(([name]) => name === "cl.throttle")[1]);
print(await client.call("FROB").catch((error) => error.message));
print(await client.quit());
