//! Named numbers, as the reports of the guests and of the applications have them.

use std::collections::BTreeMap;

use forebay_harness::Row;
use serde_json::Value;

/// Numbers by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows(BTreeMap<String, f64>);

impl Rows {
    /// Those that were measured.
    #[must_use]
    pub fn new(rows: &[Row]) -> Rows {
        let measured = rows
            .iter()
            .filter_map(|row| Some((row.name.clone(), row.value?)));
        Rows(measured.collect())
    }

    /// Those of a report; what is no row with a number in it is left out.
    #[must_use]
    pub fn of_report(report: &Value) -> Rows {
        let list = report.as_array().into_iter().flatten();
        let rows = list.filter_map(|row| {
            let name = row.get("name")?.as_str()?;
            Some((name.to_owned(), row.get("value")?.as_f64()?))
        });
        Rows(rows.collect())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// What stands between `start` and `end` in the names that have both.
    pub fn between<'a>(&'a self, start: &'a str, end: &'a str) -> impl Iterator<Item = &'a str> {
        let names = self.0.keys();
        names.filter_map(move |name| name.strip_prefix(start)?.strip_suffix(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_no_row_is_left_out() {
        let report = json!([
            {"name": "a_1_x", "value": 1.5, "unit": "IOPS"},
            {"name": "a_2_x", "value": null, "unit": "IOPS"},
            {"name": "a_3_y", "value": 2, "unit": "IOPS"},
            {"name": "commit_hash", "value": "abc"},
            {"value": 7}, 3, "text",
        ]);
        let rows = Rows::of_report(&report);
        assert_eq!(rows.between("a_", "_x").collect::<Vec<_>>(), ["1"]);
        assert_eq!((rows.get("a_3_y"), rows.get("a_2_x")), (Some(2.0), None));
        assert!(Rows::of_report(&json!({"name": "a", "value": 1})).is_empty());
        let measured = [Row::new("a", 1.0, "x"), Row::new("b", None, "x")];
        let rows = Rows::new(&measured);
        assert_eq!((rows.get("a"), rows.get("b")), (Some(1.0), None));
    }
}
