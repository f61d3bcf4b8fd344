//! Reading patches while the log opens: segments' summaries say where they stand, and not what they are.

use super::core::State;
use super::load::Loader;
use super::pages::read_pages;
use crate::media::{Inline, Key, check_of};
use crate::page::PAGE_BYTES;
use crate::state::Patch;

impl Loader<'_> {
    /// Reads those of which something is to be seen. Segments from the tail on are never written over, and a block's patches stand
    /// in its segment or later. One that cannot be read is an error to those alone that read its block.
    pub(crate) fn read_patches(&self, state: &mut State) {
        for key in state.patches.oldest(usize::MAX) {
            let unread = state.patches.get(key).map(|patched| patched.unread());
            let unread = unread.unwrap_or_default().to_vec();
            let mut patches = Vec::with_capacity(unread.len());
            for inline in &unread {
                patches.extend(self.read_patch(key, inline));
            }
            let is_all = patches.len() == unread.len();
            state.patches.note_read(key, is_all.then_some(&patches[..]));
        }
    }

    /// None if its bytes do not match its check, or the device does not give them.
    fn read_patch(&self, key: Key, inline: &Inline) -> Option<Patch> {
        let bytes = usize::from(inline.at)..usize::from(inline.at) + usize::from(inline.len);
        let count = bytes.end.div_ceil(PAGE_BYTES).max(1) as u32;
        let pages = read_pages(self.device, inline.page.into(), count).ok()?;
        let bytes = &pages[bytes];
        let is_it = check_of(key, bytes) == inline.check;
        is_it.then(|| Patch::new(inline, bytes))
    }
}
