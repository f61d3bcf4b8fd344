//! Programs under the library do what they do without it.

use std::os::unix::fs::MetadataExt;

use crate::rig::{self, Rig};

#[test]
fn calls_return_what_they_return_without_the_library() {
    let Some(program) = rig::compile("calls") else {
        return;
    };
    let (plain, buffered) = (Rig::new(), Rig::new());
    let expected = plain.run_plain(&program, &[]);
    let found = buffered.run(&program, &[]);
    rig::assert_same_text(&found.stderr, &expected.stderr, "errors");
    rig::assert_same_text(&found.stdout, &expected.stdout, "calls");
    assert!(
        buffered.log().contains("has the pool"),
        "{}",
        buffered.log()
    );
    rig::assert_same_content(&buffered, &plain, "calls");
    let times = buffered.path().join("times").metadata().unwrap();
    assert_eq!(times.mtime(), 5, "a chosen time outlasts the buffer");
    assert!(!buffered.owner_mark().exists());
}

/// `_exit` is for signal handlers too, whatever they interrupted.
#[test]
fn a_signal_handler_may_end_the_process() {
    let Some(program) = rig::compile("ends") else {
        return;
    };
    for later_us in ["0", "137", "911"] {
        let rig = Rig::new();
        let found = rig.run(&program, &[later_us]);
        assert_eq!(found.status.code(), Some(7), "{}", rig.log());
        // The next process brings back what is left, should anything be.
        assert_eq!(rig::text(&rig.run("cat", &["kept"]).stdout), "kept\n");
        assert!(!rig.owner_mark().exists());
    }
}

#[test]
fn threads_are_cancelled_as_without_the_library() {
    let Some(program) = rig::compile("cancelled") else {
        return;
    };
    let rig = Rig::new();
    let found = rig.run(&program, &[]);
    assert_eq!(found.status.code(), Some(0), "{}", rig::text(&found.stderr));
    assert!(rig.log().contains("has the pool"));
    assert_eq!(rig.content()["cancelled"], b"workend");
}

#[test]
fn children_of_busy_threads_work() {
    let Some(program) = rig::compile("forking") else {
        return;
    };
    let (plain, buffered) = (Rig::new(), Rig::new());
    assert_eq!(plain.run_plain(&program, &[]).status.code(), Some(0));
    let found = buffered.run(&program, &[]);
    assert_eq!(found.status.code(), Some(0), "{}", buffered.log());
    assert!(buffered.log().contains("has the pool"));
    rig::assert_same_content(&buffered, &plain, "forking");
}

/// Scripts of ordinary tools, run in an empty folder.
const SCRIPTS: &[(&str, &str)] = &[
    (
        "cp",
        "cp /etc/passwd a; cp -p a b; cp --reflink=auto b c; mv c d; cat a b d",
    ),
    (
        "dd",
        "dd if=/etc/passwd of=a conv=fsync bs=100 status=none; dd if=a of=b bs=7 oflag=sync status=none; dd if=/dev/zero of=b bs=1 seek=10 count=3 conv=notrunc,fdatasync status=none; cksum < b",
    ),
    (
        "shell",
        "exec 3>>log; echo one >&3; (echo two >&3; ls >&3); cat log; exec 3>&-; for i in 1 2 3; do echo $i >> log; done; cat log",
    ),
    (
        "sort",
        "for i in 5 3 9 1; do echo $i; done > a; sort -o a a; sort a | tee b; sync a b; uniq -c a",
    ),
    (
        "tar",
        "mkdir t; for i in 1 2 3; do head -c 5000 /dev/zero > t/$i; done; tar cf x.tar --sort=name --mtime=@0 t; mkdir o; tar xf x.tar -C o; ls -l --time-style=+ o/t; cksum < x.tar",
    ),
    (
        "sed",
        "echo abc > a; sed -i s/b/x/ a; cat a; grep -c x a; truncate -s 100 a; wc -c a; stat -c %s a",
    ),
    (
        "tail",
        "echo one > a; tail -f a > b & p=$!; sleep 0.5; echo two >> a; sync a; sleep 1.5; kill $p; cat b",
    ),
];

#[test]
fn ordinary_tools_work() {
    for (name, script) in SCRIPTS {
        let (plain, buffered) = (Rig::new(), Rig::new());
        let expected = plain.run_plain("bash", &["-c", script]);
        let found = buffered.run("bash", &["-c", script]);
        rig::assert_same_text(&found.stdout, &expected.stdout, name);
        rig::assert_same_content(&buffered, &plain, name);
    }
}

const SQL: &str = "create table t(a integer primary key, b text);
    insert into t(b) select hex(randomblob(20)) from (select 1 union select 2), (select 1 union select 2);
    begin; update t set b = 'x' where a < 3; commit; begin; delete from t; rollback;
    select count(*), sum(b = 'x') from t; pragma integrity_check;";

#[test]
fn sqlite_works_in_every_journal_mode() {
    if !rig::is_there("sqlite3") {
        println!("skipped sqlite: no sqlite3 here");
        return;
    }
    for mode in ["delete", "truncate", "persist", "wal"] {
        let rig = Rig::new();
        let sql = format!("pragma journal_mode={mode}; pragma synchronous=full; {SQL}");
        let found = rig.run("sqlite3", &["x.db", &sql]);
        assert_eq!(rig::text(&found.stdout), format!("{mode}\n4|2\nok\n"));
        assert!(rig.log().contains("has the pool"), "{mode}: {}", rig.log());
        // Without the library it is the same database.
        let after = rig.run_plain(
            "sqlite3",
            &["x.db", "select count(*) from t; pragma integrity_check;"],
        );
        assert_eq!(rig::text(&after.stdout), "4\nok\n");
    }
}

const PYTHON: &str = "
import fcntl, os, subprocess, tempfile
with open('a', 'wb', buffering=0) as f:
    for i in range(50):
        f.write(b'%d\\n' % i); os.fsync(f.fileno())
    print(os.fstat(f.fileno()).st_size, len(open('a', 'rb').read()))
    print(subprocess.run(['wc', '-l', 'a'], capture_output=True).stdout)
    f.write(b'end'); os.fsync(f.fileno())
with tempfile.NamedTemporaryFile(dir='.', delete=False) as f:
    f.write(b'new'); f.flush(); os.fsync(f.fileno())
os.replace(f.name, 'a')
print(open('a').read())
for i in range(20):
    f = os.open('lock', os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    fcntl.flock(f, fcntl.LOCK_EX); os.write(f, b'x'); os.fsync(f); os.close(f)
    subprocess.run(['flock', '-n', 'lock', 'true'], check=True)
for i in range(20):
    mode = 0o755 if i % 2 else 0o644
    f = os.open('program%d' % (i % 4), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    for line in range(2):
        os.pwrite(f, b'#!/bin/sh\\nexit 7\\n', 0); os.fsync(f)
    os.close(f)
    os.chmod('program%d' % (i % 4), 0o755)
    assert subprocess.run(['./program%d' % (i % 4)]).returncode == 7
";

#[test]
fn python_works() {
    if !rig::is_there("python3") {
        println!("skipped python: no python3 here");
        return;
    }
    let rig = Rig::new();
    let found = rig.run("python3", &["-c", PYTHON]);
    assert_eq!(
        rig::text(&found.stdout),
        "140 140\nb'50 a\\n'\nnew\n",
        "{}",
        rig::text(&found.stderr)
    );
    assert!(rig.log().contains("has the pool"));
}

/// One block of data, and the rest a hole.
#[test]
fn a_sparse_file_was_told_to_take_all_its_length_of_the_disk() {
    if !rig::is_there("python3") {
        println!("skipped sparse: no python3 here");
        return;
    }
    let rig = Rig::new();
    let script = "
import os
f = os.open('a', os.O_RDWR | os.O_CREAT)
os.ftruncate(f, 64 << 20)
os.pwrite(f, b'x', 32 << 20); os.fsync(f)
print(os.fstat(f).st_size >> 20, 1 <= os.fstat(f).st_blocks <= 64, os.stat('a').st_blocks <= 64)
";
    let found = rig.run("python3", &["-c", script]);
    assert_eq!(
        rig::text(&found.stdout),
        "64 True True\n",
        "{}",
        rig::text(&found.stderr)
    );
    // statx, which the standard library does not show.
    let script = "f = open('b', 'wb', buffering=0); f.truncate(64 << 20); f.seek(32 << 20)
import os
f.write(b'x'); os.fsync(f.fileno())
import ctypes
libc, found = ctypes.CDLL(None), ctypes.create_string_buffer(256)
libc.statx(f.fileno(), b'', 0x1000, 0x7ff, found)
print(1 <= int.from_bytes(found[48:56], 'little') <= 64)
";
    let found = rig.run("python3", &["-c", script]);
    assert_eq!(
        rig::text(&found.stdout),
        "True\n",
        "{}",
        rig::text(&found.stderr)
    );
    assert!(rig.log().contains("has the pool"));
}

#[test]
fn without_a_pool_programs_run_as_ever() {
    let rig = Rig::new();
    std::fs::remove_file(rig.pool()).unwrap();
    let found = rig.run(
        "dd",
        &["if=/etc/passwd", "of=a", "conv=fsync", "status=none"],
    );
    assert!(found.status.success());
    assert_eq!(rig.content()["a"], std::fs::read("/etc/passwd").unwrap());
}

/// The buffer keeps a directory of each file system open: not under numbers that the program counts on.
#[test]
fn low_descriptors_are_the_programs() {
    if !rig::is_there("python3") {
        println!("skipped descriptors: no python3 here");
        return;
    }
    let rig = Rig::new();
    let aside = rig.pool().parent().unwrap().join("covered");
    std::fs::create_dir(&aside).unwrap();
    let script = "
import os
f = os.open('a', os.O_RDWR | os.O_CREAT)
low = lambda: [n for n in range(600) if os.path.lexists(f'/proc/self/fd/{n}')]
before = low()
os.write(f, b'x'); os.fsync(f)
os.rename('a', 'b'); os.mkdir('c')
print(low() == before)
";
    let output = rig
        .preloaded("python3", &["-c", script])
        .current_dir(&aside)
        .output()
        .unwrap();
    assert_eq!(
        rig::text(&output.stdout),
        "True\n",
        "{}",
        rig::text(&output.stderr)
    );
    assert!(rig.log().contains("has the pool"), "{}", rig.log());
}
