//! One measured number with what it stands beside and what it should reach, and how figures are shown.

use std::fmt;

use serde_json::{Value, json};

/// A measurement. `beside` is the same measurement of something else, in the same unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    beside: Option<Beside>,
    goal: Option<Goal>,
    /// Why there is no number.
    left_out: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Beside {
    name: String,
    value: f64,
}

/// What a figure should reach, by its own value or by its ratio to what stands beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(dead_code, reason = "each benchmark uses the bound that fits it")]
pub(super) enum Goal {
    AtMost(f64),
    AtLeast(f64),
    RatioAtMost(f64),
    RatioAtLeast(f64),
}

impl Figure {
    pub(super) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            beside: None,
            goal: None,
            left_out: None,
        }
    }

    /// What could not be measured here, and why.
    pub(super) fn left_out(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            left_out: Some(why.into()),
            ..Self::new(name, 0.0, "")
        }
    }

    /// The same figure in a table of several benchmarks.
    pub(super) fn of(mut self, bench: &str) -> Self {
        self.name = format!("{bench}: {}", self.name);
        self
    }

    pub(super) fn beside(mut self, name: impl Into<String>, value: f64) -> Self {
        self.beside = Some(Beside {
            name: name.into(),
            value,
        });
        self
    }

    pub(super) fn goal(mut self, goal: Goal) -> Self {
        self.goal = Some(goal);
        self
    }

    /// Our value divided by the one beside it; None without one, or where that one is zero.
    fn ratio(&self) -> Option<f64> {
        let beside = self.beside.as_ref()?;
        (beside.value != 0.0).then(|| self.value / beside.value)
    }

    /// None without a goal, or where a goal on the ratio has no ratio.
    fn met(&self) -> Option<bool> {
        match self.goal? {
            Goal::AtMost(bound) => Some(self.value <= bound),
            Goal::AtLeast(bound) => Some(self.value >= bound),
            Goal::RatioAtMost(bound) => self.ratio().map(|ratio| ratio <= bound),
            Goal::RatioAtLeast(bound) => self.ratio().map(|ratio| ratio >= bound),
        }
    }

    /// Every key is always there; what a figure does not have is null.
    pub(super) fn json(&self) -> Value {
        json!({
            "name": self.name,
            "value": self.left_out.is_none().then_some(self.value),
            "unit": self.unit,
            "beside": self.beside.as_ref().map(|beside| &beside.name),
            "beside_value": self.beside.as_ref().map(|beside| beside.value),
            "ratio": self.ratio(),
            "goal": self.goal.map(|goal| goal.to_string()),
            "met": self.met(),
            "left_out": self.left_out,
        })
    }

    fn cells(&self) -> [String; 6] {
        let beside = self.beside.as_ref();
        let met = match self.met() {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };
        [
            self.name.clone(),
            self.left_out.as_ref().map_or_else(
                || format!("{} {}", short(self.value), self.unit),
                |why| format!("left out: {why}"),
            ),
            beside.map_or_else(String::new, |beside| {
                format!("{} {} ({})", short(beside.value), self.unit, beside.name)
            }),
            self.ratio()
                .map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            self.goal.map_or_else(String::new, |goal| goal.to_string()),
            met.to_owned(),
        ]
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(formatter, "<= {bound}"),
            Self::AtLeast(bound) => write!(formatter, ">= {bound}"),
            Self::RatioAtMost(bound) => write!(formatter, "ratio <= {bound}"),
            Self::RatioAtLeast(bound) => write!(formatter, "ratio >= {bound}"),
        }
    }
}

/// The figures as aligned columns under a heading.
pub(super) fn table(figures: &[Figure]) -> String {
    let heading = ["figure", "value", "beside", "ratio", "goal", "met"].map(str::to_owned);
    let rows: Vec<[String; 6]> = std::iter::once(heading)
        .chain(figures.iter().map(Figure::cells))
        .collect();
    let mut table = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = rows
                .iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0);
            line.push_str(&format!("{cell:<width$}  "));
        }
        table.push_str(line.trim_end());
        table.push('\n');
    }
    table
}

/// Three digits that matter, without an exponent.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_met_by_value_or_by_ratio() {
        let figure = Figure::new("start", 5.0, "ms").beside("python", 20.0);
        let cases = [
            (Goal::AtMost(5.0), Some(true)),
            (Goal::AtMost(4.9), Some(false)),
            (Goal::AtLeast(5.1), Some(false)),
            (Goal::RatioAtMost(0.25), Some(true)),
            (Goal::RatioAtLeast(0.3), Some(false)),
        ];
        for (goal, met) in cases {
            assert_eq!(figure.clone().goal(goal).met(), met, "{goal}");
        }
        assert_eq!(
            Figure::new("start", 5.0, "ms")
                .goal(Goal::RatioAtMost(1.0))
                .met(),
            None
        );
    }

    #[test]
    fn json_has_every_key() {
        let bare = Figure::new("start", 5.0, "ms").json();
        assert_eq!(
            bare,
            json!({"name": "start", "value": 5.0, "unit": "ms", "beside": null, "beside_value": null,
                "ratio": null, "goal": null, "met": null, "left_out": null})
        );
        let whole = Figure::new("start", 5.0, "ms")
            .beside("python", 20.0)
            .goal(Goal::RatioAtMost(0.5))
            .json();
        assert_eq!(
            whole,
            json!({"name": "start", "value": 5.0, "unit": "ms", "beside": "python", "beside_value": 20.0,
                "ratio": 0.25, "goal": "ratio <= 0.5", "met": true, "left_out": null})
        );
        let absent = Figure::left_out("start", "no python").of("runs").json();
        assert_eq!(absent["name"], "runs: start");
        assert_eq!(
            (&absent["value"], &absent["left_out"]),
            (&Value::Null, &json!("no python"))
        );
    }

    #[test]
    fn the_table_is_aligned() {
        let figures = [
            Figure::new("start", 5.0, "ms")
                .beside("python", 20.0)
                .goal(Goal::AtMost(4.0)),
            Figure::new("messages", 123_456.0, "/s"),
        ];
        let expected = "\
            figure    value      beside            ratio  goal  met\n\
            start     5.00 ms    20.0 ms (python)  0.25   <= 4  NO\n\
            messages  123456 /s\n";
        assert_eq!(table(&figures), expected);
    }
}
