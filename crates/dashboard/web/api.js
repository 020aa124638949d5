// Talking to the node: requests that say in words what went wrong, and the one stream of what happens.

/** How long an answer may take: a look, and an act, which may start a program. Calls of tools name their own time. */
const LOOK_MS = 30000, ACT_MS = 120000;

/** How long the stream may be silent: the node says something each 15 seconds. And how long it may take to open. */
const SILENCE_MS = 40000, OPEN_MS = 10000;

/** Ends everything under way, on a line that is dead: nobody would ever hear how it went. */
let line = new AbortController();
export function hangUp() {
  line.abort();
  line = new AbortController();
}

/** Asks the node; gives JSON or throws with words for people. */
export async function ask(method, path, body, patience = method === "GET" ? LOOK_MS : ACT_MS) {
  const end = AbortSignal.timeout(patience);
  const options = { method, headers: {}, signal: AbortSignal.any([end, line.signal]) };
  if (body !== undefined) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer, text;
  try {
    answer = await fetch(path, options);
    text = await answer.text();
  } catch (error) {
    const isLate = ["TimeoutError", "AbortError"].includes(error.name);
    const heard = method === "GET" ? "" : " Whether it heard this is not known.";
    throw Object.assign(new Error((isLate ? "The node does not answer in time. The line may be dead." : "The node does not answer. It may have stopped.") + heard), { isCut: error.name === "AbortError" });
  }
  if (answer.status === 401) throw Object.assign(new Error("You are not logged in any more. Run: agentcraft dashboard"), { isLogin: true });
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    value = null;
  }
  if (!answer.ok) {
    const error = value?.error;
    throw new Error((typeof error === "string" ? error : error?.message) ?? `The node answered ${answer.status}.`);
  }
  return value;
}

export const get = (path, patience) => ask("GET", path, undefined, patience);
export const post = (path, body = {}, patience) => ask("POST", path, body, patience);
export const remove = (path) => ask("DELETE", path);

/** The daemon that was last heard; another one may have lost the last events of a session. */
let daemon = null;

/** Follows the node. A break is mended by the browser, which says how far it had come. A line that is dead without a break
 * is not: whoever follows asks `isDead` now and then, and follows anew. */
export function follow({ session, from = 1, onHello, onJournal, onSession, onOver, onAnew, onMissed, onLine }) {
  const query = new URLSearchParams(session ? { session, from } : {});
  if (daemon) query.set("daemon", daemon);
  const source = new EventSource(`/api/stream?${query}`);
  let heard = Date.now(), isOpen = false;
  const on = (name, act) => source.addEventListener(name, (event) => {
    heard = Date.now();
    act?.(event);
  });
  on("open", () => {
    isOpen = true;
    onLine("connected");
  });
  on("error", () => onLine(source.readyState === EventSource.CLOSED ? "closed" : "reconnecting"));
  on("beat");
  on("hello", (event) => {
    daemon = event.data;
    onHello();
  });
  on("anew", (event) => {
    daemon = event.data;
    onAnew();
  });
  on("journal", (event) => onJournal(JSON.parse(event.data)));
  on("session", (event) => onSession(JSON.parse(event.data)));
  on("over", () => onOver());
  on("missed", () => onMissed());
  return { close: () => source.close(), isDead: () => Date.now() - heard > (isOpen ? SILENCE_MS : OPEN_MS) };
}
