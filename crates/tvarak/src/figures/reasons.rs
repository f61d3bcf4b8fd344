//! Why claims do not hold, as far as is known: by the sweep, and by what was counted.

/// A claim's name or the beginning of several, and the reason.
const REASONS: &[(&str, &str)] = &[];

/// The reason for a claim; none is known for most.
pub fn of(claim: &str) -> Option<&'static str> {
    let found = REASONS.iter().find(|(name, _)| claim.starts_with(name));
    found.map(|(_, reason)| *reason)
}
