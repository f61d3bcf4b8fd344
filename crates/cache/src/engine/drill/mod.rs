//! Drills: one member of a pool that was made for tests does something wrong, while the pool is served.
//!
//! What a drill does to a medium is the bytes that stand there afterwards: it stores them, on that one member alone, while
//! whatever else writes the place is held off; so the pool meets what it would meet on a medium that flipped a bit, or
//! lost a write behind a good fence. A page that fails raises the system's own signal (`Region::fail_page`). Nothing of
//! this is on the way of a commit or of a read.

mod choice;
mod kinds;
mod write;

use forebay_pmem::Region;

use super::Engine;
use crate::error::Result;
use crate::media::areas::MediumArea;
use crate::media::entry::Key;
use crate::repeatable;
use crate::table::CopiedFrom;
use choice::{Dice, Place};
use kinds::refused;
use write::ArmedWrite;

pub use kinds::{Drill, DrillKind, DrillStrike};

/// How long loads get what is elsewhere.
const MISREAD_MS: u64 = 100;

/// How a drill goes on.
pub(crate) enum DrillBegun {
    /// It is done.
    Struck(DrillStrike),
    /// It strikes the next write.
    Armed(Box<ArmedWrite>),
}

impl Engine {
    /// Does what a drill says, or waits for a write to do it to.
    ///
    /// # Errors
    /// [`ErrorKind::Options`]: there is no such member, or nothing there to break. The pool takes no more writes.
    pub(crate) fn begin_drill(&self, drill: &Drill) -> Result<DrillBegun> {
        drill.check()?;
        self.check_writable()?;
        let seed = match drill.seed {
            Some(seed) => seed,
            None => u64::from_le_bytes(first_half(repeatable::fresh_uuid()?)),
        };
        let mut dice = Dice::new(seed);
        let member = self.drilled_member(drill)?;
        let Some(region) = self.media().member_at(member) else {
            return refused(format!("member {member} is not there"));
        };
        let struck = match drill.kind {
            DrillKind::DeadMember => {
                region.poison();
                Place::of_all(region).struck(member)
            }
            DrillKind::BitFlip => self.flip_bit_of(drill, member, region, &mut dice)?,
            DrillKind::Poison => {
                let place = self.choose_place(drill, member, region, &mut dice)?;
                region.fail_page(place.offset)?;
                place.struck(member)
            }
            DrillKind::MisdirectedRead => self.misread(drill, member, &mut dice)?,
            DrillKind::LostWrite | DrillKind::MisdirectedWrite | DrillKind::TornLine => {
                let armed = self.arm_write(drill, member, region, seed, dice)?;
                return Ok(DrillBegun::Armed(Box::new(armed)));
            }
        };
        Ok(DrillBegun::Struck(DrillStrike { seed, ..struck }))
    }

    /// The member that a drill is about, which is stored to.
    fn drilled_member(&self, drill: &Drill) -> Result<u32> {
        let media = self.media();
        let members = media.geometry.members;
        let of_block = || {
            let (volume, block) = drill.block?;
            let slot = self.cached(Key::new(volume, block))?.slot()?;
            let first = media.slot(slot).0;
            (0..members).find(|number| {
                let own = media.half_on(slot, *number);
                own.is_some_and(|(region, _)| std::ptr::eq(region, first))
            })
        };
        let first = || (0..members).find(|number| media.standing(*number).0);
        let number = drill.member.or_else(of_block).or_else(first).unwrap_or(0);
        if number >= members {
            return refused(format!(
                "the pool has no member {number}; it has {members}, counted from 0"
            ));
        }
        if !media.standing(number).0 {
            return refused(format!("member {number} is out"));
        }
        if number > 0 && !media.is_mirrored() && drill.area != MediumArea::Slots {
            return refused("of a pool that is no mirror the first member alone has that part");
        }
        Ok(number)
    }

    fn flip_bit_of(
        &self,
        drill: &Drill,
        member: u32,
        region: &Region,
        dice: &mut Dice,
    ) -> Result<DrillStrike> {
        let bit = dice.below(8) as u8;
        let flip = |offset: u64| {
            let mut byte = [0];
            region.read(offset, &mut byte);
            region.store(offset, &[byte[0] ^ 1 << bit]);
            region.flush(offset, 1);
        };
        let place = match drill.area {
            MediumArea::Slots => {
                let key = self.choose_key(drill, member, dice)?;
                let flipped = self.with_half(key, member, |entry, region, base| {
                    let offset = base + dice.below(self.bytes_that_count(entry, region, base));
                    flip(offset);
                    Place::of_block(key, offset, 1)
                });
                match flipped {
                    Some(place) => place,
                    None => return refused("the block left the pool meanwhile; try again"),
                }
            }
            _ => {
                let held = self.hold_writers(drill.area);
                let place = self.choose_line(&held, drill.area, member, region, dice)?;
                let offset = place.offset + dice.below(place.bytes);
                flip(offset);
                Place {
                    offset,
                    bytes: 1,
                    ..place
                }
            }
        };
        region.fence()?;
        Ok(DrillStrike {
            bit: Some(bit),
            ..place.struck(member)
        })
    }

    /// Has loads of a block get another one for a moment, the first of them this thread's. The key's lock is held as
    /// long, so that nothing is stored there that would be undone.
    fn misread(&self, drill: &Drill, member: u32, dice: &mut Dice) -> Result<DrillStrike> {
        let key = self.choose_key(drill, member, dice)?;
        let Some((other, wrong)) = self.another_half(key, member, dice) else {
            return refused(format!("member {member} has no other block"));
        };
        let misread = self.with_half(key, member, |entry, region, base| {
            let (mut right, mut out) = (vec![0; wrong.len()], vec![0; wrong.len()]);
            region.read(base, &mut right);
            region.store(base, &wrong);
            if self.table().copy_out(entry, true, &mut out) == CopiedFrom::Other {
                self.suspects.push(entry);
            }
            std::thread::sleep(std::time::Duration::from_millis(MISREAD_MS));
            region.store(base, &right);
            region.flush(base, right.len());
            // Orders what is right before what the next holder of the lock makes of it.
            region.fence().map(|()| DrillStrike {
                other_offset: Some(other),
                ..Place::of_block(key, base, right.len() as u64).struck(member)
            })
        });
        match misread {
            Some(struck) => Ok(struck?),
            None => refused("the block left the pool meanwhile; try again"),
        }
    }
}

fn first_half(uuid: [u8; 16]) -> [u8; 8] {
    let (half, _) = uuid.split_at(8);
    half.try_into().expect("eight bytes")
}
