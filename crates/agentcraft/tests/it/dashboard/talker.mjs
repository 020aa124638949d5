// A small agent that speaks ACP as real ones do: it asks before it acts, with forms, and writes Markdown.

import { createInterface } from "node:readline";

const calls = new Map();
let last = 0;
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const call = (method, params) => new Promise((resolve) => {
  last += 1;
  calls.set(last, resolve);
  send({ id: last, method, params });
});

const YES_NO = [{ optionId: "yes", name: "Yes", kind: "allow_once" }, { optionId: "no", name: "No", kind: "reject_once" }];
const TRANSFER = { to: "DE44 5001 0517", amount: 9999, note: "<b>bold</b> \u202Ereversed", more: "m".repeat(30000) };
const DEPLOY = { type: "object", required: ["target", "replicas"], properties: {
  target: { type: "string", title: "Target", oneOf: [{ const: "staging", title: "Staging" }, { const: "production", title: "Production" }] },
  replicas: { type: "integer", minimum: 1, maximum: 9 }, force: { type: "boolean", description: "Even if somebody is there" } } };

const MARKDOWN = `1. First, read it:

   \`\`\`js
   const a = 1;
   \`\`\`

2. Then change it:
   - rename \`a\`
   - keep the rest

3. Run __all__ of the _tests_.

- [x] done
- [ ] open

\`\`\`\`md
\`\`\`
inside

still inside
\`\`\`
\`\`\`\`

![a chart](https://example.org/chart.png) and [a file](file:///tmp/report.pdf), snake_case_name.

| a | b |
|---|---|
| 1 \\| 2 | 3 |
`;

const prompts = {
  async transfer(say, sessionId) {
    const toolCall = { toolCallId: "t1", title: "mcp__bank__transfer", kind: "other", status: "pending", rawInput: TRANSFER, locations: [{ path: "/etc/passwd", line: 3 }] };
    const { result } = await call("session/request_permission", { sessionId, toolCall, options: YES_NO });
    send({ method: "session/update", params: { sessionId, update: { sessionUpdate: "tool_call", toolCallId: "t1", title: "mcp__bank__transfer", kind: "other", status: "completed", rawInput: TRANSFER, rawOutput: { receipt: "r-77" } } } });
    say(`told ${JSON.stringify(result)}`);
  },
  async deploy(say, sessionId) {
    const { result } = await call("elicitation/create", { sessionId, mode: "form", message: "Where to?", requestedSchema: DEPLOY });
    say(`told ${JSON.stringify(result)}`);
  },
  /** Asks, and goes on with something else meanwhile. */
  async busy(say, sessionId) {
    const toolCall = { toolCallId: "b1", title: "Delete the old logs", kind: "delete", status: "pending" };
    const answer = call("session/request_permission", { sessionId, toolCall, options: YES_NO });
    for (let count = 0; count < 1500; count += 1) {
      send({ method: "session/update", params: { sessionId, update: { sessionUpdate: "tool_call_update", toolCallId: "b2", title: `building ${count}`, status: "in_progress" } } });
    }
    send({ method: "session/update", params: { sessionId, update: { sessionUpdate: "tool_call_update", toolCallId: "b2", title: "built", status: "completed" } } });
    say(`told ${JSON.stringify((await answer).result)}`);
  },
  async markdown(say) {
    for (let at = 0; at < MARKDOWN.length; at += 5) say(MARKDOWN.slice(at, at + 5));
  },
};

const answers = {
  initialize: () => ({ protocolVersion: 1, agentCapabilities: { loadSession: false } }),
  "session/new": () => ({ sessionId: `s${last += 1}` }),
  async "session/prompt"({ sessionId, prompt }) {
    const say = (text) => send({ method: "session/update", params: { sessionId, update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } } } });
    const words = prompt.map(({ text }) => text ?? "").join("");
    await (prompts[words] ?? (async () => say(`you said ${words}`)))(say, sessionId);
    return { stopReason: "end_turn" };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params, ...said } = JSON.parse(line);
  if (method === undefined) calls.get(id)?.(said);
  else if (id !== undefined && answers[method]) Promise.resolve(answers[method](params)).then((result) => send({ id, result }));
  else if (id !== undefined) send({ id, error: { code: -32601, message: `there is no ${method}` } });
}
