// Drives `agentcraft acp-serve` with the official TypeScript client. Arguments: the folder of its packages, the program,
// the folder of the project.
import { spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [modules, program, folder] = process.argv.slice(2);
const entry = createRequire(`${modules}/`).resolve("@agentclientprotocol/sdk");
const acp = await import(pathToFileURL(entry));

const check = (holds, what) => {
  if (!holds) throw new Error(JSON.stringify(what));
};

const { agent: methods, client: own } = acp.methods;

// One life of the program, with an editor that keeps what it is told.
const connected = async (visit) => {
  const child = spawn(program, ["acp-serve"], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("exit", (code) => resolve(code)));
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const editor = { told: [], asked: 0, choice: "allow_once" };
  const waiting = [];
  editor.of = (kind) => editor.told.filter((update) => update.sessionUpdate === kind);
  editor.words = () =>
    editor
      .of("agent_message_chunk")
      .map((update) => update.content.text)
      .join("");
  editor.until = async (holds) => {
    while (!holds()) await new Promise((resolve) => waiting.push(resolve));
  };
  const client = acp
    .client({ name: "editor" })
    .onRequest(own.session.requestPermission, ({ params }) => {
      editor.asked += 1;
      const { optionId } = params.options.find((option) => option.kind === editor.choice);
      return { outcome: { outcome: "selected", optionId } };
    })
    .onNotification(own.session.update, ({ params }) => {
      editor.told.push(params.update);
      for (const resolve of waiting.splice(0)) resolve();
    });
  const result = await client.connectWith(stream, async (context) => {
    const hello = await context.request(methods.initialize, { protocolVersion: 1, clientCapabilities: {} });
    check(hello.protocolVersion === 1 && hello.authMethods.length === 0, hello);
    editor.said = (sessionId, text) =>
      context.request(methods.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
    return visit(context, editor);
  });
  child.stdin.end();
  check((await ended) === 0, "acp-serve failed");
  return result;
};

const hangs = {
  sequence: "  initial: work\n  work: {type: command, command: sleep 60, on_success: done}\n",
  branches:
    "  initial: wide\n  wide: {type: parallel, parallel: [left, right], on_success: done}\n" +
    "  left: {type: command, command: sleep 60}\n  right: {type: command, command: sleep 60}\n",
  agent:
    '  initial: talk\n  talk: {type: agent, provider: "acp: agentcraft builtin-agent", prompt: /hang, on_success: done}\n',
};

const cancels = async (context, editor, sessionId) => {
  for (const [name, steps] of Object.entries(hangs)) {
    const text = `name: ${name}\nstates:\n${steps}  done: {type: terminal}\n`;
    writeFileSync(join(folder, `.agentcraft/workflows/${name}.yaml`), text);
    const isTold = () => editor.of("available_commands_update").at(-1).availableCommands.some((it) => it.name === name);
    await editor.until(isTold);
    const before = editor.told.length;
    const since = (kind) => editor.told.slice(before).filter((update) => update.sessionUpdate === kind);
    const turn = editor.said(sessionId, `/${name}`);
    await editor.until(() => since("tool_call").length > 0);
    await context.notify(methods.session.cancel, { sessionId });
    check((await turn).stopReason === "cancelled", [name, editor.told]);
    const states = {};
    for (const call of [...since("tool_call"), ...since("tool_call_update")]) {
      states[call.toolCallId] = call.status ?? states[call.toolCallId];
    }
    check(Object.values(states).every((status) => status === "failed"), [name, states]);
  }
};

const talk = async (context, editor) => {
  const { sessionId } = await context.request(methods.session.new, { cwd: folder, mcpServers: [] });
  const said = (text) => editor.said(sessionId, text);
  await editor.until(() => editor.of("available_commands_update").length > 0);
  const commands = editor.of("available_commands_update")[0].availableCommands;
  check(commands.length === 10, commands);
  check(commands[0].name === "01-greet" && commands[0].input.hint.includes("who"), commands[0]);

  check((await said("/01-greet --input=who=Ann --input times=2")).stopReason === "end_turn", editor.told);
  check(editor.words().includes("greeted Ann"), editor.words());
  check((await said("/02-parallel-checks")).stopReason === "end_turn", editor.told);
  const plan = editor.of("plan").at(-1).entries;
  check(plan.every((it) => it.status === "completed"), plan);
  const branches = editor.of("tool_call").filter((call) => call.toolCallId.includes(":checks/"));
  check(branches.length === 3 && branches.every((call) => call.kind === "execute"), branches);
  const isPlaced = ({ locations: [place] }) => place.path.endsWith("02-parallel-checks.yaml") && place.line > 0;
  check(branches.every(isPlaced), branches);

  editor.choice = "reject_once";
  await said("/05-approval");
  check(editor.asked === 1 && !existsSync(join(folder, "published.txt")), editor.asked);
  editor.choice = "allow_once";
  await said("/05-approval");
  check(editor.asked === 2 && existsSync(join(folder, "published.txt")), editor.asked);

  await said("/10-conversation");
  for (const turn of ["one", "two", "three", "four"]) {
    check((await said(turn)).stopReason === "end_turn", turn);
    check(editor.words().includes(`You said: ${turn}`), editor.words());
  }
  await said("exit");
  await cancels(context, editor, sessionId);
  // One that waits when the program ends.
  await said("/10-conversation");
  return sessionId;
};

const lookBack = (sessionId) => async (context, editor) => {
  const { sessions } = await context.request(methods.session.list, {});
  check(sessions.some((it) => it.sessionId === sessionId), sessions);
  await context.request(methods.session.load, { sessionId, cwd: folder, mcpServers: [] });
  check(editor.words().includes("You said: four") && editor.of("plan").length > 0, editor.words());
  check((await editor.said(sessionId, "once more")).stopReason === "end_turn", editor.told);
  check(editor.words().includes("You said: once more"), editor.words());
  await editor.said(sessionId, "exit");
  check((await editor.said(sessionId, "/01-greet who=Bob")).stopReason === "end_turn", editor.told);
  check(editor.words().includes("greeted Bob"), editor.words());
  await context.request(methods.session.close, { sessionId });
};

const session = await connected(talk);
await connected(lookBack(session));
