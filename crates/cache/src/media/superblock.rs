//! Superblocks: written once, checked at every open. What does not fit is refused, never reformatted.

use std::ops::Range;

use forebay_pmem::{PmemError, Region};

use crate::error::{Error, ErrorKind, Result, refused};
use crate::media::geometry::Geometry;
use crate::media::incarnation;
use crate::media::layout::{
    FLAG_MIRROR, FLAG_NO_CHECKSUMS, FLAG_ROWS, FLAG_SEALED, FLAG_STRICT, FLAG_TEST, FLAGS_KNOWN,
    FORMAT_VERSION, MAGIC, SUPERBLOCK_BYTES, Superblock,
};
use crate::media::membership::{self, Absences, Candidate, Membership};
use crate::media::mend;
use crate::media::roster::{Roster, identity_of};
use crate::media::start::MirrorStart;
use crate::options::FormatOptions;
use crate::repeatable;

/// Streamed at once when a new member is cleared.
const CLEAR_BYTES: u64 = 1 << 16;

/// A member's superblock that passed every check, with the member's incarnation.
struct Member {
    region: Region,
    superblock: Superblock,
}

/// Members that belong together, in order, and what their superblocks say.
pub(crate) struct Assembly {
    pub(crate) regions: Vec<Region>,
    pub(crate) mirror: Option<MirrorStart>,
    pub(crate) geometry: Geometry,
    pub(crate) pool_uuid: [u8; 16],
    pub(crate) strict: bool,
    pub(crate) checksums: bool,
}

/// Whether a region starts with something that is not ours to overwrite.
pub(crate) fn is_blank(region: &Region) -> bool {
    let mut raw = [0; SUPERBLOCK_BYTES];
    if region.len() < raw.len() as u64 {
        return true;
    }
    region.read(0, &mut raw);
    raw.iter().all(|byte| *byte == 0)
}

/// Whether a region is a member of a pool, by how it starts; the rest may be damaged.
#[must_use]
pub fn holds_pool(region: &Region) -> bool {
    let mut start = [0; MAGIC.len()];
    region.len() >= start.len() as u64 && {
        region.read(0, &mut start);
        start == MAGIC
    }
}

/// Writes the superblocks of a new pool, and the rosters of a mirrored one; durable with the next fence.
pub(crate) fn format(
    regions: &[Region],
    geometry: &Geometry,
    options: &FormatOptions,
) -> Result<([u8; 16], Option<MirrorStart>)> {
    let pool_uuid = repeatable::fresh_uuid()?;
    let strict = if options.strict || !options.checksums {
        FLAG_STRICT
    } else {
        0
    };
    let no_checksums = if options.checksums {
        0
    } else {
        FLAG_NO_CHECKSUMS
    };
    let test = if options.test { FLAG_TEST } else { 0 };
    let mirror = if geometry.is_mirrored { FLAG_MIRROR } else { 0 };
    let sealed = if geometry.has_lone_seals {
        FLAG_SEALED
    } else {
        0
    };
    let rows = if geometry.has_rows { FLAG_ROWS } else { 0 };
    let mut identities = Vec::new();
    for (member, region) in regions.iter().enumerate() {
        let member_uuid = repeatable::fresh_uuid()?;
        identities.push(identity_of(&member_uuid));
        let superblock = Superblock {
            magic: MAGIC,
            version: FORMAT_VERSION,
            member: member as u32,
            members: geometry.members,
            flags: strict | no_checksums | test | mirror | sealed | rows,
            pool_uuid,
            member_uuid,
            member_bytes: geometry.member_bytes,
            lane_bytes: geometry.lane_bytes,
            block_bytes: geometry.block_bytes,
            unit_bytes: geometry.unit_bytes,
            volumes: geometry.volumes,
            lanes: geometry.lanes,
            entries: geometry.entries,
            slots_per_member: geometry.slots_per_member,
            reserved: [0; 156],
            crc: 0,
        };
        region.store(0, &superblock.encode());
        region.flush(0, SUPERBLOCK_BYTES);
    }
    if !geometry.is_mirrored {
        return Ok((pool_uuid, None));
    }
    let roster = Roster::of_new(identities);
    for region in regions {
        roster.store(region, geometry, pool_uuid);
    }
    let mirror = MirrorStart {
        numbers: (0..geometry.members).collect(),
        roster,
        pool_uuid,
        is_changed: false,
        witness: None,
        is_witness_lagging: false,
        left_out: None,
    };
    Ok((pool_uuid, Some(mirror)))
}

/// The superblock of a member that joins the pool that `like` is a member of, under this number; with its identity.
pub(crate) fn joining(like: &Region, number: u32) -> Result<([u8; SUPERBLOCK_BYTES], u64)> {
    let superblock = read_superblock(like).map_err(|error| lost_rather([like], error))?;
    let member_uuid = repeatable::fresh_uuid()?;
    let superblock = Superblock {
        member: number,
        member_uuid,
        ..superblock
    };
    Ok((superblock.encode(), identity_of(&member_uuid)))
}

/// Makes a region start with this superblock and hold nothing else up to `end`. A crash leaves it without the magic
/// bytes, as [`is_unmade`] tells, or with all of it.
pub(crate) fn make_member(
    region: &Region,
    superblock: &[u8; SUPERBLOCK_BYTES],
    end: u64,
) -> std::result::Result<(), PmemError> {
    region.store_u64(0, 0);
    region.flush(0, MAGIC.len());
    // Orders the end of what was there before half of it is gone.
    region.fence()?;
    let zeroes = vec![0; CLEAR_BYTES as usize];
    for offset in (0..end).step_by(CLEAR_BYTES as usize) {
        let len = CLEAR_BYTES.min(end - offset);
        region.stream(offset, &zeroes[..len as usize]);
    }
    let (magic, rest) = superblock
        .split_first_chunk()
        .expect("a superblock has more than eight bytes");
    region.store(MAGIC.len() as u64, rest);
    region.flush(0, SUPERBLOCK_BYTES);
    // Orders all of the superblock, and the zeroes, before what makes a member of it.
    region.fence()?;
    region.store_u64(0, u64::from_le_bytes(*magic));
    region.flush(0, MAGIC.len());
    // Orders the superblock before the roster that calls the member by its name.
    region.fence()
}

/// Whether a crash met the making of a member.
fn is_unmade(region: &Region) -> bool {
    region.len() >= SUPERBLOCK_BYTES as u64
        && region.load_u64(0) == 0
        && !region.has_media_error(0, SUPERBLOCK_BYTES)
}

/// Whether a region holds the member of that pool with this number, or what a crash left of the making of one: nothing
/// up to the slots, or all of its superblock but the magic bytes.
pub(crate) fn is_member(
    region: &Region,
    pool_uuid: &[u8; 16],
    number: u32,
    geometry: &Geometry,
) -> bool {
    let is_it = |own: &Superblock| own.pool_uuid == *pool_uuid && own.member == number;
    if read_superblock(region).is_ok_and(|own| is_it(&own)) {
        return true;
    }
    if region.len() != geometry.member_bytes || !is_unmade(region) {
        return false;
    }
    if is_blank(region) {
        return is_zero(region, SUPERBLOCK_BYTES as u64..geometry.slot_area);
    }
    let mut raw = [0; SUPERBLOCK_BYTES];
    region.read(0, &mut raw);
    raw[..MAGIC.len()].copy_from_slice(&MAGIC);
    Superblock::decode(&raw).is_some_and(|own| is_it(&own))
}

fn is_zero(region: &Region, bytes: Range<u64>) -> bool {
    let mut some = vec![0; CLEAR_BYTES as usize];
    let mut starts = bytes.clone().step_by(CLEAR_BYTES as usize);
    starts.all(|start| {
        let some = &mut some[..CLEAR_BYTES.min(bytes.end - start) as usize];
        region.read(start, some);
        some.iter().all(|byte| *byte == 0)
    })
}

/// That a page of the medium is lost, if one was met, which explains whatever `error` says of its zeroes.
pub(crate) fn lost_rather<'a>(
    regions: impl IntoIterator<Item = &'a Region>,
    error: Error,
) -> Error {
    let lost = regions.into_iter().find_map(Region::media_failure);
    lost.map_or(error, Error::from)
}

/// Puts members together, in whatever order they come. A mirrored pool may lack some, where the caller or the witness
/// says so those that have all, too.
pub(crate) fn assemble(regions: Vec<Region>, absences: Absences<'_>) -> Result<Assembly> {
    let (mut members, mut others) = (Vec::new(), Vec::new());
    for region in regions {
        match read_superblock(&region) {
            Ok(superblock) => members.push(Member { region, superblock }),
            Err(error) => others.push((lost_rather([&region], error), region)),
        }
    }
    let mended = take_unread(&mut members, others, absences.without_missing)?;
    members.sort_by_key(|member| member.superblock.member);
    let Some(first) = members.first() else {
        return Err(
            ErrorKind::Options("a pool has at least one member; name its files".into()).into(),
        );
    };
    let (pool_uuid, expected) = (first.superblock.pool_uuid, first.superblock.members);
    let geometry = Geometry::from_superblock(&first.superblock);
    let flags = first.superblock.flags;
    for (position, member) in members.iter().enumerate() {
        check_belongs(member, &members[0])?;
        check_number(&members, member, position)?;
        if !geometry.is_mirrored {
            check_place(member, position)?;
        }
    }
    if geometry.is_mirrored {
        return assemble_mirror(members, mended, geometry, pool_uuid, absences);
    }
    if members.len() != expected as usize {
        return Err(refused(
            members[0].region.path(),
            format!(
                "the pool has {expected} members, {} were given",
                members.len()
            ),
            "name all of its files",
        ));
    }
    let regions: Vec<Region> = members.into_iter().map(|member| member.region).collect();
    let geometry = incarnation::check_all(&regions, &geometry, &pool_uuid)
        .and_then(|()| current_sizes(&regions, &geometry, &pool_uuid))
        .map_err(|error| lost_rather(&regions, error))?;
    for superblock in &mended {
        write_again(&regions[superblock.member as usize], superblock)?;
    }
    Ok(Assembly {
        regions,
        mirror: None,
        geometry,
        pool_uuid,
        strict: flags & FLAG_STRICT != 0,
        checksums: flags & FLAG_NO_CHECKSUMS == 0,
    })
}

/// Takes what does not start as a member does: one with a flipped bit in its superblock. Beside a member of a mirror one
/// that was about to join has nothing, one whose superblock differs in a few bits from what it must be is taken for it,
/// and any other is left out where the caller says that what is missing is gone for good. Returns superblocks that are
/// to be written again.
fn take_unread(
    members: &mut Vec<Member>,
    unread: Vec<(Error, Region)>,
    without_missing: bool,
) -> Result<Vec<Superblock>> {
    let is_of_mirror = |member: &Member| member.superblock.flags & FLAG_MIRROR != 0;
    let mirrored = members.iter().position(is_of_mirror);
    let mut mended = Vec::new();
    for (error, region) in unread {
        let Some(other) = mirrored.map(|at| &members[at]) else {
            let Some(superblock) = without_flipped_bit(&region) else {
                return Err(error);
            };
            mended.push(superblock);
            members.push(Member { region, superblock });
            continue;
        };
        if is_unmade(&region) {
            continue;
        }
        let left = left_of(members);
        match mend::mended(&region, &other.region, &other.superblock, &left) {
            Some(superblock) => {
                mended.push(superblock);
                members.push(Member { region, superblock });
            }
            None => refuse_unread(error, &region, (other, &left), without_missing)?,
        }
    }
    Ok(mended)
}

/// The numbers of members of the pool that are not among these, or not yet.
fn left_of(members: &[Member]) -> Vec<u32> {
    let has = |number: &u32| (members.iter()).any(|member| member.superblock.member == *number);
    let all = members
        .first()
        .map_or(0, |member| member.superblock.members);
    (0..all).filter(|number| !has(number)).collect()
}

/// Refuses what does not start as a member does, unless the caller says that what is missing is gone for good. What was
/// served without another member is not gone for good as long as it is named.
fn refuse_unread(
    error: Error,
    region: &Region,
    (other, left): (&Member, &[u32]),
    without_missing: bool,
) -> Result<()> {
    let is_newer = mend::was_served_without(region, &other.region, &other.superblock, left);
    if without_missing && !is_newer {
        return Ok(());
    }
    let ErrorKind::Refused { found, .. } = error.kind() else {
        return Err(error);
    };
    let other = other.region.path().display();
    Err(match is_newer {
        true => refused(
            region.path(),
            format!(
                "{found}; by its roster it was served without {other}, which lacks what was written since"
            ),
            "restore its start from a copy; to lose what was written since, do not name it",
        ),
        false => refused(
            region.path(),
            format!("{found}; {other} reads right"),
            "if it is a member of that pool, open the pool without it (on the command line --without-missing), and rebuild it",
        ),
    })
}

/// Those members of a mirrored pool that have all that was acknowledged.
fn assemble_mirror(
    members: Vec<Member>,
    mended: Vec<Superblock>,
    geometry: Geometry,
    pool_uuid: [u8; 16],
    absences: Absences<'_>,
) -> Result<Assembly> {
    let flags = members[0].superblock.flags;
    let candidate = |member: Member| Candidate {
        number: member.superblock.member,
        identity: identity_of(&member.superblock.member_uuid),
        region: member.region,
    };
    let given = members.into_iter().map(candidate).collect();
    let Membership { members, start } = membership::choose(given, &geometry, &pool_uuid, absences)?;
    for superblock in &mended {
        let is_it = |member: &&Candidate| member.number == superblock.member;
        if let Some(member) = members.iter().find(is_it) {
            write_again(&member.region, superblock)?;
        }
    }
    let regions: Vec<Region> = members.into_iter().map(|member| member.region).collect();
    let sizes = current_sizes(&regions, &geometry, &pool_uuid);
    let geometry = sizes.map_err(|error| lost_rather(&regions, error))?;
    Ok(Assembly {
        regions,
        mirror: Some(start),
        geometry,
        pool_uuid,
        strict: flags & FLAG_STRICT != 0,
        checksums: flags & FLAG_NO_CHECKSUMS == 0,
    })
}

/// Writes a superblock that was damaged. Nothing rests on it: if a crash tears it, it is as damaged as it was, and known
/// again; a superblock lies in four lines, of which those that were right do not change.
fn write_again(region: &Region, superblock: &Superblock) -> Result<()> {
    region.store(0, &superblock.encode());
    region.flush(0, SUPERBLOCK_BYTES);
    // Orders it before what this opening stores: it is not damaged twice.
    Ok(region.fence()?)
}

/// The superblock of a member in which one bit is flipped.
fn without_flipped_bit(region: &Region) -> Option<Superblock> {
    let right = mend::without_flipped_bit(region)?;
    check_superblock(region, &right).ok()
}

/// What a member says of itself, if it is one.
pub(crate) fn read_superblock(region: &Region) -> Result<Superblock> {
    let path = region.path().to_path_buf();
    if region.len() < SUPERBLOCK_BYTES as u64 {
        return Err(refused(
            &path,
            format!("{} bytes, fewer than a superblock has", region.len()),
            "this is no Forebay pool; name another file or create one",
        ));
    }
    let mut raw = [0; SUPERBLOCK_BYTES];
    region.read(0, &mut raw);
    check_superblock(region, &raw)
}

/// What these bytes say, read as the superblock of a region.
fn check_superblock(region: &Region, raw: &[u8; SUPERBLOCK_BYTES]) -> Result<Superblock> {
    let path = region.path().to_path_buf();
    if raw[..8] != MAGIC {
        return Err(refused(
            &path,
            "it does not start with a Forebay superblock",
            "name a pool, or `create --force` to overwrite this file",
        ));
    }
    let version = u32::from_le_bytes([raw[8], raw[9], raw[10], raw[11]]);
    if version != FORMAT_VERSION {
        return Err(refused(
            &path,
            format!("media format {version}; this program knows format {FORMAT_VERSION}"),
            "open it with the release that wrote it",
        ));
    }
    let Some(superblock) = Superblock::decode(raw) else {
        return Err(refused(
            &path,
            "the superblock's checksum does not match",
            "the file is damaged; restore it from a copy",
        ));
    };
    let geometry = Geometry::from_superblock(&superblock);
    if let Err(error) = geometry.check() {
        return Err(refused(
            &path,
            format!("the superblock is impossible: {error}"),
            "the file is damaged; restore it from a copy",
        ));
    }
    if superblock.flags & !FLAGS_KNOWN != 0 {
        return Err(refused(
            &path,
            format!("unknown features {:#x}", superblock.flags & !FLAGS_KNOWN),
            "open it with the release that wrote it",
        ));
    }
    let has = |flags| superblock.flags & flags == flags;
    let impossible = [
        (
            FLAG_MIRROR | FLAG_NO_CHECKSUMS,
            "a mirror without checksums",
        ),
        (FLAG_SEALED | FLAG_NO_CHECKSUMS, "seals without checksums"),
        (FLAG_SEALED | FLAG_MIRROR, "a mirror, and seals of one copy"),
    ];
    if let Some((_, what)) = impossible.iter().find(|(flags, _)| has(*flags)) {
        return Err(refused(
            &path,
            format!("the superblock is impossible: {what}"),
            "the file is damaged; restore it from a copy",
        ));
    }
    check_length(region, superblock.member_bytes)?;
    Ok(superblock)
}

fn check_belongs(member: &Member, first: &Member) -> Result<()> {
    let path = member.region.path();
    let (own, pool) = (&member.superblock, &first.superblock);
    if own.pool_uuid != pool.pool_uuid {
        return Err(refused(
            path,
            format!(
                "it belongs to another pool than {}",
                first.region.path().display()
            ),
            "name the members of one pool only",
        ));
    }
    if Geometry::from_superblock(own) != Geometry::from_superblock(pool) || own.flags != pool.flags
    {
        return Err(refused(
            path,
            "its geometry differs from the first member's",
            "the file is damaged; restore it from a copy",
        ));
    }
    Ok(())
}

/// Members are sorted by number; none may be there twice.
fn check_number(members: &[Member], member: &Member, position: usize) -> Result<()> {
    let path = member.region.path();
    let Superblock {
        member: number,
        members: count,
        ..
    } = member.superblock;
    if number >= count {
        return Err(refused(
            path,
            format!("it says that it is member {number} of {count}, counted from 0"),
            "the file is damaged; restore it from a copy",
        ));
    }
    let duplicate = members[..position]
        .iter()
        .find(|other| other.superblock.member == number);
    if let Some(duplicate) = duplicate {
        return Err(refused(
            path,
            format!(
                "it is member {number} of the pool, and so is {}",
                duplicate.region.path().display()
            ),
            "name every member once",
        ));
    }
    Ok(())
}

/// Each number must be there.
fn check_place(member: &Member, position: usize) -> Result<()> {
    let Superblock {
        member: number,
        members: count,
        ..
    } = member.superblock;
    if number as usize == position {
        return Ok(());
    }
    Err(refused(
        member.region.path(),
        format!("it is member {number} of {count}; member {position} is missing"),
        "name every member of the pool",
    ))
}

/// The plan of the current incarnation: the superblock's, or a larger one if the pool has grown.
fn current_sizes(regions: &[Region], made: &Geometry, pool_uuid: &[u8; 16]) -> Result<Geometry> {
    let Some(incarnation) = incarnation::read(&regions[0], made, pool_uuid) else {
        // Recovery says what is wrong with it.
        return Ok(*made);
    };
    let geometry = made.with_sizes(incarnation.sizes);
    if let Err(error) = geometry.check() {
        return Err(refused(
            regions[0].path(),
            format!("its incarnation line is impossible: {error}"),
            "the file is damaged; restore it from a copy",
        ));
    }
    for region in regions {
        check_length(region, geometry.member_bytes)?;
    }
    Ok(geometry)
}

fn check_length(region: &Region, member_bytes: u64) -> Result<()> {
    if region.len() >= member_bytes {
        return Ok(());
    }
    Err(refused(
        region.path(),
        format!(
            "{} bytes of the pool's {member_bytes}: truncated",
            region.len()
        ),
        "restore the whole file from a copy",
    ))
}
