// The JavaScript SDK 0.3.14 as a server whose agent echoes, asks or waits. Prints its address; ends with its standard input.
import { createRequire } from "node:module";

const [modules] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const express = require("express");
const { AGENT_CARD_PATH } = require("@a2a-js/sdk");
const { DefaultRequestHandler, InMemoryTaskStore } = require("@a2a-js/sdk/server");
const { agentCardHandler, jsonRpcHandler, UserBuilder } = require("@a2a-js/sdk/server/express");

const cancels = new Map();

class Echo {
  async execute({ taskId, contextId, userMessage, task }, bus) {
    const words = userMessage.parts[0].text;
    const said = (text) => ({
      kind: "message", messageId: crypto.randomUUID(), contextId, taskId, role: "agent", parts: [{ kind: "text", text }],
    });
    const status = (state, message) => ({ state, message, timestamp: new Date().toISOString() });
    const tell = (state, message) =>
      bus.publish({ kind: "status-update", taskId, contextId, status: status(state, message), final: state !== "working" });
    const known = task ?? { kind: "task", id: taskId, contextId, history: [userMessage] };
    bus.publish({ ...known, status: status("working") });
    if (!task && words === "ask") {
      tell("input-required", said("which?"));
    } else if (!task && words === "wait") {
      await new Promise((resolve) => cancels.set(taskId, resolve));
      tell("canceled");
    } else {
      const artifact = { artifactId: "a", name: "a", parts: [{ kind: "text", text: `echo ${words}` }] };
      bus.publish({ kind: "artifact-update", taskId, contextId, artifact, append: false, lastChunk: true });
      tell("completed");
    }
    bus.finished();
  }

  async cancelTask(taskId) {
    cancels.get(taskId)?.();
  }
}

const app = express();
const server = app.listen(0, "127.0.0.1", () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const card = {
    name: "echo", description: "echoes", version: "1", protocolVersion: "0.3.0", url: `${url}/agent`,
    capabilities: { streaming: true }, defaultInputModes: ["text/plain"], defaultOutputModes: ["text/plain"],
    skills: [{ id: "echo", name: "echo", description: "echoes", tags: ["echo"] }],
  };
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Echo());
  app.use(`/${AGENT_CARD_PATH}`, agentCardHandler({ agentCardProvider: requestHandler }));
  app.use("/agent", jsonRpcHandler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
  console.log(url);
});
process.stdin.resume().on("end", () => process.exit(0));
