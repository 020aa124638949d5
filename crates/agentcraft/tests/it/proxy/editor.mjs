// Drives `agentcraft proxy` with the official TypeScript client. Arguments: the folder of its packages, the program, the
// agent, `direct` or `lease`.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [modules, program, agent, way] = process.argv.slice(2);
const entry = createRequire(`${modules}/`).resolve("@agentclientprotocol/sdk");
const acp = await import(pathToFileURL(entry));

const check = (holds, what) => {
  if (!holds) throw new Error(`${way}: ${JSON.stringify(what)}`);
};

const lease = way === "lease" ? ["--lease"] : [];
const child = spawn(program, ["proxy", agent, ...lease], { stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((resolve) => child.once("exit", (code) => resolve(code)));
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));

const told = [];
let asked = 0;
let choice = "allow_once";
const { agent: methods, client: own } = acp.methods;
const words = (session) =>
  told
    .filter((it) => it.sessionId === session && it.update.sessionUpdate === "agent_message_chunk")
    .map((it) => it.update.content.text)
    .join("");
const said = (sessionId, text) => ({ sessionId, prompt: [{ type: "text", text }] });

const editor = acp
  .client({ name: "editor" })
  .onRequest(own.session.requestPermission, ({ params }) => {
    asked += 1;
    const { optionId } = params.options.find((option) => option.kind === choice);
    return { outcome: { outcome: "selected", optionId } };
  })
  .onNotification(own.session.update, ({ params }) => {
    told.push(params);
  });

await editor.connectWith(stream, async (context) => {
  const hello = await context.request(methods.initialize, { protocolVersion: 1, clientCapabilities: {} });
  check(hello.protocolVersion === 1 && hello.agentCapabilities.loadSession, hello);
  const folder = { cwd: "/home/me", mcpServers: [] };
  const { sessionId: session } = await context.request(methods.session.new, folder);
  const answer = await context.request(methods.session.prompt, said(session, "hello from node"));
  check(answer.stopReason === "end_turn", answer);
  check(words(session).includes("hello from node"), words(session));
  await context.request(methods.session.prompt, said(session, "/write node.txt yes"));
  choice = "reject_once";
  await context.request(methods.session.prompt, said(session, "/write denied.txt no"));
  check(asked === 2, asked);
  const hanging = context.request(methods.session.prompt, said(session, "/hang"));
  await context.notify(methods.session.cancel, { sessionId: session });
  check((await hanging).stopReason === "cancelled", session);
  const { sessionId: second } = await context.request(methods.session.new, folder);
  await context.request(methods.session.prompt, said(second, "a second one"));
  check(words(second).includes("a second one") && !words(session).includes("a second one"), second);
  told.length = 0;
  await context.request(methods.session.load, { ...folder, sessionId: session });
  check(words(session).includes("hello from node"), told);
});
child.stdin.end();
check((await ended) === 0, "the proxy failed");
