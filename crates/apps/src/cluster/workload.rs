//! What clients write: which version of which key comes next, and which bytes a version has. Bytes follow from key and
//! version alone, so that a check needs no copy of what was written.

use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};

/// A client's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Values of 256 bytes to a few keys of the client's, one after the other and again.
    Puts,
    /// Files as a mail server treats them: 8 KiB are written, 8 KiB appended, 4 KiB overwritten in place, and every second
    /// file is removed; a sync after each.
    Mail,
    /// Records of 512 bytes, appended to one file after the other; a sync after each.
    Records,
    /// A few files of 16 KiB each, overwritten in place one after the other and again; a sync after each.
    Overwrites,
}

const PUT_BYTES: usize = 256;
const PUT_KEYS: u64 = 64;
const MAIL_BYTES: usize = 8192;
const MAIL_PATCH_BYTES: usize = 4096;
/// Of a file; only every second one is removed, in the last of them.
const MAIL_STEPS: u64 = 4;
/// Removed.
const MAIL_GONE: u32 = 4;
const RECORD_BYTES: usize = 512;
const RECORDS: u64 = 200;
const OVERWRITE_BYTES: usize = 16 << 10;
const OVERWRITE_KEYS: u64 = 16;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub key: String,
    pub version: u32,
}

impl Workload {
    /// The step of that number of a client; none where it has nothing to do. `attempted` is the newest version of a key so
    /// far.
    pub fn step(self, client: usize, number: u64, attempted: impl Fn(&str) -> u32) -> Option<Step> {
        let (key, part) = match self {
            Workload::Puts => (number % PUT_KEYS, None),
            Workload::Overwrites => (number % OVERWRITE_KEYS, None),
            Workload::Mail => (number / MAIL_STEPS, Some(number % MAIL_STEPS)),
            Workload::Records => (number / RECORDS, Some(number % RECORDS)),
        };
        let name = format!("c{client}-{key}");
        let version = match part {
            None => attempted(&name) + 1,
            Some(part) if self == Workload::Mail && part + 1 == MAIL_STEPS && key % 2 == 0 => {
                return None;
            }
            Some(part) => part as u32 + 1,
        };
        Some(Step { key: name, version })
    }

    /// The number of the step after one that failed: whether it was done is not known, so nothing may build on it.
    pub fn after_failure(self, number: u64) -> u64 {
        match self {
            Workload::Puts | Workload::Overwrites => number + 1,
            Workload::Mail => (number / MAIL_STEPS + 1) * MAIL_STEPS,
            Workload::Records => (number / RECORDS + 1) * RECORDS,
        }
    }

    /// Whether an acknowledged step has to survive. A removal need not: engines pass no sync of a folder on.
    pub fn is_promised(self, version: u32) -> bool {
        self != Workload::Mail || version != MAIL_GONE
    }

    /// What a key has in a version; none where it is not there.
    pub fn content(self, key: &str, version: u32) -> Option<Vec<u8>> {
        match (self, version) {
            (_, 0) | (Workload::Mail, MAIL_GONE..) => None,
            (Workload::Puts, _) => Some(bytes(key, version, PUT_BYTES)),
            (Workload::Overwrites, _) => Some(bytes(key, version, OVERWRITE_BYTES)),
            (Workload::Records, _) => {
                let records = (1..=version).map(|version| bytes(key, version, RECORD_BYTES));
                Some(records.collect::<Vec<_>>().concat())
            }
            (Workload::Mail, _) => {
                let mut all = bytes(key, 1, MAIL_BYTES);
                if version > 1 {
                    all.extend(bytes(key, 2, MAIL_BYTES));
                }
                if version > 2 {
                    let (from, patch) = self.written(key, version);
                    all[from..from + patch.len()].copy_from_slice(&patch);
                }
                Some(all)
            }
        }
    }

    /// What a step writes, and from which byte on.
    pub fn written(self, key: &str, version: u32) -> (usize, Vec<u8>) {
        match (self, version) {
            (Workload::Puts, _) => (0, bytes(key, version, PUT_BYTES)),
            (Workload::Overwrites, _) => (0, bytes(key, version, OVERWRITE_BYTES)),
            (Workload::Records, _) => {
                let from = (version as usize - 1) * RECORD_BYTES;
                (from, bytes(key, version, RECORD_BYTES))
            }
            (Workload::Mail, 1) => (0, bytes(key, 1, MAIL_BYTES)),
            (Workload::Mail, 2) => (MAIL_BYTES, bytes(key, 2, MAIL_BYTES)),
            (Workload::Mail, 3) => (MAIL_PATCH_BYTES, bytes(key, 3, MAIL_PATCH_BYTES)),
            (Workload::Mail, _) => (0, Vec::new()),
        }
    }
}

/// Bytes that no other key or version has.
fn bytes(key: &str, version: u32, count: usize) -> Vec<u8> {
    let mut seed = [0; 32];
    for (at, byte) in key.bytes().enumerate() {
        seed[at % 24] ^= byte.rotate_left((at / 24) as u32);
    }
    seed[24..28].copy_from_slice(&version.to_le_bytes());
    let mut all = vec![0; count];
    SmallRng::from_seed(seed).fill(&mut all[..]);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_s_versions_build_on_each_other() {
        let mail = Workload::Mail;
        let content = |version| mail.content("c0-3", version);
        let (first, second, third) = (content(1), content(2), content(3));
        let (first, second) = (first.expect("a file"), second.expect("a file"));
        let third = third.expect("a file");
        assert_eq!(
            (first.len(), second.len(), third.len()),
            (8192, 16384, 16384)
        );
        assert_eq!(first, second[..8192]);
        assert_eq!(second[..4096], third[..4096]);
        assert_ne!(second[4096..8192], third[4096..8192]);
        assert_eq!(second[8192..], third[8192..]);
        assert_eq!(content(4), None);
        assert_ne!(mail.content("c0-5", 1), mail.content("c0-3", 1));
        let (from, last) = Workload::Records.written("a", 3);
        let all = Workload::Records.content("a", 3).expect("a file");
        assert_eq!((from, &all[from..]), (1024, &last[..]));
    }

    #[test]
    fn steps_follow_each_other_and_after_a_failure_comes_another_file() {
        let attempted = |key: &str| if key == "c1-0" { 7 } else { 0 };
        let step = |workload: Workload, number| workload.step(1, number, attempted);
        let put = step(Workload::Puts, 64).expect("a put");
        assert_eq!((put.key.as_str(), put.version), ("c1-0", 8));
        let mail = |number| step(Workload::Mail, number).map(|step| (step.key, step.version));
        assert_eq!(mail(2), Some(("c1-0".into(), 3)));
        assert_eq!(mail(3), None, "an even file stays");
        assert_eq!(mail(7), Some(("c1-1".into(), 4)));
        assert!(Workload::Mail.is_promised(3) && !Workload::Mail.is_promised(4));
        assert_eq!(Workload::Mail.after_failure(5), 8);
        assert_eq!(Workload::Puts.after_failure(5), 6);
        let record = step(Workload::Records, 203).expect("a record");
        assert_eq!((record.key.as_str(), record.version), ("c1-1", 4));
        assert_eq!(Workload::Records.after_failure(203), 400);
    }
}
