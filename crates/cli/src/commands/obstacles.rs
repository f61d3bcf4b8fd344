//! Why a program cannot be run over the pool, as far as its file and this process tell beforehand.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Scripts that run scripts are followed so far; the kernel goes no further either.
const INTERPRETERS_MAX: usize = 5;
/// What the kernel reads of a script.
const HEAD_BYTES: u64 = 256;

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;

/// A program header that names the loader.
const PT_INTERP: u32 = 3;
const HEADERS_MAX: u16 = 128;
const LOADER_BYTES_MAX: u64 = 4096;

/// All that is known, each in words.
pub fn of(program: &OsStr) -> Vec<String> {
    let mut obstacles: Vec<String> = of_program(program).into_iter().collect();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if is_filtered(&status) {
        obstacles.push(String::from(
            "system calls are filtered here (seccomp), perhaps some that buffering needs: then files stay plain",
        ));
    }
    obstacles
}

fn is_filtered(status: &str) -> bool {
    let mode = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() == "2")
}

/// Follows scripts to the program that the kernel runs.
fn of_program(program: &OsStr) -> Option<String> {
    let mut program = program.to_owned();
    for _ in 0..INTERPRETERS_MAX {
        let path = found(&program)?;
        let file = File::open(&path).ok()?;
        let shown = path.display();
        if is_privileged(&path, &file.metadata().ok()?) {
            return Some(format!(
                "{shown} runs with rights of its own (set-user-id or capabilities), and the loader then \
                 leaves the library out"
            ));
        }
        let mut head = Vec::new();
        (&file).take(HEAD_BYTES).read_to_end(&mut head).ok()?;
        match interpreter(&head) {
            Some(next) => program = next,
            None => return of_binary(&file, &head).map(|why| format!("{shown} {why}")),
        }
    }
    None
}

/// Where a program of this name is.
fn found(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(program));
    places.find(|place| place.is_file())
}

/// Whether the loader gives it no library of the caller's.
fn is_privileged(path: &Path, found: &Metadata) -> bool {
    let user = nix::unistd::geteuid().as_raw();
    let group = nix::unistd::getegid().as_raw();
    let is_other = (found.mode() & SET_USER_ID != 0 && found.uid() != user)
        || (found.mode() & SET_GROUP_ID != 0 && found.gid() != group);
    let mut value = [0; 64];
    let mut capability = || rustix::fs::getxattr(path, c"security.capability", &mut value);
    is_other || (user != 0 && capability().is_ok())
}

/// What runs a script; `env` is looked through.
fn interpreter(head: &[u8]) -> Option<OsString> {
    let line = head.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    let mut words = line
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty());
    let first = words.next()?;
    let is_env = first.ends_with(b"/env");
    let is_program = |word: &&[u8]| !word.starts_with(b"-") && !word.contains(&b'=');
    let named = match is_env {
        true => words.find(is_program)?,
        false => first,
    };
    Some(OsString::from_vec(named.to_vec()))
}

/// What keeps the library out of a program in ELF; other kinds are the kernel's to refuse.
fn of_binary(file: &File, head: &[u8]) -> Option<String> {
    let is_elf = head.starts_with(b"\x7fELF");
    if !is_elf {
        return None;
    }
    let is_ours = head.get(4..6) == Some(&[2, 1]) && half(head, 18) == Some(MACHINE);
    if !is_ours {
        return Some(String::from(
            "is of another kind of machine than the library",
        ));
    }
    match loader(file, head) {
        None => Some(String::from(
            "is linked statically, as programs in Go are, so that no library can be put before it",
        )),
        Some(loader) if loader.windows(7).any(|part| part == b"ld-musl") => {
            Some(String::from("uses musl, and the library is made for glibc"))
        }
        Some(_) => None,
    }
}

#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;

/// The loader that a program for 64 bits names.
fn loader(file: &File, head: &[u8]) -> Option<Vec<u8>> {
    let table = long(head, 32)?;
    let (entry_bytes, entries) = (half(head, 54)?, half(head, 56)?);
    for index in 0..entries.min(HEADERS_MAX) {
        let mut entry = [0; 40];
        let at = table.checked_add(u64::from(index) * u64::from(entry_bytes))?;
        file.read_exact_at(&mut entry, at).ok()?;
        let kind = u32::from_le_bytes(entry[..4].try_into().expect("four bytes"));
        if kind == PT_INTERP {
            let mut name = vec![0; long(&entry, 32)?.min(LOADER_BYTES_MAX) as usize];
            file.read_exact_at(&mut name, long(&entry, 8)?).ok()?;
            return Some(name);
        }
    }
    None
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_le_bytes(bytes.try_into().expect("two bytes")))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_name_what_runs_them() {
        for (head, expected) in [
            (&b"#!/bin/sh\nexit"[..], Some("/bin/sh")),
            (b"#! /usr/bin/env python3\n", Some("python3")),
            (b"#!/usr/bin/env -S A=1 perl -w\n", Some("perl")),
            (b"\x7fELF", None),
            (b"", None),
        ] {
            assert_eq!(interpreter(head).as_deref(), expected.map(OsStr::new));
        }
    }

    #[test]
    fn filters_are_seen() {
        assert!(is_filtered("Name:\tx\nSeccomp:\t2\n"));
        assert!(!is_filtered("Seccomp:\t0\nSeccomp_filters:\t2\n"));
    }

    #[test]
    fn what_lies_about_itself_is_no_obstacle_and_no_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let mut bytes = std::fs::read("/proc/self/exe").unwrap();
        bytes.truncate(4096);
        for at in (0..64).chain([32; 3]) {
            let mut broken = bytes.clone();
            broken[at] ^= 0xff;
            std::fs::write(&path, &broken).unwrap();
            of_program(path.as_os_str());
        }
        std::fs::write(&path, &bytes[..20]).unwrap();
        of_program(path.as_os_str());
        assert_eq!(of_program(OsStr::new("/proc/self/exe")), None);
    }
}
