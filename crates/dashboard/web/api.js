// Talking to the node: requests that say in words what went wrong, and the one stream of what happens.

/** Asks the node; gives JSON or throws with words for people. */
export async function ask(method, path, body) {
  const options = { method, headers: {} };
  if (body !== undefined) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The node does not answer. It may have stopped.");
  }
  if (answer.status === 401) throw Object.assign(new Error("You are not logged in any more. Run: agentcraft dashboard"), { isLogin: true });
  const text = await answer.text();
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

export const get = (path) => ask("GET", path);
export const post = (path, body = {}) => ask("POST", path, body);
export const remove = (path) => ask("DELETE", path);

/** The daemon that was last heard; another one may have lost the last events of a session. */
let daemon = null;

/** Follows the node. A break is mended by the browser, which says how far it had come. */
export function follow({ session, from = 1, onJournal, onSession, onAnew, onMissed, onLine }) {
  const query = new URLSearchParams(session ? { session, from } : {});
  if (daemon) query.set("daemon", daemon);
  const source = new EventSource(`/api/stream?${query}`);
  source.addEventListener("open", () => onLine("connected"));
  source.addEventListener("error", () => onLine(source.readyState === EventSource.CLOSED ? "closed" : "reconnecting"));
  source.addEventListener("hello", (event) => { daemon = event.data; });
  source.addEventListener("anew", (event) => {
    daemon = event.data;
    onAnew();
  });
  source.addEventListener("journal", (event) => onJournal(JSON.parse(event.data)));
  source.addEventListener("session", (event) => onSession(JSON.parse(event.data)));
  source.addEventListener("missed", () => onMissed());
  return () => source.close();
}
