//! A table: for people as HTML, for programs as CSV (RFC 4180).

use std::fmt::Write as _;

use crate::{digits, escape};

/// Columns, and rows that begin with a text and go on with numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What the columns are called, the first one that of the texts.
    pub columns: Vec<String>,
    /// A text and as many numbers as there are further columns; none where nothing was measured.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
}

impl Table {
    /// The table for people, numbers rounded. `caption` says what it shows.
    #[must_use]
    pub fn to_html(&self, caption: &str) -> String {
        let mut html = format!("<table><caption>{}</caption><thead><tr>", escape(caption));
        for column in &self.columns {
            let _ = write!(html, "<th scope=\"col\">{}</th>", escape(column));
        }
        html.push_str("</tr></thead><tbody>");
        for (name, values) in &self.rows {
            let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(name));
            for value in values {
                let shown = value.map_or("–".into(), digits);
                let _ = write!(html, "<td>{shown}</td>");
            }
            html.push_str("</tr>");
        }
        html + "</tbody></table>"
    }

    /// The table for programs, numbers as they are.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let line = |fields: Vec<String>| fields.join(",") + "\r\n";
        let mut csv = line(self.columns.iter().map(|name| quote(name)).collect());
        for (name, values) in &self.rows {
            let numbers = values
                .iter()
                .map(|value| value.map_or(String::new(), |value| value.to_string()));
            csv += &line(std::iter::once(quote(name)).chain(numbers).collect());
        }
        csv
    }
}

/// A field of CSV, in quotes where it must be.
fn quote(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_absent_numbers_are_empty() {
        let table = Table {
            columns: vec!["what".into(), "a <b>".into()],
            rows: vec![
                ("one, \"two\"".into(), vec![Some(1234.5)]),
                ("three".into(), vec![None]),
            ],
        };
        assert_eq!(
            table.to_csv(),
            "what,a <b>\r\n\"one, \"\"two\"\"\",1234.5\r\nthree,\r\n"
        );
        let html = table.to_html("both");
        assert!(
            html.contains("<th scope=\"col\">a &lt;b&gt;</th>"),
            "{html}"
        );
        assert!(html.contains("<td>–</td>"), "{html}");
    }
}
