//! The steps of a plan: a list in the order of the file in which each is found by its name at once.
//!
//! A run looks a step up several times for each that it takes, so a long plan must not be searched through.

use std::collections::HashMap;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::Step;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Step>", into = "Vec<Step>")]
pub struct Steps {
    list: Vec<Step>,
    places: HashMap<String, usize>,
}

impl Steps {
    /// The step of that name; the first one, where a file has it twice.
    pub(crate) fn named(&self, name: &str) -> Option<&Step> {
        self.list.get(*self.places.get(name)?)
    }
}

impl From<Vec<Step>> for Steps {
    fn from(list: Vec<Step>) -> Self {
        let mut places = HashMap::with_capacity(list.len());
        for (place, step) in list.iter().enumerate() {
            places.entry(step.name.clone()).or_insert(place);
        }
        Self { list, places }
    }
}

impl From<Steps> for Vec<Step> {
    fn from(steps: Steps) -> Self {
        steps.list
    }
}

impl Deref for Steps {
    type Target = [Step];

    fn deref(&self) -> &[Step] {
        &self.list
    }
}

impl<'a> IntoIterator for &'a Steps {
    type Item = &'a Step;
    type IntoIter = std::slice::Iter<'a, Step>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

/// The places follow from the list.
impl PartialEq for Steps {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}
