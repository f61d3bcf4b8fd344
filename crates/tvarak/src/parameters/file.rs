//! Parameters from the file that is built in or from another, as they are, with one varied, or scaled down.

use crate::parameters::check::magnitudes;
use crate::parameters::sections::{Parameters, ParametersError};

/// The file that is built in.
const BUILT_IN: &str = include_str!("../../parameters.toml");

impl Parameters {
    /// Those of the file that is built in.
    pub fn paper() -> Parameters {
        Parameters::parse(BUILT_IN).expect("the file in the source tree is right")
    }

    /// Those of a file's text.
    ///
    /// # Errors
    /// It is not TOML of this shape, or describes no machine that can be built.
    pub fn parse(text: &str) -> Result<Parameters, ParametersError> {
        let table: toml::Table = text
            .parse()
            .map_err(|error| ParametersError(format!("are no TOML: {error}")))?;
        Parameters::of(table)
    }

    /// The built-in ones with one of those that the paper does not give multiplied.
    ///
    /// # Errors
    /// There is no such reconstructed parameter, or the machine that results cannot be built.
    pub fn paper_with(name: &str, [times, over]: [u64; 2]) -> Result<Parameters, ParametersError> {
        let none = || ParametersError(format!("have no reconstructed {name}"));
        let (section, key) = name.split_once('.').ok_or_else(none)?;
        if !Parameters::reconstructed().contains(&name.to_owned()) {
            return Err(none());
        }
        let mut table: toml::Table = BUILT_IN.parse().expect("the file is TOML");
        let value = table[section][key]["value"].as_integer().ok_or_else(none)? as u64;
        let scaled = (value * times / over).max(1);
        table[section][key]["value"] = toml::Value::Integer(scaled as i64);
        Parameters::of(table)
    }

    fn of(table: toml::Table) -> Result<Parameters, ParametersError> {
        magnitudes(&table)?;
        let parsed: Parameters = table
            .try_into()
            .map_err(|error| ParametersError(format!("are wrong: {error}")))?;
        parsed.check()?;
        Ok(parsed)
    }

    /// The names of all that the paper does not give, as `section.name`.
    pub fn reconstructed() -> Vec<String> {
        let all = Parameters::reconstructions().into_iter();
        all.map(|(name, ..)| name).collect()
    }

    /// All that the paper does not give: its name, its value, and what it stands on.
    pub fn reconstructions() -> Vec<(String, u64, String)> {
        let table: toml::Table = BUILT_IN.parse().expect("the file is TOML");
        let sections = table
            .iter()
            .filter_map(|(name, section)| Some((name, section.as_table()?)));
        let all = sections.flat_map(|(section, values)| {
            let is_ours = |value: &toml::Value| value["source"].as_str() == Some("reconstructed");
            let ours = values.iter().filter(move |(_, value)| is_ours(value));
            ours.map(move |(name, value)| {
                let number = value["value"].as_integer().unwrap_or_default();
                let why = value.get("why").and_then(toml::Value::as_str);
                let name = format!("{section}.{name}");
                (name, number as u64, why.unwrap_or_default().to_owned())
            })
        });
        all.collect()
    }

    /// The same machine and work, each `factor` times smaller; what one access costs stays.
    ///
    /// # Errors
    /// There is no such machine.
    pub fn scaled_down(mut self, factor: u64) -> Result<Parameters, ParametersError> {
        if !factor.is_power_of_two() || factor > 64 {
            return Err(ParametersError(
                "are scaled by a power of two up to 64".into(),
            ));
        }
        for size in [
            &mut self.l1d.size_bytes,
            &mut self.l1i.size_bytes,
            &mut self.l2.size_bytes,
            &mut self.llc.bank_bytes,
            &mut self.fio.region_bytes,
            &mut self.fio.work_bytes,
            &mut self.fio.code_bytes,
            &mut self.stream.array_bytes,
            &mut self.passes.period_us,
            &mut self.programs.code_bytes,
            &mut self.trees.operations,
            &mut self.redis.requests,
            &mut self.redis.keys,
            &mut self.nstore.transactions,
            &mut self.nstore.tuples,
            &mut self.nstore.log_nodes,
        ] {
            size.value /= factor;
        }
        // Four sets are what a cache has at least.
        for level in [&mut self.l1d, &mut self.l1i, &mut self.l2] {
            level.size_bytes.value = level.size_bytes.value.max(64 * level.ways.value * 4);
        }
        self.controller.cache_bytes.value =
            (self.controller.cache_bytes.value / factor).max(64 * self.controller.cache_ways.value);
        self.check()?;
        Ok(self)
    }

    /// A machine whose caches hold few lines, so that few accesses drive lines out of all of them: for campaigns.
    pub fn crowded() -> Parameters {
        let mut parameters = Parameters::paper()
            .scaled_down(64)
            .expect("Table 3 can be scaled");
        for (sourced, value) in [
            (&mut parameters.l1d.size_bytes, 64 * 8),
            (&mut parameters.l1i.size_bytes, 64 * 4),
            (&mut parameters.l2.size_bytes, 64 * 16),
            (&mut parameters.llc.banks, 3),
            (&mut parameters.llc.bank_bytes, 64 * 16 * 4),
            (&mut parameters.cores.count, 3),
            (&mut parameters.fio.threads, 3),
            (&mut parameters.stream.threads, 3),
            (&mut parameters.trees.instances, 3),
            (&mut parameters.redis.instances, 3),
            (&mut parameters.nstore.threads, 3),
            (&mut parameters.controller.cache_ways, 2),
            // So that divisions change all the time.
            (&mut parameters.adaptive.round_accesses, 8),
            (&mut parameters.adaptive.better_by, 1 << 12),
            (&mut parameters.adaptive.trial_rounds, 0),
            (&mut parameters.controller.cache_bytes, 64 * 4),
        ] {
            sourced.value = value;
        }
        parameters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::sourced::Source;

    #[test]
    fn the_built_in_file_is_table_3() {
        let paper = Parameters::paper();
        assert_eq!(paper.llc.banks.value * paper.llc.bank_bytes.value, 24 << 20);
        assert_eq!(paper.nvm.write_pj.value, 9000);
        assert_eq!(paper.cores.frequency_mhz.source, Source::Table3);
    }

    #[test]
    fn what_the_paper_does_not_give_says_what_it_stands_on_and_can_be_swept() {
        let table: toml::Table = BUILT_IN.parse().unwrap();
        for name in Parameters::reconstructed() {
            let (section, key) = name.split_once('.').unwrap();
            assert!(table[section][key].get("why").is_some(), "{name}");
            let value = table[section][key]["value"].as_integer().unwrap();
            let twice = Parameters::paper_with(&name, [2, 1]);
            assert!(twice.is_ok() || value == 0, "{name}: {twice:?}");
        }
        let twice = Parameters::paper_with("nvm.banks", [2, 1]).unwrap();
        assert_eq!(twice.nvm.banks.value, 16);
        assert!(Parameters::paper_with("nvm.read_ns", [2, 1]).is_err());
    }

    #[test]
    fn a_wrong_file_is_refused_with_what_is_wrong() {
        let unknown = BUILT_IN.replace("[cores]", "[cores]\nhyperthreads = 2");
        assert!(Parameters::parse(&unknown).is_err());
        let odd = BUILT_IN.replace(
            "redundancy_ways = { value = 2",
            "redundancy_ways = { value = 15",
        );
        let error = Parameters::parse(&odd).unwrap_err().to_string();
        assert!(error.contains("llc.ways"), "{error}");
    }

    #[test]
    fn whatever_number_stands_there_a_machine_is_described_or_refused() {
        let table: toml::Table = BUILT_IN.parse().unwrap();
        for number in [0, 1, 3, 1 << 40, i64::MAX] {
            for (section, values) in &table {
                for key in values.as_table().unwrap().keys() {
                    let mut hostile = table.clone();
                    hostile[section][key]["value"] = toml::Value::Integer(number);
                    let scaled = Parameters::of(hostile).and_then(|all| all.scaled_down(32));
                    let is_refused = scaled.is_err();
                    assert!(is_refused || number <= 3, "{section}.{key} = {number}");
                }
            }
        }
    }
}
