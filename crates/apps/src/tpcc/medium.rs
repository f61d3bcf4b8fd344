//! What the memory and the disk behind it are made as slow as.

/// In the order of the paper's Figures 12a and 12b, which have the first in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Medium {
    PcmSsd,
    PcmHdd,
    SttRamSsd,
    NvdimmSsd,
}

pub const MEDIA: [Medium; 4] = [
    Medium::PcmSsd,
    Medium::PcmHdd,
    Medium::SttRamSsd,
    Medium::NvdimmSsd,
];

impl Medium {
    /// In the names of numbers.
    pub const fn name(self) -> &'static str {
        match self {
            Medium::PcmSsd => "pcm_ssd",
            Medium::PcmHdd => "pcm_hdd",
            Medium::SttRamSsd => "stt_ram_ssd",
            Medium::NvdimmSsd => "nvdimm_ssd",
        }
    }

    pub const fn title(self) -> &'static str {
        match self {
            Medium::PcmSsd => "PCM, SSD",
            Medium::PcmHdd => "PCM, HDD",
            Medium::SttRamSsd => "STT-RAM, SSD",
            Medium::NvdimmSsd => "NVDIMM, SSD",
        }
    }

    /// What `forebay-lab serve --memory-delay` calls the memory.
    pub const fn memory(self) -> &'static str {
        match self {
            Medium::PcmSsd | Medium::PcmHdd => "pcm",
            Medium::SttRamSsd => "stt-ram",
            Medium::NvdimmSsd => "nvdimm",
        }
    }

    /// What `forebay-lab serve --backing-delay` calls the disk.
    pub const fn disk(self) -> &'static str {
        match self {
            Medium::PcmHdd => "hdd",
            Medium::PcmSsd | Medium::SttRamSsd | Medium::NvdimmSsd => "ssd",
        }
    }
}
