//! Sizes as people write them: `512M`, `1GiB`, `4096`.

/// Parses a number of bytes; suffixes are powers of 1024.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("'{text}' is not a size; write it like 4096, 512M or 1GiB"))?;
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        suffix => return Err(format!("'{suffix}' is not a unit; use K, M, G or T")),
    };
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("'{text}' is more than 64 bits hold"))
}

/// Writes a number of bytes the way a person reads it.
pub fn shown(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (unit, shift) in units {
        if bytes >= 1 << shift {
            return format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed() {
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("512M"), Ok(512 << 20));
        assert_eq!(parse("1GiB"), Ok(1 << 30));
        assert_eq!(parse("2k"), Ok(2048));
    }

    #[test]
    fn nonsense_is_named() {
        assert!(parse("lots").unwrap_err().contains("lots"));
        assert!(parse("3 apples").unwrap_err().contains("apples"));
        assert!(parse("99999999T").unwrap_err().contains("64 bits"));
    }

    #[test]
    fn sizes_are_shown() {
        assert_eq!(shown(100), "100 B");
        assert_eq!(shown(3 << 29), "1.5 GiB");
    }
}
