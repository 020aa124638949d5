// A small sign for each part, drawn with lines so that it takes the colour of the words beside it.

import { draw } from "./dom.js";

const LINES = {
  overview: "M3 9.5 10 4l7 5.5M5 8.5V16h10V8.5",
  agents: "M5 7h10v8H5zM10 4v3M8 10.5v1M12 10.5v1M3 10v2M17 10v2",
  sessions: "M3.5 5h13v8.5H9L5.5 16v-2.5h-2z",
  asks: "M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14M8 8.2a2 2 0 1 1 2.8 1.9c-.6.3-.8.7-.8 1.4M10 13.6v.4",
  workflows: "M4 4h4v4H4zM12 12h4v4h-4zM6 8v6h6M12 4h4v4h-4z",
  runs: "M6 4.5v11l9-5.5z",
  peers: "M10 6.5a2 2 0 1 0 0-.1M5 15a2 2 0 1 0 0-.1M15 15a2 2 0 1 0 0-.1M9 8l-3 5M11 8l3 5M7 15h6",
  offices: "M4.5 17V4h7v13M11.5 8.5h4V17M3 17h14M7 7h2M7 10h2M7 13h2",
  delegations: "M3.5 6V15h13V7h-6L9 5H3.5zM8 11h5m-2-2 2 2-2 2",
  journal: "M5 3.5h10v13H5zM7.5 7h5M7.5 10h5M7.5 13h3",
  usage: "M4 16.5h12.5M5.5 14v-4M9 14V6M12.500 14V8.500M16 14V4",
};

/** The sign of a part; whoever hears the page does without it. */
export const icon = (name) => draw("svg", { class: "icon", viewBox: "0 0 20 20", width: 18, height: 18, "aria-hidden": "true" }, draw("path", { d: LINES[name] }));
