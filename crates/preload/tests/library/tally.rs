//! What is counted of a tree of programs, and when it opens the pool.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use forebay_files::tally::{Count, TALLY_BYTES};

use crate::rig::{self, Rig};

/// A rig with memory for the counts.
struct Counted {
    rig: Rig,
    memory: tempfile::NamedTempFile,
    program: PathBuf,
}

impl Counted {
    fn new() -> Option<Counted> {
        let program = rig::compile("kinds")?;
        let memory = tempfile::NamedTempFile::new().unwrap();
        memory.as_file().set_len(TALLY_BYTES).unwrap();
        Some(Counted {
            rig: Rig::new(),
            memory,
            program,
        })
    }

    fn run(&self, mut command: Command) {
        command.env("FOREBAY_TALLY", self.memory.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", rig::text(&output.stderr));
    }

    fn write(&self, arguments: &[&str]) {
        self.run(self.rig.preloaded(&self.program, arguments));
    }

    fn found(&self, count: Count) -> u64 {
        let bytes = fs::read(self.memory.path()).unwrap();
        let word = &bytes[count.offset()..count.offset() + 8];
        u64::from_le_bytes(word.try_into().unwrap())
    }
}

#[test]
fn files_count_for_what_became_of_them() {
    let Some(counted) = Counted::new() else {
        return;
    };
    counted.write(&["write", "one", "two", "three"]);
    counted.write(&["mmap", "four", "five"]);
    counted.write(&["stdio", "six"]);
    let found = Count::ALL.map(|count| counted.found(count));
    assert_eq!(found[..7], [3, 2, 1, 0, 0, 0, 1], "{found:?}");
    assert_eq!(fs::read(counted.rig.path().join("four")).unwrap(), b"Text");
}

#[test]
fn each_short_process_opened_the_pool() {
    let Some(counted) = Counted::new() else {
        return;
    };
    let program = counted.program.display();
    let script = format!("for file in $(seq 40); do {program} write $file || exit 1; done");
    counted.run(counted.rig.preloaded("sh", &["-c", &script]));
    let opens = counted.rig.log().matches("has the pool").count();
    assert_eq!(
        opens, 1,
        "the second process knows that it was not worth it"
    );
    assert_eq!(counted.found(Count::Opens), 1);
    assert_eq!(counted.found(Count::Brief), 39);
    // A program that syncs much has the pool all the same.
    let many: Vec<String> = (0..100).map(|number| format!("many-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    counted.write(&[&["write"], &many[..]].concat());
    assert_eq!(counted.found(Count::Opens), 2);
    assert!(counted.found(Count::Buffered) > 90);
    counted.write(&["write", "again"]);
    assert_eq!(counted.found(Count::Opens), 3, "it was worth it");
}
