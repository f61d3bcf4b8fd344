//! A mapping of another program: it registers, stores and ends, and its pages are taken from here.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use super::{Mapped, alone, peek, take};
use crate::track::remote::RemoteTracker;
use crate::track::userfault::Userfault;
use crate::track::{Coverage, Missed, Tracker};

const PAGES: u64 = 64;
const PATH: &str = "FOREBAY_DAX_TEST_PATH";
const ANSWER: &str = "answer ";

/// What the other program is: this one, run again for this test alone, with the file to map in its environment.
#[test]
fn the_other_program() {
    let Some(path) = std::env::var_os(PATH) else {
        return;
    };
    let file = File::options().read(true).write(true).open(path).unwrap();
    let map = || Mapped::of(vec![file.try_clone().unwrap()], PAGES);
    let mut mapped = Some(map());
    let span = mapped.as_ref().unwrap().span();
    let mut userfault = Userfault::register(&span).ok();
    let is_registered = userfault.is_some();
    println!("\n{ANSWER}{} {is_registered}", span.addresses().start);
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (command, argument) = line.split_once(' ').unwrap();
        let argument: u64 = argument.parse().unwrap();
        match command {
            "store" => mapped.as_ref().unwrap().store(argument, argument),
            "store-in-turn" => {
                for value in 1..=argument {
                    let page = value % PAGES;
                    mapped.as_ref().unwrap().store(page, value);
                }
            }
            "unmap" => drop(mapped.take()),
            "unregister" => drop(userfault.take()),
            "end" => return,
            _ => panic!("{command}"),
        }
        println!("{ANSWER}0");
    }
}

struct OtherProgram {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
    file: File,
}

impl OtherProgram {
    /// None where the kernel has no asynchronous write protection.
    fn start() -> Option<(OtherProgram, RemoteTracker)> {
        let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        file.as_file().set_len(PAGES * 4096).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "track::tests::exec::the_other_program",
                "--nocapture",
            ])
            .env(PATH, file.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (file, path) = file.into_parts();
        let mut other = OtherProgram {
            child,
            input,
            output,
            file,
        };
        let answer = other.answer();
        drop(path);
        let (start, is_registered) = answer.split_once(' ').unwrap();
        if is_registered == "false" {
            eprintln!("skipped another program's mapping: no asynchronous write protection");
            return None;
        }
        let start = start.parse().unwrap();
        let pid = other.child.id();
        let tracker = RemoteTracker::attach(pid, start, PAGES, &[&other.file]).unwrap();
        let written = take(&tracker, 0..PAGES);
        assert_eq!(written, [0..PAGES], "nothing was protected before");
        Some((other, tracker))
    }

    fn answer(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it has ended");
            if let Some(answer) = line.trim_end().strip_prefix(ANSWER) {
                return answer.to_owned();
            }
        }
    }

    fn tell(&mut self, command: &str) {
        writeln!(self.input, "{command}").unwrap();
        if !command.starts_with("end") {
            self.answer();
        }
    }
}

impl Drop for OtherProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_blind(tracker: &RemoteTracker) -> bool {
    let coverage = tracker.take_written(0..PAGES, &mut Vec::new()).unwrap();
    coverage == Coverage::MayHaveMissed(Missed::TrackerFailed)
}

#[test]
fn stores_of_another_program_are_seen_from_here() {
    let _alone = alone();
    let Some((mut other, tracker)) = OtherProgram::start() else {
        return;
    };
    assert_eq!(take(&tracker, 0..PAGES), []);
    other.tell("store 5");
    other.tell("store 6");
    other.tell("store 63");
    assert_eq!(peek(&tracker, 0..PAGES), [5..7, 63..64]);
    assert_eq!(take(&tracker, 6..PAGES), [6..7, 63..64]);
    assert_eq!(take(&tracker, 0..PAGES), [5..6]);
    assert!(tracker.hold(0..1).unwrap().is_none());
    other.tell("store 5");
    assert_eq!(take(&tracker, 0..PAGES), [5..6]);
}

#[test]
fn no_store_of_another_program_is_lost_to_a_pass() {
    let _alone = alone();
    let Some((mut other, tracker)) = OtherProgram::start() else {
        return;
    };
    let ours = Mapped::of(vec![other.file.try_clone().unwrap()], PAGES);
    let value = |page| {
        ours.word(page, 0)
            .load(std::sync::atomic::Ordering::Acquire)
    };
    let mut copies = [0; PAGES as usize];
    let stores = 200_000;
    writeln!(other.input, "store-in-turn {stores}").unwrap();
    let mut is_last = false;
    while !is_last {
        // Values rise from page to page: when one is there, so are those before it.
        is_last = value(stores % PAGES) == stores;
        assert!(other.child.try_wait().unwrap().is_none(), "it has ended");
        let before: Vec<u64> = (0..PAGES).map(value).collect();
        for page in take(&tracker, 0..PAGES).into_iter().flatten() {
            copies[page as usize] = value(page);
        }
        for page in 0..PAGES as usize {
            assert!(copies[page] >= before[page], "page {page}");
        }
    }
    other.answer();
}

#[test]
fn a_program_that_ended_is_not_taken_for_one_that_rests() {
    let _alone = alone();
    let Some((mut other, tracker)) = OtherProgram::start() else {
        return;
    };
    other.tell("store 5");
    other.tell("end 0");
    other.child.wait().unwrap();
    assert!(is_blind(&tracker));
}

#[test]
fn a_program_that_unmapped_is_not_taken_for_one_that_rests() {
    let _alone = alone();
    let Some((mut other, tracker)) = OtherProgram::start() else {
        return;
    };
    other.tell("store 5");
    other.tell("unmap 0");
    assert!(is_blind(&tracker));
}

#[test]
fn a_program_that_unregistered_is_not_taken_for_one_that_rests() {
    let _alone = alone();
    let Some((mut other, tracker)) = OtherProgram::start() else {
        return;
    };
    other.tell("unregister 0");
    other.tell("store 5");
    assert!(is_blind(&tracker));
}

#[test]
fn what_is_not_mapped_cannot_be_attached_to() {
    let _alone = alone();
    let Some((other, tracker)) = OtherProgram::start() else {
        return;
    };
    drop(tracker);
    let error = RemoteTracker::attach(other.child.id(), 4096, PAGES, &[&other.file]);
    let text = error.err().unwrap().to_string();
    assert!(text.contains("the files are not mapped there"), "{text}");
}
