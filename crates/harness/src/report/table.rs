//! A table: for people as HTML, for programs as CSV (RFC 4180).

use std::fmt::Write as _;

use super::{digits, escape};

/// Columns, and rows that begin with a text and go on with numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What the columns are called, the first one that of the texts.
    pub columns: Vec<String>,
    /// A text and as many numbers as there are further columns; none where nothing was measured.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
    /// What there is to say about each row: texts of a last column. None, or as many as rows.
    pub remarks: Vec<String>,
}

impl Table {
    /// The table for people, numbers rounded. `caption` says what it shows.
    #[must_use]
    pub fn to_html(&self, caption: &str) -> String {
        let mut html = format!("<table><caption>{}</caption><thead><tr>", escape(caption));
        for (index, column) in self.columns.iter().enumerate() {
            let is_remark = !self.remarks.is_empty() && index + 1 == self.columns.len();
            let class = if is_remark { " class=\"remark\"" } else { "" };
            let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", escape(column));
        }
        html.push_str("</tr></thead><tbody>");
        for (index, (name, values)) in self.rows.iter().enumerate() {
            let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(name));
            for value in values {
                let shown = value.map_or("–".into(), digits);
                let _ = write!(html, "<td>{shown}</td>");
            }
            if let Some(remark) = self.remarks.get(index) {
                let _ = write!(html, "<td class=\"remark\">{}</td>", escape(remark));
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
        for (index, (name, values)) in self.rows.iter().enumerate() {
            let numbers = values
                .iter()
                .map(|value| value.map_or(String::new(), |value| value.to_string()));
            let remark = self.remarks.get(index).map(|remark| quote(remark));
            let fields = std::iter::once(quote(name)).chain(numbers).chain(remark);
            csv += &line(fields.collect());
        }
        csv
    }
}

/// A table of words, some of which may be numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextTable {
    /// What the columns are called.
    pub columns: Vec<String>,
    /// As many texts each as there are columns; the first says what the row is of.
    pub rows: Vec<Vec<String>>,
}

impl TextTable {
    /// The table for people.
    #[must_use]
    pub fn to_html(&self, caption: &str) -> String {
        let mut html = format!(
            "<table class=\"words\"><caption>{}</caption><thead><tr>",
            escape(caption)
        );
        for column in &self.columns {
            let _ = write!(html, "<th scope=\"col\">{}</th>", escape(column));
        }
        html.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            html.push_str("<tr>");
            for (index, text) in row.iter().enumerate() {
                let text = escape(text);
                let _ = match index {
                    0 => write!(html, "<th scope=\"row\">{text}</th>"),
                    _ => write!(html, "<td>{text}</td>"),
                };
            }
            html.push_str("</tr>");
        }
        html + "</tbody></table>"
    }

    /// The table for programs.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let line = |texts: &Vec<String>| {
            let fields: Vec<String> = texts.iter().map(|text| quote(text)).collect();
            fields.join(",") + "\r\n"
        };
        std::iter::once(&self.columns)
            .chain(&self.rows)
            .map(line)
            .collect()
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
            remarks: Vec::new(),
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

    #[test]
    fn words_stand_as_they_are() {
        let table = TextTable {
            columns: ["figure", "verdict"].map(String::from).to_vec(),
            rows: vec![["7a", "holds, <all>"].map(String::from).to_vec()],
        };
        assert_eq!(table.to_csv(), "figure,verdict\r\n7a,\"holds, <all>\"\r\n");
        let html = table.to_html("all");
        assert!(
            html.contains("<th scope=\"row\">7a</th><td>holds, &lt;all&gt;</td>"),
            "{html}"
        );
    }

    #[test]
    fn remarks_are_the_last_column() {
        let table = Table {
            columns: ["what", "measured", "verdict"].map(String::from).to_vec(),
            rows: vec![("one".into(), vec![Some(2.0)])],
            remarks: vec!["met, just".into()],
        };
        assert_eq!(
            table.to_csv(),
            "what,measured,verdict\r\none,2,\"met, just\"\r\n"
        );
        let html = table.to_html("all");
        assert!(
            html.contains("<td>2.00</td><td class=\"remark\">met, just</td></tr>"),
            "{html}"
        );
    }
}
