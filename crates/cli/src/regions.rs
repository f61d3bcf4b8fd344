//! Mapped regions beside a pool's members, as JSON: one place for the daemon and for commands on an idle pool.

use std::path::{Path, PathBuf};

use forebay::Pool;
use forebay_command::{Failure, Trust, json_path};
use forebay_dax::{DaxPool, ErrorKind, KeptRegion, Listed, Sealed, TrackerKind};
use forebay_pmem::PmemErrorKind;
use serde_json::{Value, json};

use crate::members;

/// What tells the regions of a pool: its members, in their order, and its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    members: Vec<PathBuf>,
    uuid: [u8; 16],
}

impl Owner {
    /// The pool that was opened by these paths.
    ///
    /// # Errors
    /// A member's path is not known, or it is no file, which regions could lie beside.
    pub fn of(pool: &Pool, given: &[PathBuf]) -> Result<Owner, Failure> {
        let members = members::of(pool, given).into_iter().map(|member| {
            member.path.ok_or_else(|| {
                Failure::Arguments(format!(
                    "nothing says where member {} of the pool is, beside which regions may lie; name its path, too",
                    member.number
                ))
            })
        });
        let members: Vec<PathBuf> = members.collect::<Result<_, _>>()?;
        Owner::new(pool.uuid(), &members)
    }

    /// The pool with these members, which is not opened.
    ///
    /// # Errors
    /// They are none, or not all of one pool's, or no files.
    pub fn beside(given: &[PathBuf], trust: Trust) -> Result<Owner, Failure> {
        let (uuid, members) = Pool::identity(given, &trust.region())?;
        Owner::new(uuid, &members)
    }

    fn new(uuid: [u8; 16], members: &[PathBuf]) -> Result<Owner, Failure> {
        let members = members.iter().map(|path| resolved(path));
        let members = members.collect::<Result<_, _>>()?;
        Ok(Owner { members, uuid })
    }

    /// What a daemon reported.
    ///
    /// # Errors
    /// It is no such report.
    pub fn from_report(report: &Value) -> Result<Owner, Failure> {
        let unreadable = || {
            Failure::Failed(format!(
                "the daemon's answer is no list of regions: {report}"
            ))
        };
        let uuid = report["pool_uuid"].as_str().and_then(bytes_of_hex);
        let members = report["members"].as_array().ok_or_else(unreadable)?;
        let members = members.iter().map(|member| {
            let path = member["path"]
                .as_str()
                .filter(|_| member["path_hex"].is_null());
            path.map(PathBuf::from).ok_or_else(unreadable)
        });
        Ok(Owner {
            members: members.collect::<Result<_, _>>()?,
            uuid: uuid.ok_or_else(unreadable)?,
        })
    }

    /// For the library of regions.
    pub fn pool(&self) -> DaxPool {
        DaxPool::new(&self.members, self.uuid)
    }

    /// Where the files of regions lie.
    pub fn directories(&self) -> Vec<PathBuf> {
        self.pool().directories().collect()
    }

    /// All regions, and what a keeper says of them.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub fn report(&self, kept: &[KeptRegion]) -> Result<Value, Failure> {
        let listed = forebay_dax::list(&self.pool()).map_err(failure)?;
        let region =
            |listed: &Listed| report_of(listed, kept.iter().find(|it| it.name == listed.name));
        let members = self
            .members
            .iter()
            .map(|path| json_path::with(json!({}), "path", path));
        Ok(json!({
            "pool_uuid": self.uuid.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
            "members": members.collect::<Vec<_>>(),
            "regions": listed.iter().map(region).collect::<Vec<_>>(),
        }))
    }
}

/// The file itself, which is none if it is a device.
fn resolved(path: &Path) -> Result<PathBuf, Failure> {
    let path = DaxPool::member_path(path).map_err(|error| Failure::Failed(error.to_string()))?;
    match std::fs::metadata(&path) {
        Ok(found) if !found.is_file() => Err(Failure::Arguments(format!(
            "{} is no file but a device, beside which no regions can lie; make the pool of files on a DAX file system",
            path.display()
        ))),
        _ => Ok(path),
    }
}

fn bytes_of_hex(text: &str) -> Option<[u8; 16]> {
    let digits = (text.len() == 32).then_some(text)?;
    Some(u128::from_str_radix(digits, 16).ok()?.to_be_bytes())
}

/// A region that lies there, as JSON. What only its keeper knows is null without one.
fn report_of(listed: &Listed, kept: Option<&KeptRegion>) -> Value {
    let paths = listed.paths.iter().map(|path| path.to_string_lossy());
    // How it stands is what its lines say: a keeper marks them before it lets a program go on, and tells of it after.
    json!({
        "name": listed.name,
        "state": listed.state.to_string(),
        "generation": listed.generation,
        "size_bytes": listed.size_bytes,
        "width": listed.width,
        "unverified_pages": listed.unverified_pages,
        "lost_pages": listed.lost_pages,
        "paths": paths.collect::<Vec<_>>(),
        "contiguous": listed.contiguous,
        "faults": listed.faults,
        "keeper": kept.map(kept_report),
    })
}

/// What a keeper says of a region.
pub fn kept_report(kept: &KeptRegion) -> Value {
    json!({
        "leased": kept.leased,
        "passes": kept.passes,
        "lease_breaks": kept.lease_breaks,
        "tracker": TrackerKind::Compare.to_string(),
        "misses": TrackerKind::Compare.misses(),
        "trouble": kept.trouble,
    })
}

/// What a seal found.
pub fn sealed_report(name: &str, sealed: &Sealed) -> Value {
    json!({
        "name": name,
        "state": "sealed",
        "generation": sealed.generation,
        "pages": sealed.pages,
        "written_pages": sealed.written_pages,
        "repaired_pages": sealed.repaired_pages,
        "unverified_pages": sealed.unverified_pages,
        "lost_pages": sealed.lost_pages,
    })
}

/// A failure of the library of regions, with its exit code and the command that helps.
pub fn failure(error: forebay_dax::Error) -> Failure {
    let message = error.to_string();
    match error.kind() {
        ErrorKind::Media(error) if matches!(error.kind(), PmemErrorKind::Foreign(_)) => {
            Failure::Damaged(message)
        }
        ErrorKind::Lost { .. } => Failure::Damaged(format!(
            "{message} (forebay dax rebuild --accept-loss does that)"
        )),
        ErrorKind::Missing { .. }
        | ErrorKind::Refused { .. }
        | ErrorKind::TwoHistories { .. }
        | ErrorKind::Damaged { .. } => Failure::Damaged(message),
        ErrorKind::InUse { .. } | ErrorKind::Mapped { .. } => Failure::InUse(message),
        ErrorKind::Invalid { .. } | ErrorKind::NotFound { .. } => Failure::Arguments(message),
        _ => Failure::Failed(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_comes_back_from_its_report() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let owner = Owner {
            members: vec![folder.join("pool"), folder.join("other")],
            uuid: *b"\x00123456789abcde\xff",
        };
        let report = owner.report(&[]).unwrap();
        assert_eq!(report["regions"].as_array().map(Vec::len), Some(0));
        assert_eq!(Owner::from_report(&report).unwrap(), owner);
        Owner::from_report(&json!({"members": []})).unwrap_err();
        assert_eq!(owner.directories()[0], folder.join("pool.dax"));
    }

    #[test]
    fn a_member_is_the_same_by_every_name_and_no_device() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::write(folder.join("pool"), b"").unwrap();
        std::os::unix::fs::symlink("pool", folder.join("link")).unwrap();
        assert_eq!(resolved(&folder.join("link")).unwrap(), folder.join("pool"));
        assert_eq!(resolved(&folder.join("gone")).unwrap(), folder.join("gone"));
        resolved(Path::new("/dev/null")).unwrap_err();
    }
}
