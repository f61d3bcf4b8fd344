//! Random use of files, compared with a model, in each form: our own exerciser, and the classic `fsx`
//! where its crate is installed.

use std::path::Path;
use std::time::Duration;

use crate::form::Form;
use crate::place::Place;
use crate::report::Report;
use crate::settings::Settings;
use crate::task::Task;
use forebay_harness::{Result, Row};

const DEADLINE: Duration = Duration::from_secs(900);
const POOL_BYTES: u64 = 64 << 20;
/// The weights of operations that the classic leaves out unless it is told.
const CLASSIC: &str = "flen = 524288
[weights]
close_open = 1.0
invalidate = 0.5
mapread = 0.05
mapwrite = 1.0
read = 5.0
write = 5.0
truncate = 1.0
fsync = 1.0
fdatasync = 2.0
posix_fallocate = 0.5
punch_hole = 0.5
sendfile = 0.5
posix_fadvise = 0.5
copy_file_range = 0.5
";

/// All forms, each by the exerciser with mappings and without.
pub fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let mut clean = 0;
    for form in settings.forms.iter().copied() {
        if let Some(lack) = form.lacks() {
            report.skip(&format!("fsx by {}", form.name()), lack);
            continue;
        }
        let share = settings.fsx_operations;
        for with_mappings in [false, true] {
            let name = format!(
                "fsx_operations_{}_{}",
                form.name(),
                if with_mappings { "mmap" } else { "nommap" }
            );
            let done = exercise(settings, form, share / 2, with_mappings);
            clean += report.take(&name, "operations", done);
        }
        if let Some(classic) = settings.tool("fsx") {
            let operations = share / 10;
            let done = run_classic(settings, form, operations, &classic);
            clean += report.take(&format!("fsx_classic_{}", form.name()), "operations", done);
        }
    }
    report.row(Row::new("fsx_operations", clean as f64, "operations"));
    Ok(())
}

fn place(settings: &Settings, form: Form) -> Result<Place> {
    let mut place = Place::new(form, settings, &settings.disk, POOL_BYTES)?;
    place.start()?;
    Ok(place)
}

/// Our own, as a program of its own; how many operations were clean.
fn exercise(settings: &Settings, form: Form, operations: u64, with_mappings: bool) -> Result<u64> {
    let mut place = place(settings, form)?;
    let task = Task::Exercise {
        directory: place.files(),
        operations,
        seed: settings.seed,
        with_mappings,
    };
    let mut command = task.program(settings, &place)?;
    let printed = place.env.output(&mut command, DEADLINE)?;
    place.stop()?;
    Ok(printed.trim().parse()?)
}

fn run_classic(settings: &Settings, form: Form, operations: u64, classic: &Path) -> Result<u64> {
    let mut place = place(settings, form)?;
    let weights = place.env.path("fsx.toml");
    std::fs::write(&weights, CLASSIC)?;
    let mut command = place.program(classic);
    command
        .arg("-f")
        .arg(weights)
        .args(["-N", &operations.to_string()])
        .args(["-S", &settings.seed.to_string()])
        .arg("-P")
        .arg(place.env.path(""))
        .arg(place.files().join("file"));
    place.env.output(&mut command, DEADLINE)?;
    place.stop()?;
    Ok(operations)
}
