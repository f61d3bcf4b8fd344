//! The figures as one page: what became of the claims, the figures, the sweep, and what is reconstructed.

mod claims;
mod panels;
mod tornado;

use forebay_harness::rows::commit_hash;
use forebay_harness::{Page, Section, Table};
use forebay_tvarak::Parameters;
use forebay_tvarak::figures::cell::{VERSION, digest_of};

use crate::tvarak::numbers::{Report, to_csv};

/// The page; the JSON and the CSV come along.
pub fn page(report: &Report<'_>) -> Page {
    let mut sections = Vec::new();
    if !report.failures.is_empty() {
        sections.push(Section {
            heading: "Failed".into(),
            paragraphs: report.failures.clone(),
            ..Section::default()
        });
    }
    sections.extend(claims::sections(report));
    sections.extend(panels::sections(report));
    sections.extend(claims::adaptive(report));
    sections.extend(tornado::section(report));
    sections.push(reconstructed());
    sections.push(every_cell(report));
    Page {
        title: "TVARAK: the paper's figures and claims, simulated".into(),
        lead: lead(report),
        sections,
        attachments: vec![
            (
                "tvarak.json".into(),
                "application/json",
                report.to_json().to_string(),
            ),
            ("tvarak.csv".into(), "text/csv", to_csv(report)),
        ],
    }
}

fn lead(report: &Report<'_>) -> Vec<String> {
    let mut lead = vec![report.verdict()];
    match report.common.scale_divisor {
        1 => lead.push(
            "At the paper's size, but for the programs' operations, of which a tenth is measured (programs.work_divisor). A \
             number holds where the overhead is within a third of the paper's or within two percentage points, whichever is more."
                .to_owned(),
        ),
        divisor => lead.push(format!(
            "A quick run: caches and work are those of the paper divided by {divisor}, and there is one seed unless more were asked for. Of \
             the claims only orders are judged; no number here is comparable with the paper's."
        )),
    }
    lead.push(
        "Simulated, not measured on hardware: numbers do not depend on the machine that simulates, and the same seed gives \
         the same run. The paper's plots are pictures; its numbers are those of its text. Each design has one colour on the \
         whole page."
            .to_owned(),
    );
    lead.push(format!(
        "{} of {} cells were measured; where chance has a part, as many runs of each as --seeds says: {}. A vertical line over a bar is the root mean \
         square of what each seed is away from the mean. All at full size with three seeds takes about {:.1} hours of two processors \
         like this one.",
        report.cells.len(),
        report.cells_total,
        report.seeds,
        report.full_hours
    ));
    lead.push(format!(
        "Commit {}, simulator {VERSION}, parameters {}, simulated on {}.",
        commit_hash(),
        digest_of(report.common.parameters),
        processor()
    ));
    lead
}

/// The processor in the kernel's words.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    model.unwrap_or_else(|| "an unknown processor".into())
}

fn reconstructed() -> Section {
    let all = Parameters::reconstructions();
    let table = Table {
        columns: ["parameter", "value", "what it stands on"]
            .map(str::to_owned)
            .into(),
        rows: all
            .iter()
            .map(|(name, value, _)| (name.clone(), vec![Some(*value as f64)]))
            .collect(),
        remarks: all.into_iter().map(|(_, _, why)| why).collect(),
    };
    Section {
        heading: "What is reconstructed".into(),
        paragraphs: vec![
            "The paper does not give these numbers. They were set before any result was compared with it, and none was chosen by \
             its results; the sweep halves and doubles each. What a call of a library executes is no longer among them: 60 instructions were \
             replaced by counted ones after a comparison had shown the designs in software far too cheap."
                .into(),
        ],
        tables: vec![("The parameters".into(), table)],
        is_folded: true,
        ..Section::default()
    }
}

fn every_cell(report: &Report<'_>) -> Section {
    let columns = [
        "cell",
        "runtime in µs",
        "energy in µJ",
        "NVM, data",
        "NVM, redundancy",
        "L1",
        "L2",
        "LLC",
        "controllers",
    ];
    let rows = report.cells.iter().map(|(cell, measured)| {
        let numbers = [
            measured.runtime_ns / 1000,
            measured.energy_pj / 1_000_000,
            measured.nvm_data_accesses,
            measured.nvm_redundancy_accesses,
            measured.l1_accesses,
            measured.l2_accesses,
            measured.llc_accesses,
            measured.controller_accesses,
        ];
        (
            cell.name(),
            numbers.map(|number| Some(number as f64)).to_vec(),
        )
    });
    let table = Table {
        columns: columns.map(str::to_owned).into(),
        rows: rows.collect(),
        ..Table::default()
    };
    Section {
        heading: "Every cell".into(),
        tables: vec![("What each took".into(), table)],
        is_folded: true,
        ..Section::default()
    }
}
