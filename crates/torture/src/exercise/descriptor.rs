//! The file is opened, in one way or several.

use super::exercised::{Descriptor, Exercise, Kind};
use forebay_harness::Result;

const KINDS: [(u32, Kind); 7] = [
    (6, Kind::Plain),
    (3, Kind::DataSync),
    (1, Kind::Sync),
    (2, Kind::Append),
    (1, Kind::AppendDataSync),
    (1, Kind::Direct),
    (1, Kind::ReadOnly),
];

impl Exercise {
    /// Closes every descriptor and opens one, or some; the first can write anywhere.
    pub(super) fn open_again(&mut self) -> Result<bool> {
        self.descriptors.clear();
        let count = if self.rng.u8(..10) < 6 {
            1
        } else {
            self.rng.usize(2..=4)
        };
        let mut truncates = self.rng.u8(..40) == 0;
        for index in 0..count {
            let kind = match index {
                0 => [Kind::Plain, Kind::Plain, Kind::DataSync][self.rng.usize(..3)],
                _ => self.draw_kind(),
            };
            let (file, kind) = match kind.open(self.open_path(), truncates) {
                // A file system need not know direct access.
                Err(error)
                    if kind == Kind::Direct && error.raw_os_error() == Some(libc::EINVAL) =>
                {
                    (Kind::Plain.open(self.open_path(), false)?, Kind::Plain)
                }
                opened => (opened?, kind),
            };
            if truncates {
                self.contents.clear();
                self.detail(" truncating");
            }
            truncates = false;
            self.detail(&format!(" {kind:?}"));
            self.descriptors.push(Descriptor { file, kind });
        }
        Ok(true)
    }

    fn draw_kind(&mut self) -> Kind {
        let total = KINDS.iter().map(|(weight, _)| weight).sum();
        let mut drawn = self.rng.u32(0..total);
        for (weight, kind) in KINDS {
            if drawn < weight {
                return kind;
            }
            drawn -= weight;
        }
        Kind::Plain
    }
}
