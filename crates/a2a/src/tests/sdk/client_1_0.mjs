// The JavaScript SDK 1.3.0 as a client: each step prints its name when it went as it should.
import assert from "node:assert/strict";
import http from "node:http";
import { createRequire } from "node:module";

const [modules, url, binding] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { ClientFactory, ClientFactoryOptions } = require("@a2a-js/sdk/client");
const { Role, TaskState } = require("@a2a-js/sdk");

const said = (text, ids = {}) => ({
  messageId: crypto.randomUUID(),
  contextId: "",
  taskId: "",
  role: Role.ROLE_USER,
  parts: [{ content: { $case: "text", value: text }, mediaType: "", filename: "", metadata: {} }],
  metadata: {},
  extensions: [],
  referenceTaskIds: [],
  ...ids,
});
const request = (message, configuration) => ({ tenant: "", message, configuration, metadata: {} });
const settings = (more) => ({ acceptedOutputModes: [], returnImmediately: false, ...more });

const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { preferredTransports: [binding] });
const client = await new ClientFactory(options).createFromUrl(`${url}/.well-known/agent-card.json`, "");
console.log("card");
const text = (task) => task.artifacts[0].parts[0].content.value;
const task = await client.sendMessage(request(said("say hello")));
assert.equal(task.status.state, TaskState.TASK_STATE_COMPLETED);
assert.equal(text(task), "hello");
console.log("send");
assert.equal((await client.getTask({ tenant: "", id: task.id })).id, task.id);
console.log("get");
const states = (event) => event.payload?.value?.status?.state;
let last;
for await (const event of client.sendMessageStream(request(said("say a b c")))) last = event;
assert.equal(states(last), TaskState.TASK_STATE_COMPLETED);
console.log("stream");
const asking = await client.sendMessage(request(said("ask colour?")));
assert.equal(asking.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
let answered = false;
for await (const event of client.resubscribeTask({ tenant: "", id: asking.id })) {
  if (!answered) {
    answered = true;
    await client.sendMessage(request(said("blue", { taskId: asking.id })));
  }
  last = event;
}
assert.equal(states(last), TaskState.TASK_STATE_COMPLETED);
console.log("subscribe and answer");
const waiting = await client.sendMessage(request(said("wait"), settings({ returnImmediately: true })));
const cancelled = await client.cancelTask({ tenant: "", id: waiting.id, metadata: {} });
assert.equal(cancelled.status.state, TaskState.TASK_STATE_CANCELED);
console.log("cancel");
const told = await new Promise((resolve) => {
  const hook = http.createServer((asked, answer) => {
    let body = "";
    asked.on("data", (chunk) => (body += chunk));
    asked.on("end", () => {
      answer.end();
      if (body.includes("TASK_STATE_COMPLETED")) resolve(asked.headers);
    });
  });
  hook.listen(0, "127.0.0.1", () => {
    const config = { tenant: "", id: "", taskId: "", url: `http://127.0.0.1:${hook.address().port}/`, token: "tok" };
    const push = settings({ taskPushNotificationConfig: config });
    client.sendMessage(request(said("say pushed"), push));
  });
});
assert.equal(told["x-a2a-notification-token"], "tok");
console.log("push");
process.exit(0);
