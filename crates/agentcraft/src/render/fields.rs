//! A detail view: a heading, and labelled lines below it.

use super::style::{Style, Tone, one_line};

/// Labels are padded to this, so that all detail views line up.
const LABEL_WIDTH: usize = 11;

#[derive(Debug)]
pub(super) struct Fields {
    text: String,
    style: Style,
}

impl Fields {
    pub(super) fn new(style: Style, heading: &str, mark: (Tone, &str)) -> Self {
        let heading = one_line(heading);
        let mut text = style.paint(Tone::Strong, &heading).into_owned();
        if !mark.1.is_empty() {
            text.push_str("  ");
            text.push_str(&style.paint(mark.0, &one_line(mark.1)));
        }
        text.push('\n');
        Self { text, style }
    }

    /// A labelled line; nothing is written for an empty value.
    pub(super) fn field(&mut self, label: &str, value: &str) -> &mut Self {
        self.toned(label, Tone::Normal, value)
    }

    pub(super) fn toned(&mut self, label: &str, tone: Tone, value: &str) -> &mut Self {
        if !value.is_empty() {
            let label = self
                .style
                .paint(Tone::Faint, &format!("{label:<LABEL_WIDTH$}"))
                .into_owned();
            let value = one_line(value);
            self.text
                .push_str(&format!("  {label} {}\n", self.style.paint(tone, &value)));
        }
        self
    }

    /// Several lines under one label.
    pub(super) fn list(
        &mut self,
        label: &str,
        values: impl IntoIterator<Item = String>,
    ) -> &mut Self {
        let mut label = label;
        for value in values {
            self.toned(label, Tone::Normal, &value);
            label = "";
        }
        self
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}
