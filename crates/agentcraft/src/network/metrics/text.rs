//! The text format of Prometheus: families with a word of help, samples with labels.

use std::fmt::{Display, Write as _};

use engine::Durations;

type Label<'a> = (&'a str, &'a str);

/// A page of families, in the order in which they were begun.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
}

/// The samples of one family.
#[derive(Debug)]
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Page {
    pub(super) fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "gauge", help)
    }

    /// What only grows; its name ends with `_total`.
    pub(super) fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "counter", help)
    }

    pub(super) fn histogram(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "histogram", help)
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        let _ = writeln!(self.text, "# HELP {name} {help}"); // Writing to a text cannot fail.
        let _ = writeln!(self.text, "# TYPE {name} {kind}"); // As above.
        Family {
            text: &mut self.text,
            name,
        }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

impl Family<'_> {
    pub(super) fn add(&mut self, labels: &[Label<'_>], value: u64) {
        self.sample("", labels, None, value);
    }

    pub(super) fn add_real(&mut self, labels: &[Label<'_>], value: f64) {
        self.sample("", labels, None, value);
    }

    /// The samples of a histogram.
    pub(super) fn durations(&mut self, labels: &[Label<'_>], durations: &Durations) {
        for (end, count) in durations.at_most() {
            self.sample("_bucket", labels, Some(&end.to_string()), count);
        }
        self.sample("_bucket", labels, Some("+Inf"), durations.count());
        self.sample("_sum", labels, None, durations.sum().as_secs_f64());
        self.sample("_count", labels, None, durations.count());
    }

    fn sample(&mut self, part: &str, labels: &[Label<'_>], end: Option<&str>, value: impl Display) {
        let end = end.map(|end| ("le", end));
        let labels = labels.iter().copied().chain(end);
        let labels: Vec<String> = labels
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.text, "{}{part}{labels} {value}", self.name); // As above.
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn families_have_help_a_type_and_samples_with_escaped_labels() {
        let mut page = Page::default();
        page.gauge("a", "About a.").add(&[("is", "\"\\\n")], 2);
        page.counter("b_total", "About b.").add_real(&[], 0.5);
        let expected = "# HELP a About a.\n# TYPE a gauge\na{is=\"\\\"\\\\\\n\"} 2\n# HELP b_total About b.\n# TYPE b_total counter\nb_total 0.5\n";
        assert_eq!(page.into_text(), expected);
    }

    #[test]
    fn a_histogram_ends_with_everything_its_sum_and_its_count() {
        let mut durations = Durations::default();
        durations.take(Duration::from_millis(1_500));
        let mut page = Page::default();
        page.histogram("h", "H.")
            .durations(&[("f", "x")], &durations);
        let text = page.into_text();
        for line in [
            "h_bucket{f=\"x\",le=\"1\"} 0",
            "h_bucket{f=\"x\",le=\"2.5\"} 1",
            "h_bucket{f=\"x\",le=\"+Inf\"} 1",
            "h_sum{f=\"x\"} 1.5",
            "h_count{f=\"x\"} 1",
        ] {
            assert!(text.lines().any(|told| told == line), "{line}: {text}");
        }
    }
}
