//! What a crash leaves of members and backings: a moment, the images drawn from it at random, and the media and
//! disks in which the next process finds one.

use crate::scenario::Shape;
use forebay_pmem::shadow::{CrashState, Distribution, Shadow};
use forebay_pmem::{PAGE_BYTES, Region};
use forebay_volatile::{DiskState, VolatileDisk};
use std::sync::Arc;

/// Bytes of the members and of the backings after a crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Member by member.
    pub media: Vec<Vec<u8>>,
    /// Volume by volume.
    pub stores: Vec<Vec<u8>>,
    /// The mark of each, empty for none; fewer where there are no more.
    pub marks: Vec<Vec<u8>>,
    /// Member by member the offsets of pages that it lost; fewer where there are no more.
    pub lost: Vec<Vec<u64>>,
    /// A member of a mirror that counts is gone for good, and something else is in its place.
    pub is_replaced: bool,
}

/// How a member of a mirror stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has all that was acknowledged.
    In,
    /// It may lack some of it, and need not know.
    Out,
    /// It was blank, and was not called in yet: alone it is refused, or has everything.
    New,
}

/// What is found of a mirror of which a member failed.
pub struct Gone {
    /// What is found.
    pub image: Image,
    /// What happened, in words.
    pub what: String,
    /// The member that failed.
    pub member: usize,
    /// It is not there; else an old copy of it is.
    pub is_dead: bool,
    /// The others may not be enough: one of them is being rebuilt, or of several one is out.
    pub may_be_refused: bool,
}

/// A moment at which the power may fail.
pub struct CrashCase {
    /// What each member may hold.
    pub media: Vec<CrashState>,
    /// What each backing may hold.
    pub stores: Vec<DiskState>,
    /// Entries of the history before this moment.
    pub events: usize,
    /// What was about to happen.
    pub moment: String,
    /// The pool had been made. Before that, recovery may refuse what it finds.
    pub is_made: bool,
    /// The offsets of pages that each member has lost.
    pub lost: Vec<Vec<u64>>,
    /// A process had been killed since the power failed last.
    pub is_killed: bool,
    /// A member had done something wrong.
    pub is_harmed: bool,
    /// The members hold the same.
    pub are_mirrored: bool,
    /// A member was being rebuilt.
    pub is_rebuilding: bool,
    /// A pool was being scrubbed.
    pub is_scrubbing: bool,
    /// A pool was being opened.
    pub is_opening: bool,
    /// Members that were rebuilt, or began to be, since the incarnation began.
    pub rebuilt: Vec<usize>,
    /// How each member stands.
    pub standings: Vec<Standing>,
}

impl Image {
    /// Of a mirror, what else may be found: all members but each one, that one dead, and with that one as it was
    /// in `old`. Not one alone that is out: it may lack what was acknowledged, and need not know.
    pub fn with_a_member_gone(
        &self,
        shape: &Shape,
        old: &Image,
        (standings, rebuilt): (&[Standing], &[usize]),
    ) -> Vec<Gone> {
        let mut variants = Vec::new();
        let members = self.media.len();
        if !shape.mirrored || self.has_lost_pages() || members != shape.members {
            return variants;
        }
        for gone in 0..members {
            let mut left = (0..members).filter(|member| *member != gone);
            let are_all_in = left.clone().all(|member| standings[member] == Standing::In);
            // Several know of one that is out; one alone need not know that of itself.
            if members == 2 && left.any(|member| standings[member] == Standing::Out) {
                continue;
            }
            let mut image = self.clone();
            image.media.remove(gone);
            variants.push(Gone {
                image,
                what: format!("member {gone} is dead"),
                member: gone,
                is_dead: true,
                may_be_refused: !are_all_in,
            });
            if let (Some(before), true) = (old.media.get(gone), are_all_in) {
                let mut image = self.clone();
                image.media[gone].clone_from(before);
                image.is_replaced = rebuilt.contains(&gone);
                variants.push(Gone {
                    image,
                    what: format!("member {gone} is an old copy"),
                    member: gone,
                    is_dead: false,
                    may_be_refused: false,
                });
            }
        }
        variants
    }

    /// Whether pages of it are lost.
    pub fn has_lost_pages(&self) -> bool {
        self.lost.iter().any(|pages| !pages.is_empty())
    }

    /// These pages of each member are lost.
    pub fn lose(&mut self, lost: Vec<Vec<u64>>) {
        for (bytes, pages) in self.media.iter_mut().zip(&lost) {
            for page in pages {
                let start = *page as usize;
                let end = (start + PAGE_BYTES).min(bytes.len());
                bytes[start..end].fill(0);
            }
        }
        self.lost = lost;
    }

    /// The members as a process finds them after the crash.
    pub fn shadows(&self, shape: &Shape) -> Vec<Arc<Shadow>> {
        let members = self.media.iter().enumerate().map(|(member, bytes)| {
            let shadow = Shadow::from_image(bytes, shape.model());
            let lost = self.lost.get(member).into_iter().flatten();
            lost.for_each(|page| shadow.lose_page(*page));
            Arc::new(shadow)
        });
        members.collect()
    }

    /// The stores, as a process finds them after the crash.
    pub fn crash_stores(&self, shape: &Shape, seed: u64) -> Vec<Arc<VolatileDisk>> {
        let stores = self.stores.iter().zip(0..).map(|(bytes, volume)| {
            let name = format!("volume-{volume}");
            let seed = seed.wrapping_add(volume);
            let mark = self.marks.get(volume as usize).cloned().unwrap_or_default();
            let disk = VolatileDisk::new(&name, bytes, shape.sector_bytes());
            let disk = disk.with_seed(seed).with_mark(mark);
            Arc::new(match shape.long_rounds {
                true => disk.preferring_long_rounds(),
                false => disk,
            })
        });
        stores.collect()
    }
}

/// The members, for a pool.
pub fn regions(shadows: &[Arc<Shadow>]) -> Vec<Region> {
    let shadows = shadows.iter();
    let regions = shadows.map(|shadow| Region::on_shadow(Arc::clone(shadow)));
    regions.collect()
}

impl CrashCase {
    /// Any of them.
    pub fn sample(&self, rng: &mut fastrand::Rng, image: &mut Image) {
        self.sample_from(&Distribution::ALL, rng, image);
    }

    /// As `sample`; something that was being stored is mostly torn.
    pub fn tear(&self, rng: &mut fastrand::Rng, image: &mut Image) {
        let some = [
            Distribution::UnitTorn,
            Distribution::Subset,
            Distribution::Everything,
        ];
        self.sample_from(&some, rng, image);
    }

    /// As `tear`; one line that was being stored is torn, unless chance has it whole or as it was again
    /// and again.
    pub fn tear_one(&self, rng: &mut fastrand::Rng, image: &mut Image) {
        let [nothing, everything] = [Distribution::Nothing, Distribution::Everything].map(|all| {
            let mut image = Image::default();
            self.sample_from(&[all], rng, &mut image);
            image.media
        });
        for _ in 0..16 {
            self.sample_from(&[Distribution::UnitTorn], rng, image);
            if image.media != nothing && image.media != everything {
                break;
            }
        }
    }

    /// One of these kinds.
    pub fn sample_from(&self, some: &[Distribution], rng: &mut fastrand::Rng, image: &mut Image) {
        image.media.resize(self.media.len(), Vec::new());
        let mut distribution = some[rng.usize(..some.len())];
        for (member, bytes) in self.media.iter().zip(&mut image.media) {
            member.sample_from(distribution, rng, bytes);
            if self.are_mirrored {
                // One may have all and the other one nothing.
                distribution = some[rng.usize(..some.len())];
            }
        }
        self.sample_stores(rng, image);
        image.lose(self.lost.clone());
    }

    /// The same of the backings and their marks.
    pub fn sample_stores(&self, rng: &mut fastrand::Rng, image: &mut Image) {
        let stores = self.stores.iter();
        image.stores = stores.map(|store| store.sample_bytes(rng)).collect();
        image.marks.clear();
        let marks = self.stores.iter().map(|store| store.mark.sample(rng));
        image.marks.extend(marks);
    }
}
