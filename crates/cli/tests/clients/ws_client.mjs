// Opens a WebSocket, sends a short and a long message, and prints the replies.
const events = [];
const socket = new WebSocket(process.argv[2], ["chat"]);
socket.binaryType = "arraybuffer";
socket.onerror = () => process.exit(1);
socket.onopen = () => {
  events.push(`open ${socket.protocol}`);
  socket.send("hello");
};
socket.onmessage = ({ data }) => {
  if (typeof data === "string") {
    events.push(data);
    socket.send(new Uint8Array(200000).fill(7));
  } else {
    const isSame = new Uint8Array(data).every((byte) => byte === 7);
    events.push(isSame ? `${data.byteLength} bytes` : "other bytes");
    socket.close(1000);
  }
};
socket.onclose = ({ code }) => {
  events.push(`closed ${code}`);
  console.log(events.join("; "));
};
