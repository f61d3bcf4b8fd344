//! A small region of three extents and a parity over models, of a design.

use std::sync::Arc;

use forebay_pmem::Region;
use forebay_pmem::shadow::{Distribution, Shadow, ShadowModel};

use crate::txb::{Design, Heap, Map, MapKind, Media, Table};

/// Bytes of a unit: four pages.
pub const UNIT: u64 = 16 << 10;
pub const WIDTH: usize = 3;
/// Of each extent: the log's, and those of objects.
const UNITS: u64 = 4;
pub const INLINE: [Design; 2] = [Design::TxbObject, Design::TxbPage];

/// What the files hold: the extents, the parity, the sums.
pub type Image = Vec<Vec<u8>>;

/// The models of the files.
pub struct Disks(pub Vec<Arc<Shadow>>);

impl Disks {
    pub fn blank() -> Disks {
        let extent = vec![0; (UNITS * UNIT) as usize];
        let sums = vec![0; Media::sums_bytes(UNITS * UNIT * WIDTH as u64) as usize];
        let mut image = vec![extent; WIDTH + 1];
        image.push(sums);
        Disks::of(&image)
    }

    pub fn of(image: &Image) -> Disks {
        let shadow = |bytes: &Vec<u8>| Arc::new(Shadow::from_image(bytes, ShadowModel::Lines));
        Disks(image.iter().map(shadow).collect())
    }

    pub fn media(&self, design: Design) -> Media {
        let regions = self.0.iter();
        let mut regions = regions.map(|shadow| Region::on_shadow(Arc::clone(shadow)));
        let extents = regions.by_ref().take(WIDTH).collect();
        let mut next = || regions.next().expect("parity and sums");
        match design {
            Design::None => Media::bare(extents, UNIT),
            Design::TxbObject => Media::with_object_sums(extents, next(), UNIT),
            Design::TxbPage => Media::with_page_sums(extents, [next(), next()], UNIT),
            Design::Async => panic!("a region of the library's is no model"),
        }
    }

    /// What the files hold once everything is durable.
    pub fn settled(&self) -> Image {
        let states = self.0.iter().map(|shadow| shadow.crash_state());
        states
            .map(|state| {
                assert_eq!(state.pending_units(), 0, "everything is durable");
                state.durable().to_vec()
            })
            .collect()
    }

    /// What a kill leaves: all that was stored, durable or not.
    pub fn everything(&self) -> Image {
        let rng = &mut fastrand::Rng::with_seed(1);
        let mut image = Image::new();
        for shadow in &self.0 {
            let mut bytes = Vec::new();
            let state = shadow.crash_state();
            state.sample_from(Distribution::Everything, rng, &mut bytes);
            image.push(bytes);
        }
        image
    }

    /// What a power cut might leave now.
    pub fn sample(&self, rng: &mut fastrand::Rng) -> Image {
        let shadows = self.0.iter();
        shadows
            .map(|shadow| shadow.crash_state().sample(rng))
            .collect()
    }
}

pub fn heap(design: Design) -> (Disks, Heap) {
    let disks = Disks::blank();
    let heap = Heap::create(disks.media(design)).expect("a heap");
    (disks, heap)
}

pub fn reopened(image: &Image, design: Design) -> (Disks, Heap) {
    let disks = Disks::of(image);
    let (heap, recovered) = Heap::open(disks.media(design)).expect("a heap");
    assert_eq!(recovered.unvouched, [0; 0]);
    (disks, heap)
}

/// One of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Map(MapKind),
    Table,
}

pub const PROGRAMS: [Program; 5] = [
    Program::Map(MapKind::Hashmap),
    Program::Map(MapKind::CTree),
    Program::Map(MapKind::RbTree),
    Program::Map(MapKind::BTree),
    Program::Table,
];

/// Keys of the programs under test.
pub const KEYS: u64 = 48;

impl Program {
    pub fn create(self, heap: &mut Heap) {
        match self {
            Program::Map(kind) => drop(Map::create(heap, kind, KEYS).expect("a map")),
            Program::Table => drop(Table::create(heap, KEYS).expect("a table")),
        }
    }

    pub fn insert(self, heap: &mut Heap, key: u64, value: u64) -> crate::txb::Result<()> {
        match self {
            Program::Map(kind) => Map::open(heap, kind).insert(heap, key, value),
            Program::Table => {
                let value = vec![value; (value % 40 + 1) as usize];
                Table::open(heap).set(heap, key, &value)
            }
        }
    }

    /// Tables have no removals.
    pub fn remove(self, heap: &mut Heap, key: u64) -> Option<u64> {
        match self {
            Program::Map(kind) => Map::open(heap, kind).remove(heap, key).expect("removed"),
            Program::Table => None,
        }
    }

    pub fn get(self, heap: &Heap, key: u64) -> Option<u64> {
        match self {
            Program::Map(kind) => Map::open(heap, kind).get(heap, key),
            Program::Table => Table::open(heap).get(heap, key).map(|value| {
                assert_eq!(value.len() as u64, value[0] % 40 + 1);
                assert!(value.iter().all(|word| *word == value[0]));
                value[0]
            }),
        }
    }

    /// All keys with their values.
    pub fn content(self, heap: &Heap) -> Vec<Option<u64>> {
        (1..=KEYS).map(|key| self.get(heap, key)).collect()
    }
}

/// A random step of a program, and what it makes of the content.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    key: u64,
    value: Option<u64>,
}

impl Step {
    pub fn random(program: Program, rng: &mut fastrand::Rng) -> Step {
        let is_removal = matches!(program, Program::Map(_)) && rng.u8(..5) < 2;
        Step {
            key: rng.u64(1..=KEYS),
            value: (!is_removal).then(|| rng.u64(..1 << 40)),
        }
    }

    pub fn apply(self, content: &mut [Option<u64>]) {
        content[(self.key - 1) as usize] = self.value;
    }

    pub fn run(self, program: Program, heap: &mut Heap) {
        match self.value {
            Some(value) => program.insert(heap, self.key, value).expect("inserted"),
            None => drop(program.remove(heap, self.key)),
        }
    }
}
