//! Paths inside an archive: bytes that name something below one folder, checked once; and where links may lead.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Limits, Problem};

/// Where changes are staged, at the top of a tree. Nothing by this name is ever packed or unpacked.
pub const STAGE_NAME: &str = ".agentcraft-apply";

/// The longest name of one file that Linux takes.
const NAME_BYTES_MAX: usize = 255;

/// A checked path: relative, no `.`, no `..`, no empty name. Shown with bytes that are no text as `%FF`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryPath(Box<[u8]>);

impl EntryPath {
    /// Checks a name from an archive. None is the folder itself (`.` or `./`).
    pub(crate) fn parse(name: &[u8], limits: &Limits) -> Result<Option<Self>, Problem> {
        let refuse = |why| {
            Err(Problem::Path {
                name: escaped(name),
                why,
            })
        };
        let mut rest = name;
        while let Some(after) = rest.strip_prefix(b"./") {
            rest = after;
        }
        let rest = rest.strip_suffix(b"/").unwrap_or(rest);
        if rest == b"." || (rest.is_empty() && name.starts_with(b"./")) {
            return Ok(None);
        }
        if name.is_empty() {
            return refuse("it is empty");
        }
        if name.starts_with(b"/") {
            return refuse("it is absolute");
        }
        if name.contains(&0) {
            return refuse("it holds a NUL");
        }
        if name.len() > limits.path_bytes {
            return refuse("it is too long");
        }
        let mut depth = 0;
        for part in rest.split(|byte| *byte == b'/') {
            depth += 1;
            match part {
                b"" => return refuse("a part of it is empty"),
                b"." => return refuse("a part of it is `.`"),
                b".." => return refuse("a part of it is `..`"),
                _ if part.len() > NAME_BYTES_MAX => return refuse("a part of it is too long"),
                _ if depth == 1 && part.eq_ignore_ascii_case(STAGE_NAME.as_bytes()) => {
                    return refuse("the name is reserved");
                }
                _ => {}
            }
        }
        if depth > limits.depth {
            return refuse("it is too deep");
        }
        Ok(Some(Self(rest.into())))
    }

    /// The folder itself, for messages.
    pub(crate) fn top() -> Self {
        Self(Box::from(&b"."[..]))
    }

    /// A path that is only looked for.
    pub(crate) fn known(path: &[u8]) -> Self {
        Self(path.into())
    }

    /// A name that the kernel gave us, below `parent`.
    pub(crate) fn below(parent: Option<&Self>, name: &[u8]) -> Self {
        match parent {
            None => Self(name.into()),
            Some(parent) => Self([&parent.0, &b"/"[..], name].concat().into()),
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn parts(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/')
    }

    /// The folder it is in, and its name there.
    pub(crate) fn split(&self) -> (Option<Self>, &[u8]) {
        match self.0.iter().rposition(|byte| *byte == b'/') {
            None => (None, &self.0),
            Some(slash) => (Some(Self(self.0[..slash].into())), &self.0[slash + 1..]),
        }
    }

    pub(crate) fn parent(&self) -> Option<Self> {
        self.split().0
    }

    /// Where a link at this path leads, by names alone; None if that is outside, or the top.
    pub(crate) fn resolve(&self, target: &[u8]) -> Option<Self> {
        let mut parts: Vec<&[u8]> = self.parts().collect();
        parts.pop();
        for part in target.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    parts.pop()?;
                }
                name => parts.push(name),
            }
        }
        (!parts.is_empty()).then(|| Self(parts.join(&b'/').into()))
    }
}

/// Whether a link at `path` stays inside, whatever else is in the tree: a relative target whose `..` all come first
/// and do not climb past the top. Its folder is a real one, so those lead to real folders; whatever the names after
/// them lead through is a link that was checked the same way.
pub(crate) fn check_target(
    path: &EntryPath,
    target: &[u8],
    limits: &Limits,
) -> Result<(), Problem> {
    let refuse = |why| {
        Err(Problem::Link {
            path: path.clone(),
            target: escaped(target),
            why,
        })
    };
    if target.is_empty() || target.contains(&0) {
        return refuse("that is no path");
    }
    if target.len() > limits.path_bytes {
        return refuse("that is too long");
    }
    if target.starts_with(b"/") {
        return refuse("that is absolute");
    }
    let mut room = path.parts().count() - 1;
    let mut climbing = true;
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if !climbing => return refuse("`..` comes after a name"),
            b".." if room == 0 => return refuse("that leads outside"),
            b".." => room -= 1,
            _ => climbing = false,
        }
    }
    Ok(())
}

/// Bytes as text that can be read back: `%` and what is not UTF-8 become `%XX`.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '%' => text.push_str("%25"),
                letter => text.push(letter),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    Some(bytes)
}

impl fmt::Display for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escaped(&self.0))
    }
}

impl fmt::Debug for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&escaped(&self.0), f)
    }
}

impl Serialize for EntryPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&escaped(&self.0))
    }
}

impl<'de> Deserialize<'de> for EntryPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let text = String::deserialize(deserializer)?;
        let bytes = unescaped(&text).ok_or_else(|| D::Error::custom("a broken escape"))?;
        let parsed = Self::parse(&bytes, &Limits::default()).map_err(D::Error::custom)?;
        parsed.ok_or_else(|| D::Error::custom("the folder itself is no entry"))
    }
}

/// The target of a link, which may be any bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target(pub(crate) Box<[u8]>);

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&escaped(&self.0))
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = unescaped(&text);
        let bytes = bytes.ok_or_else(|| serde::de::Error::custom("a broken escape"))?;
        Ok(Self(bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str) -> Result<Option<String>, &'static str> {
        match EntryPath::parse(name.as_bytes(), &Limits::default()) {
            Ok(path) => Ok(path.map(|path| path.to_string())),
            Err(Problem::Path { why, .. }) => Err(why),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn names_are_taken_only_if_they_stay_below() {
        let long = "a/".repeat(200);
        let cases = [
            ("a", Ok(Some("a"))),
            ("./a/b/", Ok(Some("a/b"))),
            ("././a", Ok(Some("a"))),
            ("a\\b", Ok(Some("a\\b"))),
            (".", Ok(None)),
            ("./", Ok(None)),
            ("..a/b..", Ok(Some("..a/b.."))),
            ("", Err("it is empty")),
            ("/", Err("it is absolute")),
            ("/etc/passwd", Err("it is absolute")),
            ("..", Err("a part of it is `..`")),
            ("a/../../b", Err("a part of it is `..`")),
            ("a//b", Err("a part of it is empty")),
            (".//etc", Err("a part of it is empty")),
            ("a/./b", Err("a part of it is `.`")),
            ("a\0b", Err("it holds a NUL")),
            (".AgentCraft-Apply/journal", Err("the name is reserved")),
            (&long, Err("it is too deep")),
        ];
        for (name, expected) in cases {
            let expected = expected.map(|path: Option<&str>| path.map(str::to_owned));
            assert_eq!(parse(name), expected, "{name:?}");
        }
    }

    #[test]
    fn links_may_lead_inside_only() {
        let cases = [
            ("a/b/l", "../x", true),
            ("a/b/l", "../../x", true),
            ("a/b/l", "./../c//d/.", true),
            ("l", "x/y", true),
            ("l", ".", true),
            ("l", "..", false),
            ("a/b/l", "../../../x", false),
            ("a/b/l", "/x", false),
            // `up` may lead to the top, and its `..` is then outside.
            ("a/b/l", "up/../x", false),
            ("l", "", false),
        ];
        for (path, target, inside) in cases {
            let path = EntryPath(path.as_bytes().into());
            let verdict = check_target(&path, target.as_bytes(), &Limits::default());
            assert_eq!(verdict.is_ok(), inside, "{path} -> {target}: {verdict:?}");
        }
    }

    #[test]
    fn any_name_survives_being_written_as_text() {
        for bytes in [
            &b"plain"[..],
            b"100%",
            b"\xff\xfe/x",
            "é".as_bytes(),
            b"%FF",
        ] {
            let path = EntryPath(bytes.into());
            let text = serde_json::to_string(&path).unwrap();
            assert_eq!(serde_json::from_str::<EntryPath>(&text).unwrap(), path);
        }
        for text in [
            "\"../x\"",
            "\"/x\"",
            "\"%2E%2E/x\"",
            "\"%\"",
            "\"%G0\"",
            "\".\"",
        ] {
            assert!(serde_json::from_str::<EntryPath>(text).is_err(), "{text}");
        }
    }
}
