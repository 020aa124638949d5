//! The members of a JSON object, word for word and in their order, so that one of them can be changed and no other.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::value::{RawValue, to_raw_value};

/// An object whose values are left as they were written.
#[derive(Debug, Default)]
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, Cow<'a, RawValue>)>);

impl<'a> Members<'a> {
    /// Nothing if the text is no object.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&RawValue> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_ref())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// Puts a value in the place of the one that is there, or at the end.
    pub(crate) fn set(&mut self, name: &'static str, value: &(impl Serialize + ?Sized)) {
        let Ok(value) = to_raw_value(value) else {
            return; // What we set has only text keys.
        };
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = Cow::Owned(value),
            None => self.0.push((name.into(), Cow::Owned(value))),
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn write(&self) -> Box<RawValue> {
        to_raw_value(self).expect("values that were read can be written")
    }
}

/// Params in which the session is called `id`; those that name none stay as they are. Nothing if they are no JSON.
pub(crate) fn with_session(params: &str, id: &str) -> Option<Box<RawValue>> {
    let named = Members::read(params).filter(|members| members.has("sessionId"));
    let Some(mut members) = named else {
        return RawValue::from_string(params.to_owned()).ok();
    };
    members.set("sessionId", id);
    Some(members.write())
}

/// Params that named a request instead of a session, or nothing, in the session `id`. Nothing if they are no object.
pub(crate) fn in_session(params: &str, id: &str) -> Option<Box<RawValue>> {
    let mut members = Members::read(params)?;
    members.remove("requestId");
    members.set("sessionId", id);
    Some(members.write())
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(Cow<'de, str>, Cow<'de, RawValue>)> = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    let value = Cow::Borrowed(map.next_value::<&'de RawValue>()?);
                    // Of a name that comes twice most readers take the last value, and nobody shall see another than we do.
                    match members.iter_mut().find(|(known, _)| *known == name) {
                        Some((_, before)) => *before = value,
                        None => members.push((Cow::Owned(name), value)),
                    }
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value.as_ref())?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_session_changes() {
        let params = r#"{"b":1.50,"sessionId":"a","é\n":{"sessionId":"stays"},"update":null}"#;
        let changed = with_session(params, "s-1").unwrap();
        assert_eq!(
            changed.get(),
            r#"{"b":1.50,"sessionId":"s-1","é\n":{"sessionId":"stays"},"update":null}"#
        );
        assert_eq!(with_session("{}", "s-1").unwrap().get(), "{}");
        assert_eq!(with_session("[1]", "s-1").unwrap().get(), "[1]");
        assert!(with_session("[1", "s-1").is_none());
    }

    #[test]
    fn of_a_name_that_comes_twice_the_last_value_is_left() {
        let mut members = Members::read(r#"{"a":1,"b":2,"\u0061":3}"#).unwrap();
        assert_eq!(members.write().get(), r#"{"a":3,"b":2}"#);
        members.set("a", "x");
        assert_eq!(members.write().get(), r#"{"a":"x","b":2}"#);
    }

    #[test]
    fn what_is_not_there_is_put_at_the_end() {
        let mut members = Members::read(r#"{"a":1,"b":2}"#).unwrap();
        members.set("c", "x");
        members.remove("a");
        assert_eq!(members.write().get(), r#"{"b":2,"c":"x"}"#);
    }
}
