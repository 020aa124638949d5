// Drives `agentcraft mcp serve`, or MCP on a node's port, with the official TypeScript clients. Arguments: the folder of the
// packages; `sdk` (the first line of releases), `legacy` or `modern` (the second one, with and without initialize); then
// the program, or a node's address and a token. The node has the template `echo`, the built-in agent.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, line, place, token] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(createRequire(`${modules}/`).resolve(name)));
const check = (holds, what) => {
  if (!holds) throw new Error(`${line}: ${JSON.stringify(what)}`);
};

const parts = async () => {
  if (line !== "sdk") {
    const [main, stdio] = [await load("@modelcontextprotocol/client"), await load("@modelcontextprotocol/client/stdio")];
    return { ...main, ...stdio };
  }
  const names = ["index", "stdio", "streamableHttp"];
  const loaded = names.map((name) => load(`@modelcontextprotocol/sdk/client/${name}.js`));
  return Object.assign({}, ...(await Promise.all(loaded)));
};
const { Client, StdioClientTransport, StreamableHTTPClientTransport } = await parts();

const headers = { Authorization: `Bearer ${token}` };
const transport = token
  ? new StreamableHTTPClientTransport(new URL(`${place}/mcp`), { requestInit: { headers } })
  : new StdioClientTransport({ command: place, args: ["mcp", "serve"], env: process.env });
const options = line === "modern" ? { versionNegotiation: { mode: { pin: "2026-07-28" } } } : {};
const client = new Client({ name: "tests", version: "1.0.0" }, options);
await client.connect(transport);
check(client.getServerVersion().name === "agentcraft", client.getServerVersion());

const call = (tool, args, more) => {
  const params = { name: `agentcraft_${tool}`, arguments: args };
  return line === "sdk" ? client.callTool(params, undefined, more) : client.callTool(params, more);
};
const succeed = async (tool, args, more) => {
  const result = await call(tool, args, more);
  check(!result.isError, result);
  return result.structuredContent;
};

// The client itself checks every result against the schema that the tool has for it.
const { tools } = await client.listTools();
const named = tools.map((tool) => tool.name);
const wanted = ["agent_status", "create_agent", "list_agents", "prompt_agent", "run_agent"];
check(wanted.every((name) => named.includes(`agentcraft_${name}`)), named);
check(tools.every((tool) => tool.inputSchema.type === "object" && tool.outputSchema.type === "object"), tools);

const made = await succeed("create_agent", { name: "worker", template: "echo" });
check(made.name === "worker", made);
check((await succeed("agent_status", { name: "worker" })).templateName === "echo", "status");
const { agents } = await succeed("list_agents", {});
check(agents.some((agent) => agent.name === "worker"), agents);
const run = await succeed("run_agent", { template: "echo", prompt: "hello run" });
check(run.response.includes("hello run") && run.stopReason === "end_turn", run);
const first = await succeed("prompt_agent", { name: "worker", message: "hello worker" });
check(first.response.includes("hello worker"), first);
const { sessionId } = first;
const again = await succeed("prompt_agent", { name: "worker", message: "and again", sessionId });
check(again.sessionId === sessionId, again);

const told = [];
await succeed("prompt_agent", { name: "worker", message: "/slow 8 60" }, { onprogress: (it) => told.push(it) });
check(told.length >= 3 && told.every((it) => it.message), told);

const missing = await call("agent_status", { name: "nobody" });
check(missing.isError && missing._meta["agentcraft/errorCode"] === "AGENT_NOT_FOUND", missing);

const withdraw = new AbortController();
const hanging = { name: "worker", message: "/hang", sessionId };
const withdrawn = call("prompt_agent", hanging, { signal: withdraw.signal, onprogress: () => withdraw.abort() });
check(await withdrawn.then(() => false, () => true), "a call that was cancelled was answered");
const read = async (uri) => (await client.readResource({ uri })).contents[0].text;
while (!(await read(`agentcraft://session/${sessionId}`)).includes("The turn ended: cancelled")) {
  await new Promise((resolve) => setTimeout(resolve, 20));
}

const { resources } = await client.listResources();
const uris = resources.map((it) => it.uri);
check(["agent/worker", "template/echo", `session/${sessionId}`].every((it) => uris.includes(`agentcraft://${it}`)), uris);
check((await read("agentcraft://agent/worker")).includes('"worker"'), "agent");
check((await read(`agentcraft://session/${sessionId}`)).includes("> hello worker"), "session");
await client.close();
process.exit(0);
