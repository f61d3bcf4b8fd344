//! What the study's text says of Figures 1, 4, 6 and 10 and its Table 1, beside what was measured.

use super::contender::Contender::{
    self, BcacheNvmSsd, BcacheSsdHdd, DmCacheNvmSsd, DmCacheSsdHdd, Hdd, Nvm, Ssd,
};
use super::measured::{Measured, at};
use super::points::Figure;
use super::probe::Layers;
use crate::measure::claims::Claim;

/// Table 1, in ms: at the device, in the kernel, in the program.
pub const TABLE_1: [(Contender, [f64; 3]); 5] = [
    (Nvm, [0.000_74, 1.60, 0.0050]),
    (BcacheNvmSsd, [0.0060, 113.53, 0.40]),
    (BcacheSsdHdd, [0.45, 191.52, 0.75]),
    (DmCacheNvmSsd, [0.0013, 2.61, 0.0091]),
    (DmCacheSsdHdd, [13.89, 0.75, 0.023]),
];

/// What the text says of one figure.
type Judge = fn(&[Measured]) -> Vec<Claim>;

/// All of them, of the figures that were measured.
pub fn claims(results: &[Measured]) -> Vec<Claim> {
    let has = |figure: Figure| results.iter().any(|one| one.point.figure == figure);
    let parts: [(Figure, Judge); 4] = [
        (Figure::Devices, devices),
        (Figure::Alone, alone),
        (Figure::Lookup, lookup),
        (Figure::Mixed, mixed),
    ];
    let measured = parts.into_iter().filter(|(figure, _)| has(*figure));
    measured.flat_map(|(_, claims)| claims(results)).collect()
}

fn devices(results: &[Measured]) -> Vec<Claim> {
    let iops = |contender| at(results, Figure::Devices, "threads16", contender).map(|one| one.iops);
    let order = |less: Contender, more: Contender| {
        let what = format!("{} is behind {}", less.name(), more.name());
        Claim::order("1", what, iops(less).zip(iops(more)))
    };
    [[BcacheSsdHdd, BcacheNvmSsd], [DmCacheSsdHdd, DmCacheNvmSsd]]
        .into_iter()
        .flat_map(|[slow, fast]| {
            [
                order(Hdd, slow),
                order(slow, Ssd),
                order(slow, fast),
                order(fast, Ssd),
            ]
        })
        .collect()
}

fn alone(results: &[Measured]) -> Vec<Claim> {
    let both = |key: &str, number: fn(&Layers) -> f64| {
        let of = |contender| at(results, Figure::Alone, key, contender).map(number);
        of(Ssd).zip(of(Nvm))
    };
    let claims = ["reads", "writes"].map(|key| {
        [
            Claim::order(
                "4",
                format!("{key}: the kernel's share is larger on NVM than on the SSD"),
                both(key, |one| one.kernel_us() / one.whole_us()),
            ),
            Claim::order(
                "4",
                format!("{key}: the kernel's time is longer on NVM than on the SSD, µs"),
                both(key, Layers::kernel_us),
            ),
        ]
    });
    claims.into_iter().flatten().collect()
}

fn lookup(results: &[Measured]) -> Vec<Claim> {
    let of = |key: &str, contender, number: fn(&Layers) -> f64| {
        at(results, Figure::Lookup, key, contender).map(number)
    };
    // How many times as long as the NVM alone a request takes.
    let ratio = |key: &str, contender| {
        Some(of(key, contender, Layers::whole_us)? / of(key, Nvm, Layers::whole_us)?)
    };
    let claims = [("bcache", BcacheNvmSsd), ("dm-cache", DmCacheNvmSsd)].map(|(name, cache)| {
        [
            Claim::order(
                "6",
                format!("4 KiB: the kernel's time is longer with {name} than on NVM, µs"),
                of("4k", Nvm, Layers::kernel_us).zip(of("4k", cache, Layers::kernel_us)),
            ),
            Claim::order(
                "6",
                format!("{name} ÷ NVM is smaller at 64 KiB than at 4 KiB"),
                ratio("64k", cache).zip(ratio("4k", cache)),
            ),
        ]
    });
    claims.into_iter().flatten().collect()
}

fn mixed(results: &[Measured]) -> Vec<Claim> {
    let of = |contender, number: fn(&Layers) -> f64| {
        at(results, Figure::Mixed, "threads8", contender).map(number)
    };
    let mut claims = Vec::new();
    let [(_, [_, nvm_ms, _]), caches @ ..] = TABLE_1;
    for (contender, [device_ms, kernel_ms, user_ms]) in caches {
        let whole_ms = device_ms + kernel_ms + user_ms;
        let kernel = of(contender, Layers::kernel_us);
        claims.push(Claim::number(
            "10, Table 1",
            format!("{}: time in the kernel ÷ the NVM's", contender.name()),
            kernel_ms / nvm_ms,
            kernel
                .zip(of(Nvm, Layers::kernel_us))
                .map(|(its, nvm)| its / nvm),
        ));
        claims.push(Claim::number(
            "10, Table 1",
            format!("{}: the kernel's share", contender.name()),
            kernel_ms / whole_ms,
            of(contender, |one| one.kernel_us() / one.whole_us()),
        ));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::claims::table;

    #[test]
    fn only_figures_that_were_measured_are_judged() {
        assert!(claims(&[]).is_empty());
        let point = Figure::Alone.points().remove(0);
        let measured = |contender, above_us: f64| Measured {
            point: point.clone(),
            contender,
            layers: Layers {
                above_us,
                device_us: 10.0,
                ..Layers::default()
            },
            iops_range: (0.0, 0.0),
        };
        let rows = table(&claims(&[measured(Nvm, 30.0), measured(Ssd, 20.0)])).rows;
        let verdicts: Vec<&str> = rows.iter().map(|row| row[4].as_str()).collect();
        assert_eq!(verdicts, ["holds", "holds", "not measured", "not measured"]);
    }
}
