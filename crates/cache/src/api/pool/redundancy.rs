//! Members of a mirrored pool: how they stand, and what takes them out and brings them back.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use forebay_pmem::Region;

use super::MemoryPool;
use super::members::new_region;
use super::pace::Pace;
use crate::engine::{RebuildProgress, RebuildWatcher};
use crate::error::{ErrorKind, Result, refused};
use crate::media::superblock;

/// A member of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Member {
    /// Its number, from 0.
    pub number: u32,
    /// Where it is; `None` if it is out and was not given.
    pub path: Option<PathBuf>,
    /// How it stands.
    pub state: MemberState,
}

/// How a member of a pool stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MemberState {
    /// It has all that was acknowledged, of a mirror; or its share of it.
    In,
    /// It is sent everything, and does not have all of it yet.
    Rebuilding,
    /// The pool goes on without it.
    Out,
}

/// The witness of a mirror.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Witness {
    /// The file.
    pub path: PathBuf,
    /// Whether it is there. Without it a member's death ends all writes.
    pub is_there: bool,
}

/// How a member is rebuilt. Each setter takes the options and returns them changed.
///
/// ```
/// let options = forebay::RebuildOptions::default().rate_bytes_s(Some(200 << 20));
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RebuildOptions {
    rate_bytes_s: Option<u64>,
    force: bool,
}

impl RebuildOptions {
    /// Bytes of blocks that are copied a second at most; as fast as it goes by default.
    #[must_use]
    pub fn rate_bytes_s(mut self, rate_bytes_s: Option<u64>) -> RebuildOptions {
        self.rate_bytes_s = rate_bytes_s;
        self
    }
    pub(crate) fn forces(&self) -> bool {
        self.force
    }
    /// Overwrites whatever is at the path.
    #[must_use]
    pub fn force(mut self, force: bool) -> RebuildOptions {
        self.force = force;
        self
    }
}

impl MemoryPool {
    /// The members, by number.
    pub fn members(&self) -> Vec<Member> {
        let media = self.pipeline().media();
        let state = |number| match media.standing(number) {
            (_, true) => MemberState::In,
            (true, false) => MemberState::Rebuilding,
            (false, false) => MemberState::Out,
        };
        let members = 0..media.geometry.members;
        members
            .map(|number| Member {
                number,
                path: media.member_path(number),
                state: state(number),
            })
            .collect()
    }

    /// Takes a member of a mirrored pool out, as if it had failed. When this returns, all members that are left say so,
    /// durably: the pool goes on with one copy of what had a half there, and opens without the member that is out. One
    /// that is out already stays so.
    ///
    /// # Errors
    /// [`ErrorKind::Options`]: no mirror, no such member, or another one is out or being rebuilt.
    /// [`ErrorKind::Media`]: a fence failed, and the pool takes no more writes.
    pub fn fail_member(&self, number: u32) -> Result<()> {
        self.pipeline().engine().take_out(number)
    }

    /// The witness of a mirrored pool, if it has one.
    pub fn witness(&self) -> Option<Witness> {
        let found = self.pipeline().media().witness();
        found.map(|(path, is_there)| Witness { path, is_there })
    }

    /// Gives a mirrored pool a witness, a new file at `path`, or with `None` takes away the one that it has, also if
    /// that is not there. Both members are in. When this returns both say so, durably.
    ///
    /// A witness is a third vote: each change of which members count is durable there first. So after a power cut a
    /// member opens without the other one if the witness has seen none go on alone. While it cannot be written no member is
    /// taken out: a death then ends all writes.
    ///
    /// # Errors
    /// [`ErrorKind::Options`]: no mirror of two members that are in, it has a witness already, or `path` is on the device
    /// of a member. [`ErrorKind::Refused`]: the file is there already, or cannot be written.
    /// [`ErrorKind::Media`]: a fence failed, and the pool takes no more writes.
    pub fn set_witness(&self, path: Option<&Path>) -> Result<()> {
        self.pipeline().engine().set_witness(path, self.pool_uuid)
    }

    /// Rebuilds member `number` of a mirrored pool, which is out, on the file or device `path`, while the pool is
    /// used. When this returns it is in: all members but any one are enough again.
    ///
    /// A file that is not there is made. One that was the member before is overwritten, and what a crash left of the making of
    /// one; another one only with [`RebuildOptions::force`]. `watcher` is told how far it is, and may end it. After an error, a crash, or a
    /// pool that was closed meanwhile the member is out as before.
    ///
    /// # Errors
    /// [`ErrorKind::Options`]: no mirror, no such member, it is not out, or `watcher` ended it.
    /// [`ErrorKind::Refused`]: what is at `path` is not to be overwritten, in use, or too small.
    /// [`ErrorKind::Media`]: the file cannot be made or mapped, or a fence failed; if one of a member that was left
    /// failed, the pool takes no more writes.
    pub fn replace_member(
        &self,
        number: u32,
        path: &Path,
        options: &RebuildOptions,
        watcher: &mut RebuildWatcher<'_>,
    ) -> Result<()> {
        let media = self.pipeline().media();
        if !media.is_out(number)? {
            return Err(in_use(number));
        }
        // Its file may be the one to be overwritten, and is locked as long as it is mapped.
        media.retire_gone(number)?;
        let region_options = &self.pipeline().options().region;
        let len = media.geometry.member_bytes;
        // Whatever is there is overwritten with force, also what is no region.
        let is_free = options.force || (path.exists() && self.was_member(path, number)?);
        let region = new_region(path, len, is_free, region_options)?;
        let (mut pace, mut done_bytes) = (Pace::new(options.rate_bytes_s), 0);
        self.replace_member_on(number, region, &mut |progress: RebuildProgress| {
            // A pass over what could not be copied in the first one counts from 0 again.
            pace.note(progress.done_bytes.saturating_sub(done_bytes));
            done_bytes = progress.done_bytes;
            watcher(progress)?;
            while !pace.is_due() {
                watcher(progress)?;
            }
            ControlFlow::Continue(())
        })
    }

    /// As `replace_member`, as fast as it goes, over a region that is mapped already, whatever it holds.
    ///
    /// # Errors
    /// As [`MemoryPool::replace_member`].
    pub fn replace_member_on(
        &self,
        number: u32,
        region: Region,
        watcher: &mut RebuildWatcher<'_>,
    ) -> Result<()> {
        let media = self.pipeline().media();
        if !media.is_out(number)? {
            return Err(in_use(number));
        }
        let wanted = media.geometry.member_bytes;
        if region.len() < wanted {
            return Err(refused(
                region.path(),
                format!("{} bytes; a member of this pool has {wanted}", region.len()),
                "name a larger device",
            ));
        }
        if region.domain() != media.main().domain() {
            return Err(refused(
                region.path(),
                "the medium makes stores durable in another way than that of the other member",
                "name a file or device of the same kind",
            ));
        }
        self.pipeline().engine().rebuild(number, region, watcher)
    }

    /// Whether what is at `path` was that member of this pool, or was to be.
    fn was_member(&self, path: &Path, number: u32) -> Result<bool> {
        let region = Region::open(path, &self.pipeline().options().region)?;
        let media = self.pipeline().media();
        let is_member = superblock::is_member(&region, &self.pool_uuid, number, &media.geometry);
        Ok(is_member && !media.was_served_without_us(&region, number))
    }
}

fn in_use(number: u32) -> crate::error::Error {
    ErrorKind::Options(format!(
        "member {number} is in use; take it out first if it is to be replaced"
    ))
    .into()
}
