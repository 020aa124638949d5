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

const child = spawn(program, ["acp-serve"], { stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((resolve) => child.once("exit", (code) => resolve(code)));
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));

let told = [];
let waiting = [];
let asked = 0;
let choice = "allow_once";
const { agent: methods, client: own } = acp.methods;
const of = (kind) => told.filter((update) => update.sessionUpdate === kind);
const words = () =>
  of("agent_message_chunk")
    .map((update) => update.content.text)
    .join("");
const until = async (holds) => {
  while (!holds()) await new Promise((resolve) => waiting.push(resolve));
};

const editor = acp
  .client({ name: "editor" })
  .onRequest(own.session.requestPermission, ({ params }) => {
    asked += 1;
    const { optionId } = params.options.find((option) => option.kind === choice);
    return { outcome: { outcome: "selected", optionId } };
  })
  .onNotification(own.session.update, ({ params }) => {
    told.push(params.update);
    for (const resolve of waiting.splice(0)) resolve();
  });

await editor.connectWith(stream, async (context) => {
  const hello = await context.request(methods.initialize, { protocolVersion: 1, clientCapabilities: {} });
  check(hello.protocolVersion === 1 && hello.authMethods.length === 0, hello);
  const opened = await context.request(methods.session.new, { cwd: folder, mcpServers: [] });
  const { sessionId } = opened;
  const said = (text) =>
    context.request(methods.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  await until(() => of("available_commands_update").length > 0);
  const commands = of("available_commands_update")[0].availableCommands;
  check(commands.length === 10, commands);
  check(commands[0].name === "01-greet" && commands[0].input.hint.includes("who"), commands[0]);

  check((await said("/01-greet --input=who=Ann --input times=2")).stopReason === "end_turn", told);
  check(words().includes("greeted Ann"), words());
  check((await said("/02-parallel-checks")).stopReason === "end_turn", told);
  const plan = of("plan").at(-1).entries;
  check(plan.every((it) => it.status === "completed"), plan);
  const branches = of("tool_call").filter((call) => call.toolCallId.includes(":checks/"));
  check(branches.length === 3 && branches.every((call) => call.kind === "execute"), branches);

  choice = "reject_once";
  await said("/05-approval");
  check(asked === 1 && !existsSync(join(folder, "published.txt")), asked);
  choice = "allow_once";
  await said("/05-approval");
  check(asked === 2 && existsSync(join(folder, "published.txt")), asked);

  await said("/10-conversation");
  for (const turn of ["one", "two", "three", "four"]) {
    check((await said(turn)).stopReason === "end_turn", turn);
    check(words().includes(`You said: ${turn}`), words());
  }
  await said("exit");

  const hanging =
    "name: hang\nstates:\n  initial: work\n  work: {type: command, command: sleep 60, on_success: done}\n  done: {type: terminal}\n";
  writeFileSync(join(folder, ".agentcraft/workflows/hang.yaml"), hanging);
  await until(() => of("available_commands_update").at(-1).availableCommands.some((it) => it.name === "hang"));
  told = [];
  const turn = said("/hang");
  await until(() => of("tool_call").length > 0);
  await context.notify(methods.session.cancel, { sessionId });
  check((await turn).stopReason === "cancelled", told);
  check(of("tool_call_update").at(-1).status === "failed", told);
});
child.stdin.end();
check((await ended) === 0, "acp-serve failed");
