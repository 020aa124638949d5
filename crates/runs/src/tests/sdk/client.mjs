// The client of npm's acp-sdk: every mode, an answer, a cancel, the log. Arguments: its folder, and the node's address.
import { createRequire } from "node:module";

const [modules, baseUrl] = process.argv.slice(2);
// As a module it asks for its own package.json in a way that only some versions of Node take.
const { Client } = createRequire(`${modules}/`)("acp-sdk");
const client = new Client({ baseUrl });
const done = (step) => console.log(step);
const check = (holds, what) => {
  if (!holds) throw new Error(JSON.stringify(what));
};
const text = (run) => run.output.flatMap((message) => message.parts.map((part) => part.content)).join("");
const words = (content) => ({
  type: "message",
  message: { role: "user", parts: [{ content_type: "text/plain", content }] },
});
const until = async (run, status) => {
  while (run.status !== status) {
    run = await client.runStatus(run.run_id);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return run;
};

await client.ping();
const names = (await client.agents()).map((agent) => agent.name);
check(names.includes("echo") && (await client.agent("echo")).name === "echo", names);
done("agents");

const sync = await client.runSync("echo", "say hello");
check(sync.status === "completed" && text(sync) === "hello", sync);
done("sync");

const begun = await client.runAsync("echo", "say later");
check(text(await until(begun, "completed")) === "later", begun);
done("async");

const kinds = [];
for await (const event of client.runStream("echo", "say a\nthink b\nsay c\nwrite d.md")) kinds.push(event.type);
check(kinds[0] === "run.created" && kinds.at(-1) === "run.completed", kinds);
const told = (await client.runEvents(sync.run_id)).map((event) => event.type);
check(told.at(-1) === "run.completed", told);
done("stream");

const asking = await client.runSync("echo", "ask which?");
check(asking.status === "awaiting" && asking.await_request.type === "message", asking);
const answered = await client.runResumeSync(asking.run_id, words("this"));
check(answered.status === "completed" && text(answered) === "heard this", answered);
const again = await client.runSync("echo", "delete all");
const resumed = [];
for await (const event of client.runResumeStream(again.run_id, words("no"))) resumed.push(event.type);
check(resumed.at(-1) === "run.completed", resumed);
done("answer");

const long = await client.runAsync("echo", "wait");
await client.runCancel(long.run_id);
check((await until(long, "cancelled")).status === "cancelled", long);
done("cancel");

await client.withSession(async (session) => {
  check(text(await session.runSync("echo", "count")) === "turn 1", "first");
  check(text(await session.runSync("echo", "count")) === "turn 2", "second");
});
done("session");

const refused = await client.runSync("nobody", "x").then(() => null, (error) => error);
check(refused && String(refused).includes("nobody"), String(refused));
done("refusal");
