// Opens a WebSocket, says something short and something long, and prints what comes back.
const told = [];
const socket = new WebSocket(process.argv[2], ["chat"]);
socket.binaryType = "arraybuffer";
socket.onerror = () => process.exit(1);
socket.onopen = () => {
  told.push(`open ${socket.protocol}`);
  socket.send("hello");
};
socket.onmessage = ({ data }) => {
  if (typeof data === "string") {
    told.push(data);
    socket.send(new Uint8Array(200000).fill(7));
  } else {
    const isSame = new Uint8Array(data).every((byte) => byte === 7);
    told.push(isSame ? `${data.byteLength} bytes` : "other bytes");
    socket.close(1000);
  }
};
socket.onclose = ({ code }) => {
  told.push(`closed ${code}`);
  console.log(told.join("; "));
};
