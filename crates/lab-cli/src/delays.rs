//! Delays that make the disk and the memory of a served cache as slow as others, really waited for; they can be turned
//! off and on while it is served, so that what is not to be measured need not be waited for.

use std::sync::Arc;

use clap::{Args, ValueEnum};
use forebay::{Backing, EmulatedMedia};
use forebay_lab::disk::{DiskKind, EmulatedDisk};
use forebay_pmem::{EmulationPause, pause_emulation};
use forebay_serve::control::Parameters;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// As slow as what the disk and the memory are made.
#[derive(Clone, Copy, Debug, Args)]
pub struct DelayOptions {
    /// Make the disk as slow as an SSD or as an HDD with its seeks: ssd, hdd or none.
    #[arg(long, value_name = "DISK", default_value = "none", value_parser = disk_kind)]
    pub backing_delay: DiskKind,
    /// Make the memory as slow as another: pcm (180 ns a line written, 50 ns a line read), stt-ram (50 and 50), nvdimm or none.
    #[arg(long, value_name = "MEMORY", default_value = "none", value_parser = media)]
    pub memory_delay: EmulatedMedia,
}

impl DelayOptions {
    /// The disk, as slow as was asked for.
    pub fn slow(self, backing: Backing) -> (Backing, Delays) {
        let mut delays = Delays {
            options: self,
            disk: None,
            pause: Mutex::default(),
        };
        if self.backing_delay == DiskKind::None {
            return (backing, delays);
        }
        let disk = Arc::new(EmulatedDisk::sparing(backing, self.backing_delay));
        delays.disk = Some(Arc::clone(&disk));
        (Backing::from_store(disk), delays)
    }
}

/// The delays of a cache that is served.
pub struct Delays {
    options: DelayOptions,
    disk: Option<Arc<EmulatedDisk>>,
    /// While they are off.
    pause: Mutex<Option<EmulationPause>>,
}

impl Delays {
    /// Turns all of them on or off. Waits that have begun end as they would have.
    pub fn set(&self, are_on: bool) {
        let mut pause = self.pause.lock();
        if let Some(disk) = &self.disk {
            disk.set_waiting(are_on);
        }
        match are_on {
            true => *pause = None,
            false => {
                pause.get_or_insert_with(pause_emulation);
            }
        }
    }

    /// For a `stat`.
    pub fn to_json(&self) -> Value {
        json!({
            "backing": self.options.backing_delay.as_str(),
            "memory": media_name(self.options.memory_delay),
            "are_on": self.pause.lock().is_none(),
        })
    }
}

/// What the control socket is asked: the delays on, or off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetDelays {
    /// On.
    pub are_on: bool,
}

impl Parameters for SetDelays {
    const COMMAND: &'static str = "delays";
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Turn {
    /// They are waited for.
    On,
    /// They are not.
    Off,
}

/// A disk to imitate, by name.
pub fn disk_kind(text: &str) -> Result<DiskKind, String> {
    let kinds = [DiskKind::Ssd, DiskKind::Hdd, DiskKind::None];
    let found = kinds.into_iter().find(|kind| kind.as_str() == text);
    found.ok_or_else(|| format!("there is no disk {text}; there are ssd, hdd and none"))
}

const MEDIA: [EmulatedMedia; 4] = [
    EmulatedMedia::Pcm,
    EmulatedMedia::SttRam,
    EmulatedMedia::Nvdimm,
    EmulatedMedia::None,
];

fn media(text: &str) -> Result<EmulatedMedia, String> {
    let found = MEDIA.into_iter().find(|media| media_name(*media) == text);
    found.ok_or_else(|| {
        format!("there is no memory {text}; there are pcm, stt-ram, nvdimm and none")
    })
}

fn media_name(media: EmulatedMedia) -> &'static str {
    match media {
        EmulatedMedia::Pcm => "pcm",
        EmulatedMedia::SttRam => "stt-ram",
        EmulatedMedia::Nvdimm => "nvdimm",
        _ => "none",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_imitated_is_found_by_name_and_nothing_else() {
        assert_eq!(disk_kind("hdd"), Ok(DiskKind::Hdd));
        assert!(disk_kind("tape").is_err_and(|error| error.contains("ssd, hdd and none")));
        for one in MEDIA {
            assert_eq!(media(media_name(one)), Ok(one));
        }
        assert!(media("core").is_err_and(|error| error.contains("stt-ram")));
    }

    #[test]
    fn they_are_on_until_they_are_turned_off() {
        let options = DelayOptions {
            backing_delay: DiskKind::Ssd,
            memory_delay: EmulatedMedia::Pcm,
        };
        let (backing, delays) = options.slow(Backing::memory(1 << 20));
        assert!(backing.transport().ends_with("as slow as ssd"));
        let expected = |are_on: bool| json!({"backing": "ssd", "memory": "pcm", "are_on": are_on});
        assert_eq!(delays.to_json(), expected(true));
        for are_on in [false, false, true, true] {
            delays.set(are_on);
            assert_eq!(delays.to_json(), expected(are_on));
        }
        let memory = Backing::memory(1 << 20);
        let none = DelayOptions {
            backing_delay: DiskKind::None,
            memory_delay: EmulatedMedia::None,
        };
        let (backing, _) = none.slow(memory.clone());
        assert_eq!(backing.transport(), memory.transport());
    }
}
