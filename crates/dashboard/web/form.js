// Forms made from a JSON Schema: what a tool takes, and what a question wants to know.

import { make, visible } from "./dom.js";

/** Fields of a form; a schema with more is written as JSON by whoever knows what it means. */
const FIELDS_MAX = 60;

const TYPES = { string: "text", integer: "number", number: "number" };
const FORMATS = { email: "email", uri: "url", date: "date" };

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isNothing = (choice) => isObject(choice) && choice.type === "null";

/** A property as its field is made from: what is no object may be anything, and what may also be nothing is what else it may be. */
function plain(property) {
  if (!isObject(property)) return {};
  const type = Array.isArray(property.type) ? property.type.filter((word) => word !== "null") : null;
  const { anyOf, ...rest } = { ...property, ...(type?.length === 1 ? { type: type[0] } : {}) };
  const others = Array.isArray(anyOf) ? anyOf.filter((choice) => !isNothing(choice)) : null;
  return others?.length === 1 && others.length < anyOf.length && isObject(others[0]) ? { ...others[0], ...rest } : { ...rest, anyOf };
}

/** What a property may be, with a word for people; nothing if it may be anything. */
function choices({ enum: words, enumNames, oneOf, anyOf, type }) {
  if (Array.isArray(words)) return words.map((value, index) => [value, enumNames?.[index] ?? String(value)]);
  const ways = oneOf ?? anyOf;
  const titled = Array.isArray(ways) ? ways.filter((choice) => isObject(choice) && "const" in choice) : null;
  if (titled?.length) return titled.map((choice) => [choice.const, choice.title ?? String(choice.const)]);
  return type === "boolean" ? [[true, "yes"], [false, "no"]] : null;
}

/** A pattern of JSON Schema may match anywhere, one of a browser must match the whole. */
const anywhere = (pattern) => (pattern == null ? null : `.*(?:${pattern}).*`);

/** A choice of several: a box for each. */
function boxes([name, property], words, isRequired) {
  const given = Array.isArray(property.default) ? property.default : [];
  const box = ([value, word], index) => make("label", { class: "box" }, make("input", { type: "checkbox", name, value: String(index), checked: given.includes(value) }), visible(word));
  return { label: make("fieldset", {}, make("legend", {}, title(name, property, isRequired)), words.map(box), about(property)),
    read(form) {
      const chosen = form.getAll(name).map((place) => words[Number(place)][0]);
      return chosen.length || isRequired ? chosen : undefined;
    } };
}

const title = (name, property, isRequired) => make("span", {}, visible(property.title ?? name), isRequired ? null : make("span", { class: "soft" }, " optional"));
const about = ({ description }) => (description ? make("small", { class: "soft" }, visible(description)) : null);

function field(entry, isRequired) {
  const [name, property] = entry;
  const several = property.type === "array" ? choices(plain(property.items)) : null;
  if (several) return { name, ...boxes(entry, several, isRequired) };
  const { input, read } = control(entry, isRequired);
  return { name, label: make("label", {}, title(name, property, isRequired), input, about(property)),
    read(form) {
      const text = String(form.get(name) ?? "");
      return text === "" ? undefined : read(text);
    } };
}

function control([name, property], isRequired) {
  const words = choices(property);
  const common = { name, required: isRequired, autocomplete: "off" };
  const given = property.default;
  if (words) {
    // The value is the place in the list: choices may be of any type.
    const options = words.map(([value, word], index) => make("option", { value: String(index), selected: given === value }, visible(word)));
    return { input: make("select", common, isRequired && given !== undefined ? null : make("option", { value: "" }, isRequired ? "choose" : "not given"), options),
      read: (text) => words[Number(text)][0] };
  }
  if (TYPES[property.type]) {
    const input = make("input", { ...common, type: FORMATS[property.format] ?? TYPES[property.type], value: given ?? "", min: property.minimum, max: property.maximum,
      minlength: property.minLength, maxlength: property.maxLength, pattern: anywhere(property.pattern), step: property.type === "number" ? "any" : null });
    return { input, read: (text) => (property.type === "string" ? text : Number(text)) };
  }
  const input = make("textarea", { ...common, rows: "2", placeholder: "JSON", spellcheck: "false", value: given === undefined ? "" : JSON.stringify(given) });
  return { input, read(text) {
    try {
      return JSON.parse(text);
    } catch {
      throw new Error(`${name} is not JSON.`);
    }
  } };
}

/** A field for each property of a schema. `labels` are to be put into a form, `read` gives what was filled in. */
export function fields(schema) {
  const required = Array.isArray(schema?.required) ? schema.required : [];
  const properties = isObject(schema?.properties) ? schema.properties : {};
  const all = Object.entries(properties).slice(0, FIELDS_MAX).map(([name, property]) => field([name, plain(property)], required.includes(name)));
  return {
    labels: all.map(({ label }) => label),
    read(form) {
      const given = new FormData(form);
      return Object.fromEntries(all.map(({ name, read }) => [name, read(given)]).filter(([, value]) => value !== undefined));
    },
  };
}
