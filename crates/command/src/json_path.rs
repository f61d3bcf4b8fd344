//! Paths in JSON, which has no other text than Unicode: nothing is lost, and nothing refused.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::Value;

/// Puts a path into a result under `name`: as text, with U+FFFD for what is not UTF-8; then its
/// bytes are beside it in hexadecimal, under `name` with `_hex` added. No path is null.
pub fn put(report: &mut Value, name: &str, path: Option<&Path>) {
    report[name] = path.map_or(Value::Null, |path| path.to_string_lossy().into());
    if let Some(path) = path
        && path.to_str().is_none()
    {
        report[format!("{name}_hex")] = hex(path).into();
    }
}

/// The result with a path in it.
pub fn with(mut report: Value, name: &str, path: &Path) -> Value {
    put(&mut report, name, Some(path));
    report
}

fn hex(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::ffi::OsStr;

    #[test]
    fn what_is_not_utf_8_is_not_lost() {
        let mut report = json!({});
        put(&mut report, "path", Some(Path::new("/srv/größe")));
        put(
            &mut report,
            "backing",
            Some(Path::new(OsStr::from_bytes(b"d\xff"))),
        );
        put(&mut report, "mounted_on", None);
        assert_eq!(
            report,
            json!({"path": "/srv/größe", "backing": "d\u{fffd}", "backing_hex": "64ff",
                "mounted_on": null})
        );
    }
}
