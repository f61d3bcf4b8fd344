//! How scenarios are called, to be replayed.

use crate::explore::Scenario;

impl std::fmt::Display for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scenario::Random(seed) => write!(f, "{seed}"),
            Scenario::Focused(seed) => write!(f, "f{seed}"),
            Scenario::Directed(seed) => write!(f, "d{seed}"),
            Scenario::Lost(seed) => write!(f, "l{seed}"),
            Scenario::Systematic {
                script,
                first,
                preemptions,
            } => {
                write!(f, "s{script}.{first}")?;
                preemptions.iter().try_for_each(|step| write!(f, ".{step}"))
            }
        }
    }
}

impl std::str::FromStr for Scenario {
    type Err = String;

    fn from_str(text: &str) -> Result<Scenario, String> {
        let wrong =
            |_| format!("\"{text}\" is neither a number nor of the form f5, d5, l5 or s3.0.17");
        if let Some(seed) = text.strip_prefix('f') {
            return seed.parse().map(Scenario::Focused).map_err(wrong);
        }
        if let Some(seed) = text.strip_prefix('d') {
            return seed.parse().map(Scenario::Directed).map_err(wrong);
        }
        if let Some(seed) = text.strip_prefix('l') {
            return seed.parse().map(Scenario::Lost).map_err(wrong);
        }
        let Some(rest) = text.strip_prefix('s') else {
            return text.parse().map(Scenario::Random).map_err(wrong);
        };
        let numbers: Result<Vec<u64>, _> = rest.split('.').map(str::parse).collect();
        match numbers.map_err(wrong)?.as_slice() {
            [script, first, preemptions @ ..] => Ok(Scenario::Systematic {
                script: *script as usize,
                first: (*first as usize).min(1),
                preemptions: preemptions.to_vec(),
            }),
            _ => Err(format!(
                "\"{text}\" names no first actor; say for example s3.0.17"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_named_and_found_again() {
        let systematic = Scenario::Systematic {
            script: 17,
            first: 1,
            preemptions: vec![3, 9],
        };
        let (focused, directed) = (Scenario::Focused(8), Scenario::Directed(8));
        let lost = Scenario::Lost(8);
        for scenario in [Scenario::Random(77), focused, directed, lost, systematic] {
            assert_eq!(scenario.to_string().parse(), Ok(scenario));
        }
        assert!("s3".parse::<Scenario>().is_err());
        assert!("x".parse::<Scenario>().is_err());
    }
}
