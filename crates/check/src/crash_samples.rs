//! Images that a crash can leave, drawn at random.

use crate::world::{CrashCase, Image};
use forebay_pmem::shadow::Distribution;

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
        let distribution = some[rng.usize(..some.len())];
        for (member, bytes) in self.media.iter().zip(&mut image.media) {
            member.sample_from(distribution, rng, bytes);
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
