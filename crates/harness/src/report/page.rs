//! A report as one HTML file: no network, no script, light or dark as the reader's system is set,
//! each plot beside its table, the numbers for download.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use super::chart::Chart;
use super::escape;
use super::table::{Table, TextTable};

const STYLE: &str = include_str!("page.css");

/// A plot with its table, or text alone.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its heading.
    pub heading: String,
    /// What there is to say, a paragraph each.
    pub paragraphs: Vec<String>,
    /// Tables of words, each with its caption; never folded.
    pub words: Vec<(String, TextTable)>,
    /// The plots, each followed by its table.
    pub charts: Vec<Chart>,
    /// Tables without a plot, each with its caption.
    pub tables: Vec<(String, Table)>,
    /// Plots stand side by side, and all tables are folded.
    pub is_folded: bool,
}

impl Section {
    /// A section with a paragraph and those of the plots that there are.
    #[must_use]
    pub fn new(
        heading: &str,
        paragraph: impl Into<String>,
        charts: impl IntoIterator<Item = Option<Chart>>,
    ) -> Section {
        Section {
            heading: heading.into(),
            paragraphs: vec![paragraph.into()],
            charts: charts.into_iter().flatten().collect(),
            ..Section::default()
        }
    }

    /// Whether there is nothing to see in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.charts.is_empty() && self.tables.is_empty() && self.words.is_empty()
    }
}

/// The whole report.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Its title.
    pub title: String,
    /// What it is, a paragraph each.
    pub lead: Vec<String>,
    /// What follows.
    pub sections: Vec<Section>,
    /// Files to take along: name, type, content.
    pub attachments: Vec<(String, &'static str, String)>,
}

impl Page {
    /// The page as it goes into a file.
    #[must_use]
    pub fn to_html(&self) -> String {
        let title = escape(&self.title);
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\
             <style>{STYLE}</style></head><body><main><h1>{title}</h1>"
        );
        paragraphs(&self.lead, &mut html);
        if !self.attachments.is_empty() {
            html.push_str("<p>The numbers:");
            for (name, kind, content) in &self.attachments {
                let _ = write!(html, " {}", link(name, kind, content));
            }
            html.push_str("</p>");
        }
        if self.sections.len() > 1 {
            self.contents(&mut html);
        }
        for (number, section) in self.sections.iter().enumerate() {
            section.to_html(number, &mut html);
        }
        html + "</main></body></html>\n"
    }

    /// Writes the page.
    ///
    /// Errors: the file cannot be written; it is then as it was.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        super::write_file(path, self.to_html().as_bytes())
    }

    fn contents(&self, html: &mut String) {
        html.push_str("<nav aria-label=\"Contents\"><ul>");
        for (number, section) in self.sections.iter().enumerate() {
            let heading = escape(&section.heading);
            let _ = write!(html, "<li><a href=\"#section-{number}\">{heading}</a></li>");
        }
        html.push_str("</ul></nav>");
    }
}

impl Section {
    fn to_html(&self, number: usize, html: &mut String) {
        let heading = escape(&self.heading);
        let _ = write!(html, "<section><h2 id=\"section-{number}\">{heading}</h2>");
        paragraphs(&self.paragraphs, html);
        for (caption, table) in &self.words {
            html.push_str(&scrolled(caption, &table.to_html(caption), &table.to_csv()));
        }
        if self.is_folded && !self.charts.is_empty() {
            html.push_str("<div class=\"plots\">");
        }
        for (index, chart) in self.charts.iter().enumerate() {
            let title = escape(&chart.title);
            let svg = chart.to_svg(&format!("chart-{number}-{index}"));
            let table = chart.table();
            let table = scrolled(
                &chart.title,
                &table.to_html(&chart.y_label),
                &table.to_csv(),
            );
            let _ = match self.is_folded {
                true => write!(
                    html,
                    "<div><h3>{title}</h3><figure>{svg}</figure>{}</div>",
                    folded("The numbers", &table)
                ),
                false => write!(
                    html,
                    "<h3>{title}</h3><div class=\"pair\"><figure>{svg}</figure>{table}</div>"
                ),
            };
        }
        if self.is_folded && !self.charts.is_empty() {
            html.push_str("</div>");
        }
        for (caption, table) in &self.tables {
            let table = scrolled(caption, &table.to_html(caption), &table.to_csv());
            html.push_str(&match self.is_folded {
                true => folded(caption, &table),
                false => table,
            });
        }
        html.push_str("</section>");
    }
}

/// A table with its file, which scrolls by itself where it is too wide.
fn scrolled(title: &str, table: &str, csv: &str) -> String {
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: {}\">{table}{}</div>",
        escape(title),
        download(title, csv),
    )
}

fn folded(summary: &str, table: &str) -> String {
    format!(
        "<details><summary>{}</summary>{table}</details>",
        escape(summary)
    )
}

fn paragraphs(texts: &[String], html: &mut String) {
    for text in texts {
        let _ = write!(html, "<p>{}</p>", escape(text));
    }
}

fn download(title: &str, csv: &str) -> String {
    let mut name = String::new();
    for letter in title.to_lowercase().chars() {
        match letter {
            letter if letter.is_ascii_alphanumeric() => name.push(letter),
            _ if !name.is_empty() && !name.ends_with('-') => name.push('-'),
            _ => {}
        }
    }
    let name = name.trim_end_matches('-').to_owned() + ".csv";
    format!("<p>{}</p>", link(&name, "text/csv", csv))
}

/// A link that carries its file.
fn link(name: &str, kind: &str, content: &str) -> String {
    let mut data = String::with_capacity(content.len() * 2);
    for byte in content.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b',' | b':' => {
                data.push(char::from(byte));
            }
            other => {
                let _ = write!(data, "%{other:02X}");
            }
        }
    }
    let name = escape(name);
    format!("<a download=\"{name}\" href=\"data:{kind};charset=utf-8,{data}\">{name}</a>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Series, Shape};

    fn page() -> Page {
        let chart = Chart {
            title: "Small reads".into(),
            x_label: "jobs".into(),
            y_label: "IOPS".into(),
            places: vec!["1".into()],
            series: vec![Series {
                name: "ours".into(),
                values: vec![Some(7.0)],
                ..Series::default()
            }],
            shape: Shape::Bars,
            is_logarithmic: false,
        };
        Page {
            title: "A <report>".into(),
            lead: vec!["What was measured & how.".into()],
            sections: vec![Section {
                heading: "One".into(),
                paragraphs: Vec::new(),
                charts: vec![chart],
                tables: vec![("All".into(), Table::default())],
                ..Section::default()
            }],
            attachments: vec![("grid.json".into(), "application/json", "[\"é\"]".into())],
        }
    }

    #[test]
    fn the_page_needs_nothing_but_itself() {
        let html = page().to_html();
        for foreign in ["http://", "https://", "<script", "<link", "@import", "url("] {
            assert!(!html.contains(foreign), "{foreign} in {html}");
        }
        assert!(html.contains("prefers-color-scheme"), "it has a dark side");
    }

    #[test]
    fn a_section_folds_its_tables() {
        let mut page = page();
        assert!(!page.to_html().contains("<details"));
        page.sections[0].is_folded = true;
        let html = page.to_html();
        assert_eq!(html.matches("<details>").count(), 2, "{html}");
        assert_eq!(html.matches("</details>").count(), 2, "{html}");
        assert!(html.contains("class=\"plots\""), "{html}");
    }

    #[test]
    fn texts_are_escaped_and_files_come_along() {
        let html = page().to_html();
        assert!(html.contains("<h1>A &lt;report&gt;</h1>"), "{html}");
        assert!(html.contains("measured &amp; how"), "{html}");
        assert!(html.contains("charset=utf-8,%5B%22%C3%A9%22%5D"), "{html}");
        assert!(html.contains("download=\"small-reads.csv\""), "{html}");
    }
}
