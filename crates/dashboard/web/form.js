// Forms made from a JSON Schema: what a tool takes, and what a question wants to know.

import { make } from "./dom.js";

/** Fields of a form; a schema with more is written as JSON by whoever knows what it means. */
const FIELDS_MAX = 60;

const TYPES = { string: "text", integer: "number", number: "number" };
const FORMATS = { email: "email", uri: "url", date: "date" };

/** What a property may be, with a word for people; nothing if it may be anything. */
function choices({ enum: words, enumNames, oneOf, anyOf, type }) {
  if (Array.isArray(words)) return words.map((value, index) => [value, enumNames?.[index] ?? String(value)]);
  const titled = (oneOf ?? anyOf)?.filter((choice) => "const" in choice);
  if (titled?.length) return titled.map((choice) => [choice.const, choice.title ?? String(choice.const)]);
  return type === "boolean" ? [[true, "yes"], [false, "no"]] : null;
}

function field([name, property], isRequired) {
  const words = choices(property);
  const common = { name, required: isRequired, autocomplete: "off" };
  const given = property.default;
  let entry, read;
  if (words) {
    // The value is the place in the list: choices may be of any type.
    const options = words.map(([value, word], index) => make("option", { value: String(index), selected: given === value }, word));
    entry = make("select", common, isRequired && given !== undefined ? null : make("option", { value: "" }, isRequired ? "choose" : "not given"), options);
    read = (text) => words[Number(text)][0];
  } else if (TYPES[property.type]) {
    entry = make("input", { ...common, type: FORMATS[property.format] ?? TYPES[property.type], value: given ?? "", min: property.minimum, max: property.maximum,
      minlength: property.minLength, maxlength: property.maxLength, pattern: property.pattern, step: property.type === "number" ? "any" : null });
    read = (text) => (property.type === "string" ? text : Number(text));
  } else {
    entry = make("textarea", { ...common, rows: "2", placeholder: "JSON", spellcheck: "false", value: given === undefined ? "" : JSON.stringify(given) });
    read = (text) => {
      try {
        return JSON.parse(text);
      } catch {
        throw new Error(`${name} is not JSON.`);
      }
    };
  }
  return { name, read, label: make("label", {}, make("span", {}, property.title ?? name, isRequired ? null : make("span", { class: "soft" }, " optional")), entry,
    property.description ? make("small", { class: "soft" }, property.description) : null) };
}

/** A field for each property of a schema. `labels` are to be put into a form, `read` gives what was filled in. */
export function fields(schema) {
  const required = schema?.required ?? [];
  const all = Object.entries(schema?.properties ?? {}).slice(0, FIELDS_MAX).map((entry) => field(entry, required.includes(entry[0])));
  return {
    labels: all.map(({ label }) => label),
    read(form) {
      const given = new FormData(form);
      const filled = all.filter(({ name }) => String(given.get(name) ?? "") !== "");
      return Object.fromEntries(filled.map(({ name, read }) => [name, read(String(given.get(name)))]));
    },
  };
}
