// The JavaScript SDK 0.3.14 as a client: each step prints its name when it went as it should.
import assert from "node:assert/strict";
import http from "node:http";
import { createRequire } from "node:module";

const [modules, url] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { ClientFactory } = require("@a2a-js/sdk/client");

const said = (text, ids = {}) => ({
  kind: "message",
  messageId: crypto.randomUUID(),
  role: "user",
  parts: [{ kind: "text", text }],
  ...ids,
});

const client = await new ClientFactory().createFromUrl(`${url}/.well-known/agent-card.json`, "");
console.log("card");
const task = await client.sendMessage({ message: said("say hello") });
assert.equal(task.status.state, "completed");
assert.equal(task.artifacts[0].parts[0].text, "hello");
console.log("send");
assert.equal((await client.getTask({ id: task.id })).id, task.id);
console.log("get");
let last;
for await (const event of client.sendMessageStream({ message: said("say a b c") })) last = event;
assert.equal(last.status.state, "completed");
console.log("stream");
const asking = await client.sendMessage({ message: said("ask colour?") });
assert.equal(asking.status.state, "input-required");
let answered = false;
for await (const event of client.resubscribeTask({ id: asking.id })) {
  if (!answered) {
    answered = true;
    await client.sendMessage({ message: said("blue", { taskId: asking.id }) });
  }
  last = event;
}
assert.equal(last.status.state, "completed");
console.log("resubscribe and answer");
const waiting = await client.sendMessage({ message: said("wait"), configuration: { blocking: false } });
const cancelled = await client.cancelTask({ id: waiting.id });
assert.equal(cancelled.status.state, "canceled");
console.log("cancel");
const told = await new Promise((resolve) => {
  const hook = http.createServer((asked, answer) => {
    let body = "";
    asked.on("data", (chunk) => (body += chunk));
    asked.on("end", () => {
      answer.end();
      if (JSON.parse(body).status?.state === "completed") resolve(asked.headers);
    });
  });
  hook.listen(0, "127.0.0.1", () => {
    const pushNotificationConfig = { url: `http://127.0.0.1:${hook.address().port}/`, token: "tok" };
    client.sendMessage({ message: said("say pushed"), configuration: { pushNotificationConfig } });
  });
});
assert.equal(told["x-a2a-notification-token"], "tok");
console.log("push");
process.exit(0);
