//! scratch
use forebay_lab::engines::EngineName;
use forebay_lab::measure::{CellOptions, run_cell};
use forebay_lab::workload::{Scale, WorkloadSpec};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let engines: Vec<EngineName> = args[1].split(',').map(|n| n.parse().unwrap()).collect();
    let names: Vec<&str> = if args[2] == "all" {
        WorkloadSpec::NAMES.to_vec()
    } else {
        args[2].split(',').collect()
    };
    let scale = Scale::one_over(args.get(3).map_or(256, |s| s.parse().unwrap()));
    let operations: Option<u64> = args.get(4).map(|s| s.parse().unwrap());
    println!(
        "{:10} {:8} {:>8} {:>7} {:>7} {:>7} {:>6} {:>6} {:>9} {:>9} {:>6} {:>6} {:>6} {:>6} {:>5}",
        "workload",
        "engine",
        "lines/w",
        "fence/w",
        "nvm/pay",
        "disk/w",
        "hit",
        "whit",
        "ops/s",
        "writes/s",
        "blk/tx",
        "evict",
        "dirty",
        "slots",
        "wall"
    );
    for name in names {
        for &engine in &engines {
            let start = std::time::Instant::now();
            let mut o = CellOptions::new(engine, WorkloadSpec::named(name, scale).unwrap(), scale);
            if let Some(n) = operations {
                o.operations = n;
            }
            match run_cell(&o, &mut |_, _| {}) {
                Err(e) => println!("{name:10} {engine:8} {e}"),
                Ok(m) => println!(
                    "{:10} {:8} {:8.2} {:7.3} {:7.3} {:7.3} {:6.3} {:6.3} {:9.0} {:9.0} {:6.1} {:6} {:6} {:6} {:5.1}",
                    name,
                    engine,
                    m.lines_per_write(),
                    m.fences_per_write(),
                    m.nvm_bytes_per_payload_byte(),
                    m.disk_blocks_per_write(),
                    m.hit_ratio(),
                    m.write_hit_ratio(),
                    m.ops_per_s(),
                    m.writes_per_s(),
                    m.blocks_per_transaction(),
                    m.done.evictions,
                    m.done.dirty_blocks,
                    m.done.slots,
                    start.elapsed().as_secs_f64()
                ),
            }
        }
    }
}
