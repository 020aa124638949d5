//! Parts of the node that answer in JSON, as tables.

use serde_json::Value;

use super::table::{Cell, Column, Table};

/// A column: its title, and where in each value it is found.
pub(crate) type Field = (&'static str, &'static str);

/// One row for each value; the first column stays whole.
pub(crate) fn value_table<const N: usize>(values: &[Value], fields: [Field; N]) -> Table {
    let columns = std::array::from_fn(|index| match index {
        0 => Column::whole(fields[index].0),
        _ => Column::shortened(fields[index].0),
    });
    let rows = values
        .iter()
        .map(|value| fields.map(|(_, pointer)| Cell::new(&text(value.pointer(pointer)))));
    Table::new(columns, rows)
}

/// A value in a cell.
fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) => {
            let items: Vec<String> = items.iter().map(|item| text(Some(item))).collect();
            items.join(", ")
        }
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::render::Style;

    #[test]
    fn what_a_value_lacks_is_an_empty_cell() {
        let values = [
            json!({"id": "a", "rights": ["runs", "mcp"]}),
            json!({"id": "b"}),
        ];
        let table = value_table(&values, [("ID", "/id"), ("MAY", "/rights")]);
        assert_eq!(
            table.render(Style::Plain, None),
            "ID  MAY\na   runs, mcp\nb\n"
        );
    }
}
