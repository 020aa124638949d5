// A plain Socket.IO client in both roles: joins, calls many times at once, is refused, and hears what it should.
const { io } = require("socket.io-client");
const [url, version, transports, calls] = process.argv.slice(2);

function member(token) {
  const socket = io(`${url}/smcp`, {
    auth: { token },
    query: version ? { a2c_version: version } : {},
    transports: transports.split(","),
    forceNew: true,
  });
  const heard = [];
  const waiting = [];
  socket.onAny((event, body, ack) => {
    if (event === "client:tool_call") {
      ack({ content: [{ type: "text", text: body.req_id }], isError: false });
    } else if (event.startsWith("client:get_")) {
      ack({ servers: {} });
    } else if (waiting.length > 0) {
      waiting.shift()([event, body]);
    } else {
      heard.push([event, body]);
    }
  });
  const next = () => (heard.length > 0 ? heard.shift() : new Promise((done) => waiting.push(done)));
  const ask = (event, body) =>
    new Promise((done, fail) => {
      const timer = setTimeout(() => fail(new Error(`${event} is never acknowledged`)), 20000);
      socket.emit(event, body, (...answer) => {
        clearTimeout(timer);
        done(answer);
      });
    });
  const connected = new Promise((done, fail) => {
    socket.on("connect", done);
    socket.on("connect_error", fail);
  });
  return { socket, next, ask, connected };
}

async function main() {
  const stranger = member("wrong");
  const unknown = await stranger.connected.catch((error) => error.message);
  stranger.socket.close();
  const agent = member("t-ann");
  await agent.connected;
  const computer = member("t-pc");
  await computer.connected;
  const joined = [
    await agent.ask("server:join_office", { role: "agent", name: "ann", office_id: "o" }),
    await computer.ask("server:join_office", { role: "computer", name: "pc", office_id: "o" }),
  ];
  const entered = await agent.next();
  const call = { agent: "ann", computer: "pc", tool_name: "t", params: {}, timeout: 20 };
  const answers = await Promise.all(
    Array.from({ length: Number(calls) }, (_, n) => agent.ask("client:tool_call", { ...call, req_id: `r${n}` })),
  );
  const right = answers.filter(([answer], n) => answer.content[0].text === `r${n}`).length;
  const [refused] = await agent.ask("client:tool_call", { ...call, req_id: "x", computer: "nobody" });
  const [binary] = await agent.ask("client:tool_call", { ...call, req_id: "y", computer: Buffer.from("b") });
  const [malformed] = await agent.ask("client:tool_call", "text");
  computer.socket.close();
  const left = await agent.next();
  const transport = agent.socket.io.engine.transport.name;
  agent.socket.close();
  console.log(JSON.stringify({ unknown, transport, joined, entered, right, refused, binary, malformed, left }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
