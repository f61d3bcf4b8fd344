//! How fast the simulator is on this host: look-ups of the first caches a second. And a number that stands for all that was counted:
//! what makes the simulator faster leaves it as it was.
//!
//! `cargo run --release -p forebay-tvarak --example speed -- fio-rand-write 8 baseline tvarak`: the work divided by 8, two designs.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Instant;

use forebay_tvarak::measure::{Scope, measure};
use forebay_tvarak::name::Workload;
use forebay_tvarak::{Design, Parameters};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "all".into());
    let factor = arguments
        .next()
        .map_or(64, |factor| factor.parse().expect("a factor"));
    let parameters = Parameters::paper().scaled_down(factor).expect("a factor");
    let designs: Vec<Design> = arguments
        .map(|name| name.parse().expect("a design"))
        .collect();
    let designs = match designs.is_empty() {
        true => Design::ALL.to_vec(),
        false => designs,
    };
    for workload in Workload::named(&name).expect("a workload") {
        let mut baseline = 0.0;
        for &design in &designs {
            let scope = Scope {
                workload,
                design,
                seed: 1,
                is_checked: false,
            };
            let start = Instant::now();
            let outcome = measure(&parameters, &scope, &mut |_| true).expect("no bugs are planted");
            let seconds = start.elapsed().as_secs_f64();
            let cycles = outcome.cycles as f64;
            let mut hasher = DefaultHasher::new();
            format!("{outcome:?}").hash(&mut hasher);
            if baseline == 0.0 {
                baseline = cycles;
            }
            println!(
                "{:15} {:10} {:6.3} of the first design's time, {:11} reads and {:10} writes of NVM, {:.2} million look-ups/s, {seconds:.2} s, {:016x}",
                workload.as_str(),
                design.as_str(),
                cycles / baseline,
                outcome.nvm.all_reads(),
                outcome.nvm.all_writes(),
                outcome.first_look_ups() as f64 / seconds / 1e6,
                hasher.finish(),
            );
        }
    }
}
