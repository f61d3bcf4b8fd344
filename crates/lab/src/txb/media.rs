//! The files of a region as one run of bytes, with what lies beside them.

use forebay_dax::DaxRegion;
use forebay_pmem::{Counters, Region};

use super::design::Design;
use super::error::Result;
use super::layout::{LINE, PAGE, WORD};

/// Bytes of one extent before the next extent follows: as `forebay-dax` has it.
pub const UNIT_BYTES: u64 = 2 << 20;

/// Where a unit lies.
#[derive(Clone, Copy, Debug)]
struct UnitPlace {
    extent: u32,
    unit: u32,
}

enum Extents {
    /// Of a design that keeps checksums and parity in transactions, or not at all.
    Own(Vec<Region>),
    /// Mapped as one run by the library, whose passes keep them.
    Mapped(DaxRegion),
}

/// Checksums and parity of a design that keeps them in transactions.
struct Beside {
    parity: Region,
    /// Of pages: a word each, by the page's number. Objects have theirs in their headers.
    sums: Option<Region>,
}

/// A region. Offsets are in bytes of the run that programs see.
pub struct Media {
    design: Design,
    extents: Extents,
    beside: Option<Beside>,
    places: Box<[UnitPlace]>,
    unit_shift: u32,
    width: u64,
}

impl Media {
    /// Extents that this process has to itself, without checksums and parity.
    ///
    /// # Panics
    /// The extents are not of one size, or not in units of a power of two.
    #[must_use]
    pub fn bare(extents: Vec<Region>, unit_bytes: u64) -> Media {
        Media::own(Design::None, extents, None, unit_bytes)
    }

    /// With a checksum in each object's header, and a parity.
    ///
    /// # Panics
    /// As [`Media::bare`]; the parity has another size.
    #[must_use]
    pub fn with_object_sums(extents: Vec<Region>, parity: Region, unit_bytes: u64) -> Media {
        let beside = Beside { parity, sums: None };
        Media::own(Design::TxbObject, extents, Some(beside), unit_bytes)
    }

    /// With a checksum for each page, in a file of its own ([`Media::sums_bytes`]), and a parity.
    ///
    /// # Panics
    /// As [`Media::with_object_sums`]; the file is too short.
    #[must_use]
    pub fn with_page_sums(
        extents: Vec<Region>,
        [parity, sums]: [Region; 2],
        unit_bytes: u64,
    ) -> Media {
        let size_bytes: u64 = extents.iter().map(Region::len).sum();
        assert!(sums.len() >= Media::sums_bytes(size_bytes));
        let sums = Some(sums);
        let beside = Beside { parity, sums };
        Media::own(Design::TxbPage, extents, Some(beside), unit_bytes)
    }

    /// Bytes of the checksums of the pages of a region.
    #[must_use]
    pub fn sums_bytes(size_bytes: u64) -> u64 {
        (size_bytes / PAGE * WORD).next_multiple_of(PAGE)
    }

    /// A region of so many extents that the library has mapped.
    ///
    /// # Panics
    /// It is smaller than two units of each extent.
    #[must_use]
    pub fn mapped(region: DaxRegion, width: u64) -> Media {
        let units = region.len() / UNIT_BYTES;
        // One extent as far as this side is concerned; the rows are what the library makes of them.
        let place = |unit: u64| UnitPlace {
            extent: 0,
            unit: unit as u32,
        };
        Media {
            design: Design::Async,
            extents: Extents::Mapped(region),
            beside: None,
            places: places(units, width, place),
            unit_shift: UNIT_BYTES.trailing_zeros(),
            width,
        }
    }

    fn own(design: Design, extents: Vec<Region>, beside: Option<Beside>, unit_bytes: u64) -> Media {
        let (width, extent_bytes) = (extents.len() as u64, extents[0].len());
        assert!(unit_bytes.is_power_of_two() && unit_bytes >= PAGE);
        let parity = beside.iter().map(|beside| &beside.parity);
        let is_whole = |region: &Region| {
            region.len() == extent_bytes && extent_bytes.is_multiple_of(unit_bytes)
        };
        assert!(extents.iter().chain(parity).all(is_whole));
        let place = |unit: u64| UnitPlace {
            extent: (unit % width) as u32,
            unit: (unit / width) as u32,
        };
        let units = width * extent_bytes / unit_bytes;
        Media {
            design,
            extents: Extents::Own(extents),
            beside,
            places: places(units, width, place),
            unit_shift: unit_bytes.trailing_zeros(),
            width,
        }
    }

    /// How its checksums and parity are kept.
    #[must_use]
    pub fn design(&self) -> Design {
        self.design
    }

    /// The library's region, where the library has it mapped.
    #[must_use]
    pub fn region(&self) -> Option<&DaxRegion> {
        match &self.extents {
            Extents::Own(_) => None,
            Extents::Mapped(region) => Some(region),
        }
    }

    /// Lines and fences of all its files so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        match &self.extents {
            Extents::Own(extents) => {
                let regions = extents.iter().chain(self.files_beside());
                regions.map(Region::counters).sum()
            }
            Extents::Mapped(region) => region.counters(),
        }
    }

    fn files_beside(&self) -> impl Iterator<Item = &Region> {
        let beside = self.beside.iter();
        beside.flat_map(|beside| std::iter::once(&beside.parity).chain(&beside.sums))
    }

    /// The file of the first byte, for errors.
    pub(super) fn name(&self) -> String {
        match &self.extents {
            Extents::Own(extents) => extents[0].path().display().to_string(),
            Extents::Mapped(_) => "the mapped region".into(),
        }
    }

    pub(super) fn size_bytes(&self) -> u64 {
        (self.places.len() as u64) << self.unit_shift
    }

    pub(super) fn unit_bytes(&self) -> u64 {
        1 << self.unit_shift
    }

    /// Where objects begin: what is before is the log's row.
    pub(super) fn heap_start(&self) -> u64 {
        self.width << self.unit_shift
    }

    /// The extent of a byte, and its offset there, which is that of its parity as well.
    #[inline]
    fn place(&self, at: u64) -> (usize, u64) {
        let place = self.places[(at >> self.unit_shift) as usize];
        let within = at & (self.unit_bytes() - 1);
        let offset = u64::from(place.unit) << self.unit_shift | within;
        (place.extent as usize, offset)
    }

    #[inline]
    pub(super) fn load(&self, at: u64) -> u64 {
        let (extent, offset) = self.place(at);
        match &self.extents {
            Extents::Own(extents) => extents[extent].load_u64(offset),
            Extents::Mapped(region) => {
                let word = &region.words()[(offset / WORD) as usize];
                u64::from_le(word.load(std::sync::atomic::Ordering::Acquire))
            }
        }
    }

    #[inline]
    pub(super) fn store(&self, at: u64, value: u64) {
        let (extent, offset) = self.place(at);
        match &self.extents {
            Extents::Own(extents) => extents[extent].store_u64(offset, value),
            Extents::Mapped(region) => {
                let word = &region.words()[(offset / WORD) as usize];
                word.store(value.to_le(), std::sync::atomic::Ordering::Release);
            }
        }
    }

    /// The CRC-32C of bytes of one unit.
    pub(super) fn crc32c(&self, at: u64, bytes: u64) -> u32 {
        let (extent, offset) = self.place(at);
        match &self.extents {
            Extents::Own(extents) => extents[extent].crc32c(offset, bytes as usize),
            Extents::Mapped(_) => unreachable!("passes make the sums of a region that is mapped"),
        }
    }

    /// Sends the line of a byte on its way to the medium.
    pub(super) fn flush_line(&self, at: u64) {
        let (extent, offset) = self.place(at);
        let line = offset / LINE * LINE;
        match &self.extents {
            Extents::Own(extents) => extents[extent].flush(line, LINE as usize),
            Extents::Mapped(region) => region.flush(line..line + LINE),
        }
    }

    /// Returns when everything that was flushed before, of all files, is durable.
    pub(super) fn fence(&self) -> Result<()> {
        let extents = match &self.extents {
            Extents::Own(extents) => extents,
            Extents::Mapped(region) => return Ok(region.fence()?),
        };
        let regions: Vec<&Region> = extents.iter().chain(self.files_beside()).collect();
        for fenced in Region::fence_all(&regions) {
            fenced?;
        }
        Ok(())
    }

    /// The bytes of the same row in every extent, the byte itself among them.
    pub(super) fn row(&self, at: u64) -> impl Iterator<Item = u64> {
        let (shift, width) = (self.unit_shift, self.width);
        let (unit, within) = (at >> shift, at & (self.unit_bytes() - 1));
        let first = unit - unit % width;
        (first..first + width).map(move |unit| unit << shift | within)
    }

    /// The word that parity and the other extents give for this one.
    pub(super) fn rebuilt(&self, at: u64) -> u64 {
        let mates = self.row(at).filter(|mate| *mate != at);
        mates.fold(self.load_parity(at), |word, mate| word ^ self.load(mate))
    }

    fn beside(&self) -> &Beside {
        let beside = self.beside.as_ref();
        beside.expect("asked for by designs alone that keep a parity")
    }

    #[inline]
    pub(super) fn load_parity(&self, at: u64) -> u64 {
        self.beside().parity.load_u64(self.place(at).1)
    }

    #[inline]
    pub(super) fn store_parity(&self, at: u64, value: u64) {
        self.beside().parity.store_u64(self.place(at).1, value);
    }

    pub(super) fn flush_parity_line(&self, at: u64) {
        let line = self.place(at).1 / LINE * LINE;
        self.beside().parity.flush(line, LINE as usize);
    }

    fn sums(&self) -> &Region {
        let sums = self.beside().sums.as_ref();
        sums.expect("asked for by the design alone that keeps them")
    }

    /// The checksum of the page of this number.
    pub(super) fn sum(&self, page: u64) -> u64 {
        self.sums().load_u64(page * WORD)
    }

    pub(super) fn store_sum(&self, page: u64, sum: u64) {
        self.sums().store_u64(page * WORD, sum);
    }

    /// Sends the line of a page's checksum on its way.
    pub(super) fn flush_sum_line(&self, page: u64) {
        let line = page * WORD / LINE * LINE;
        self.sums().flush(line, LINE as usize);
    }
}

fn places(units: u64, width: u64, place: impl Fn(u64) -> UnitPlace) -> Box<[UnitPlace]> {
    assert!(
        units >= 2 * width && units <= u64::from(u32::MAX),
        "a region has the log's row, and another one"
    );
    (0..units).map(place).collect()
}
