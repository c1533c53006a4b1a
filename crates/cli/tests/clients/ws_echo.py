"""A WebSocket echo server. Prints its port once it listens."""
import base64
import hashlib
import socketserver
import struct


class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        headers = {}
        self.rfile.readline()
        while (line := self.rfile.readline().strip()):
            name, value = line.decode().split(":", 1)
            headers[name.lower()] = value.strip()
        accept = headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(accept.encode()).digest()).decode()
        self.wfile.write(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\n"
            f"Sec-WebSocket-Protocol: {headers['sec-websocket-protocol']}\r\n\r\n".encode()
        )
        while True:
            opcode, payload = self.frame()
            self.send(opcode, payload)
            if opcode & 15 == 8:
                return

    def frame(self):
        first, second = self.rfile.read(2)
        length = second & 127
        if length == 126:
            (length,) = struct.unpack(">H", self.rfile.read(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", self.rfile.read(8))
        mask = self.rfile.read(4)
        payload = self.rfile.read(length)
        return first, bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))

    def send(self, first, payload):
        length = len(payload)
        if length < 126:
            size = bytes([length])
        elif length < 65536:
            size = b"\x7e" + struct.pack(">H", length)
        else:
            size = b"\x7f" + struct.pack(">Q", length)
        self.wfile.write(bytes([first]) + size + payload)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


server = Server(("127.0.0.1", 0), Echo)
print(server.server_address[1], flush=True)
server.serve_forever()
