//! Letting go of a whole volume: what makes room in a ring that a lost disk's blocks fill.
//!
//! It leaves the last free segment (S8), and the detach of a healthy disk the one that a rescue counts on as well (S11). Where that is all there is, the element goes with the tail: one group lets go of the volume and
//! says that the oldest segment is gone, so that a crash leaves both or neither, and one segment free in either case.

use super::core::Log;
use super::join::{Class, Ready};
use super::maintained::Maintained;
use super::recycle::TURNS_MAX;
use crate::error::{LogError, Result};
use crate::media::{BLOCK_BITS, Element, Key, Shape};
use crate::page::Pages;
use std::sync::Arc;

impl Log {
    /// Lets go of all blocks of a volume, dirty or not, durably.
    ///
    /// # Errors
    /// As those of [`Log::commit`]; no room only where the class may not begin the next segment, and something of another volume holds the
    /// oldest one.
    pub(super) fn forget_whole(
        &self,
        maintained: &mut Maintained,
        (number, class): (u32, Class),
    ) -> Result<()> {
        let joined = {
            let mut state = self.lock();
            self.join(&mut state, gone_whole(number), class)
        };
        match joined {
            Err(LogError::NoRoom { .. }) => self.forget_with_tail(number)?,
            joined => self.wait(&joined?)?,
        }
        maintained.note_gone(number);
        Ok(())
    }

    fn forget_with_tail(&self, number: u32) -> Result<()> {
        let Some(mut recycling) = self.begin_recycling()? else {
            return Err(self.no_room());
        };
        for _ in 0..TURNS_MAX {
            self.publish_patches(&recycling)?;
            let progress = self.progress();
            // Of the other volumes; of long ranges a piece.
            let cleaned = self.clean_volumes(&mut recycling)?;
            // What holds the segment will still do so after another turn.
            let is_held = cleaned.failures.keys().any(|failed| *failed != number);
            let mut state = self.lock();
            if let Some(why) = &state.poisoned {
                return Err(self.poisoned(why));
            }
            if !state.queue.is_empty() || state.has_patch_staged(&recycling) {
                // A group before this one would say that the segment is gone, and a crash between the two leave that alone. What a patch
                // is laid over does not go (S13).
                drop(state);
                self.write_one_or_yield()?;
                continue;
            }
            if state.free_segments(self.geometry) > 0 && state.release(&recycling, Some(number)) {
                let ticket = self.join(&mut state, gone_whole(number), Class::Tail)?;
                drop(state);
                self.wait(&ticket)?;
                self.lock().progress.note_freed();
                return Ok(());
            }
            if is_held || state.progress.count() == progress {
                break;
            }
        }
        Err(self.no_room())
    }
}

/// An element that takes all blocks of a volume away.
fn gone_whole(volume: u32) -> Ready {
    Ready {
        elements: vec![Element {
            key: Key { volume, block: 0 },
            shape: Shape::Gone {
                count: 1 << BLOCK_BITS,
            },
            is_clean: true,
        }],
        pages: Arc::new(Pages::zeroed(0)),
        inline: Vec::new(),
        is_fill: false,
        is_unsynced: false,
    }
}
