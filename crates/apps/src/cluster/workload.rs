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
    /// Records of 512 bytes, appended to one file of so many copies after the other; a sync after each.
    Records { replicas: u8 },
    /// Files as a file server treats them: 16 KiB are written, 16 KiB appended, all is read, and every second file is removed; a
    /// sync after what is written.
    Fileserver,
    /// Files of 16 KiB as a proxy treats them: written, synced, and read five times.
    Webproxy,
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
const FILESERVER_BYTES: usize = 16 << 10;
/// Of a file; only every second one is removed, in the last of them.
const FILESERVER_STEPS: u64 = 4;
/// The step that reads.
const FILESERVER_READ: u64 = 2;
const FILESERVER_GONE: u32 = 3;
const WEBPROXY_BYTES: usize = 16 << 10;
/// The first one writes.
const WEBPROXY_STEPS: u64 = 6;
const RECORD_BYTES: usize = 512;
const RECORDS: u64 = 200;
const OVERWRITE_BYTES: usize = 16 << 10;
const OVERWRITE_KEYS: u64 = 16;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub key: String,
    /// What it brings the key to, or what is read.
    pub version: u32,
    pub is_read: bool,
}

impl Workload {
    /// The step of that number of a client; none where it has nothing to do. `attempted` is the newest version of a key so
    /// far.
    pub fn step(self, client: usize, number: u64, attempted: impl Fn(&str) -> u32) -> Option<Step> {
        let Some(steps) = self.steps_of_a_key() else {
            let keys = match self {
                Workload::Puts => PUT_KEYS,
                _ => OVERWRITE_KEYS,
            };
            let key = format!("c{client}-{}", number % keys);
            return Some(Step {
                version: attempted(&key) + 1,
                key,
                is_read: false,
            });
        };
        let (key, part) = (number / steps, number % steps);
        let (version, is_read) = match self {
            Workload::Webproxy => (1, part > 0),
            Workload::Fileserver if part >= FILESERVER_READ => {
                (part as u32, part == FILESERVER_READ)
            }
            _ => (part as u32 + 1, false),
        };
        let stays = self.gone() == Some(version) && key % 2 == 0;
        (!stays).then(|| Step {
            key: format!("c{client}-{key}"),
            version,
            is_read,
        })
    }

    /// After so many a client goes on with another key; none where it writes the same ones again and again.
    fn steps_of_a_key(self) -> Option<u64> {
        match self {
            Workload::Puts | Workload::Overwrites => None,
            Workload::Mail => Some(MAIL_STEPS),
            Workload::Records { .. } => Some(RECORDS),
            Workload::Fileserver => Some(FILESERVER_STEPS),
            Workload::Webproxy => Some(WEBPROXY_STEPS),
        }
    }

    /// The version in which a key is removed.
    fn gone(self) -> Option<u32> {
        match self {
            Workload::Mail => Some(MAIL_GONE),
            Workload::Fileserver => Some(FILESERVER_GONE),
            _ => None,
        }
    }

    /// The number of the step after one that failed: whether it was done is not known, so nothing may build on it.
    pub fn after_failure(self, number: u64) -> u64 {
        match self.steps_of_a_key() {
            None => number + 1,
            Some(steps) => (number / steps + 1) * steps,
        }
    }

    /// Whether a client that begins again writes the same keys once more.
    pub fn is_rewritten(self) -> bool {
        self.steps_of_a_key().is_none()
    }

    /// Whether an acknowledged step has to survive. A removal need not: engines pass no sync of a folder on.
    pub fn is_promised(self, version: u32) -> bool {
        self.gone() != Some(version)
    }

    /// What a key has in a version; none where it is not there.
    pub fn content(self, key: &str, version: u32) -> Option<Vec<u8>> {
        match (self, version) {
            (_, 0) | (Workload::Mail, MAIL_GONE..) | (Workload::Fileserver, FILESERVER_GONE..) => {
                None
            }
            (Workload::Fileserver, _) => {
                let parts = (1..=version).map(|version| bytes(key, version, FILESERVER_BYTES));
                Some(parts.collect::<Vec<_>>().concat())
            }
            (Workload::Webproxy, _) => Some(bytes(key, version, WEBPROXY_BYTES)),
            (Workload::Puts, _) => Some(bytes(key, version, PUT_BYTES)),
            (Workload::Overwrites, _) => Some(bytes(key, version, OVERWRITE_BYTES)),
            (Workload::Records { .. }, _) => {
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
            (Workload::Records { .. }, _) => {
                let from = (version as usize - 1) * RECORD_BYTES;
                (from, bytes(key, version, RECORD_BYTES))
            }
            (Workload::Mail, 1) => (0, bytes(key, 1, MAIL_BYTES)),
            (Workload::Mail, 2) => (MAIL_BYTES, bytes(key, 2, MAIL_BYTES)),
            (Workload::Mail, 3) => (MAIL_PATCH_BYTES, bytes(key, 3, MAIL_PATCH_BYTES)),
            (Workload::Webproxy, _) => (0, bytes(key, version, WEBPROXY_BYTES)),
            (Workload::Fileserver, 1) => (0, bytes(key, 1, FILESERVER_BYTES)),
            (Workload::Fileserver, 2) => (FILESERVER_BYTES, bytes(key, 2, FILESERVER_BYTES)),
            (Workload::Mail | Workload::Fileserver, _) => (0, Vec::new()),
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
        let records = Workload::Records { replicas: 3 };
        let (from, last) = records.written("a", 3);
        let all = records.content("a", 3).expect("a file");
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
        let records = Workload::Records { replicas: 3 };
        let record = step(records, 203).expect("a record");
        assert_eq!((record.key.as_str(), record.version), ("c1-1", 4));
        assert_eq!(records.after_failure(203), 400);
    }

    #[test]
    fn what_is_read_is_what_was_written_before() {
        let steps = |workload: Workload, numbers: std::ops::Range<u64>| {
            let steps = numbers.filter_map(|number| workload.step(1, number, |_| 0));
            steps
                .map(|step| (step.key, step.version, step.is_read))
                .collect::<Vec<_>>()
        };
        let step = |key: &str, version, is_read| (key.to_owned(), version, is_read);
        let wanted = [
            step("c1-0", 1, false),
            step("c1-0", 2, false),
            step("c1-0", 2, true),
            step("c1-1", 1, false),
            step("c1-1", 2, false),
            step("c1-1", 2, true),
            step("c1-1", 3, false),
        ];
        assert_eq!(steps(Workload::Fileserver, 0..8), wanted);
        let (from, last) = Workload::Fileserver.written("a", 2);
        let all = Workload::Fileserver.content("a", 2).expect("a file");
        assert_eq!((from, &all[from..]), (16 << 10, &last[..]));
        assert_eq!(Workload::Fileserver.content("a", 3), None);
        let proxy = steps(Workload::Webproxy, 0..7);
        assert_eq!(proxy.iter().filter(|step| step.2).count(), 5);
        assert_eq!(
            (proxy[0].2, proxy[6].clone()),
            (false, step("c1-1", 1, false))
        );
    }
}
