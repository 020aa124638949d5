//! Tables fitted to a width. Names stay whole; other columns are shortened, then left out from the right.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::style::{Style, Tone, one_line};

/// Between two columns.
const GAP: usize = 2;

/// A column is not shortened below this: less of a text says nothing.
const SHORTEST: usize = 8;

#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    title: &'static str,
    fit: Fit,
}

/// What may happen to a column that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// Always there, never shortened.
    Whole,
    /// Shortened, then left out.
    Shortened,
}

#[derive(Debug)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Column {
    pub(crate) const fn whole(title: &'static str) -> Self {
        Self {
            title,
            fit: Fit::Whole,
        }
    }

    pub(crate) const fn shortened(title: &'static str) -> Self {
        Self {
            title,
            fit: Fit::Shortened,
        }
    }
}

impl Cell {
    pub(crate) fn new(text: &str) -> Self {
        Self::toned(Tone::Normal, text)
    }

    pub(crate) fn toned(tone: Tone, text: &str) -> Self {
        Self {
            text: one_line(text).into_owned(),
            tone,
        }
    }
}

impl Table {
    pub(crate) fn new<const N: usize>(
        columns: [Column; N],
        rows: impl IntoIterator<Item = [Cell; N]>,
    ) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: rows.into_iter().map(Vec::from).collect(),
        }
    }

    /// The table as text. Without a width nothing is shortened.
    pub(crate) fn render(&self, style: Style, width: Option<usize>) -> String {
        let widths = self.fit(width);
        let mut text = String::new();
        let titles = self
            .columns
            .iter()
            .map(|column| (column.title, Tone::Faint));
        write_row(&mut text, titles, &widths, style);
        for row in &self.rows {
            write_row(
                &mut text,
                row.iter().map(|cell| (cell.text.as_str(), cell.tone)),
                &widths,
                style,
            );
        }
        text
    }

    /// How wide each column becomes; nothing for one that is left out.
    fn fit(&self, width: Option<usize>) -> Vec<Option<usize>> {
        let natural = (0..self.columns.len()).map(|index| self.natural_width(index));
        let mut widths: Vec<Option<usize>> = natural.map(Some).collect();
        let Some(width) = width else { return widths };
        let is_shortened = |index: usize| self.columns[index].fit == Fit::Shortened;
        while total(&widths) > width {
            let excess = total(&widths) - width;
            let shown = |index: &usize| widths[*index].is_some() && is_shortened(*index);
            let widest = (0..widths.len())
                .filter(shown)
                .max_by_key(|index| widths[*index]);
            let Some(index) = widest else { break };
            match widths[index] {
                Some(current) if current > SHORTEST => {
                    widths[index] = Some(current.saturating_sub(excess).max(SHORTEST));
                }
                _ => {
                    // Every column is as short as it gets, so the last one goes.
                    let Some(last) = (0..widths.len()).rfind(shown) else {
                        break;
                    };
                    widths[last] = None;
                }
            }
        }
        widths
    }

    fn natural_width(&self, index: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[index].text.width());
        cells
            .chain([self.columns[index].title.width()])
            .max()
            .unwrap_or(0)
    }
}

fn total(widths: &[Option<usize>]) -> usize {
    let shown = widths.iter().flatten();
    shown.clone().sum::<usize>() + GAP * shown.count().saturating_sub(1)
}

fn write_row<'a>(
    text: &mut String,
    cells: impl Iterator<Item = (&'a str, Tone)>,
    widths: &[Option<usize>],
    style: Style,
) {
    let mut pending = 0;
    for ((cell, tone), width) in cells.zip(widths) {
        let Some(width) = *width else { continue };
        let cell = shorten(cell, width);
        if !cell.is_empty() {
            // Written before the next cell rather than after this one, so that no line ends in spaces.
            text.extend(std::iter::repeat_n(' ', pending));
            pending = 0;
            text.push_str(&style.paint(tone, &cell));
        }
        pending += width - cell.width() + GAP;
    }
    text.push('\n');
}

/// The text in at most this many columns, its end replaced by `…`.
pub(super) fn shorten(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut shortened = String::new();
    let mut used = 1;
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        if used > width {
            break;
        }
        shortened.push(character);
    }
    shortened.truncate(shortened.trim_end().len());
    shortened.push('…');
    shortened
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let columns = [
            Column::whole("NAME"),
            Column::whole("STATUS"),
            Column::shortened("TEMPLATE"),
            Column::shortened("WORKSPACE"),
        ];
        let rows = [
            [
                "reviewer-with-a-long-name",
                "running",
                "code-review",
                "/home/ann/.agentcraft/instances/reviewer-with-a-long-name",
            ],
            ["helper", "stopped", "starter", "/srv/项目/ä"],
            ["x", "error", "", ""],
        ];
        Table::new(columns, rows.map(|row| row.map(Cell::new)))
    }

    fn check(width: Option<usize>, expected: &[&str]) {
        let text = sample().render(Style::Plain, width);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, expected);
        if let Some(width) = width {
            assert!(lines.iter().all(|line| line.width() <= width), "{text}");
        }
    }

    #[test]
    fn without_a_width_nothing_is_shortened() {
        check(
            None,
            &[
                "NAME                       STATUS   TEMPLATE     WORKSPACE",
                "reviewer-with-a-long-name  running  code-review  /home/ann/.agentcraft/instances/reviewer-with-a-long-name",
                "helper                     stopped  starter      /srv/项目/ä",
                "x                          error",
            ],
        );
    }

    #[test]
    fn at_80_columns_the_widest_column_is_shortened() {
        check(
            Some(80),
            &[
                "NAME                       STATUS   TEMPLATE     WORKSPACE",
                "reviewer-with-a-long-name  running  code-review  /home/ann/.agentcraft/instance…",
                "helper                     stopped  starter      /srv/项目/ä",
                "x                          error",
            ],
        );
    }

    #[test]
    fn at_40_columns_names_stay_whole_and_other_columns_go() {
        check(
            Some(40),
            &[
                "NAME                       STATUS",
                "reviewer-with-a-long-name  running",
                "helper                     stopped",
                "x                          error",
            ],
        );
    }

    #[test]
    fn shortening_counts_columns_not_characters() {
        assert_eq!(shorten("项目项目", 8), "项目项目");
        assert_eq!(shorten("项目项目", 6), "项目…");
        assert_eq!(shorten("a long text", 7), "a long…");
        assert_eq!(shorten("a b", 2), "a…");
    }

    #[test]
    fn titles_and_tones_are_coloured_without_changing_the_layout() {
        let rows = [[Cell::toned(Tone::Good, "up"), Cell::new("b")]];
        let table = Table::new([Column::whole("A"), Column::whole("B")], rows);
        assert_eq!(
            table.render(Style::Colored, None),
            "\x1b[2mA\x1b[0m   \x1b[2mB\x1b[0m\n\x1b[32mup\x1b[0m  b\n"
        );
    }
}
