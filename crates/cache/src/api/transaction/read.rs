//! What a transaction sees: its own changes over what the pool and the backing hold.

use crate::api::transaction::MemoryTransaction;
use crate::api::volume::read_bytes;
use crate::api::workspace::{Base, Operation, apply_edits};
use crate::error::Result;

impl MemoryTransaction<'_> {
    /// Reads whole blocks from `block` on as they will be after this transaction.
    ///
    /// # Errors
    /// As [`MemoryVolume::read`](crate::Volume::read).
    pub fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        self.volume.check_blocks(block, out.len())?;
        for (number, bytes) in
            (block..).zip(out.chunks_exact_mut(self.pipeline().engine().block_bytes()))
        {
            let key = self.volume.key(number);
            match self
                .work
                .operations
                .iter()
                .find(|operation| operation.block.key == key)
            {
                Some(operation) => self.view(operation, bytes)?,
                None => self.volume.read(number, bytes)?,
            }
        }
        Ok(())
    }

    /// Reads bytes from byte `offset` on as they will be after this transaction. A block that is
    /// read in part is read and verified whole.
    ///
    /// # Errors
    /// As [`MemoryTransaction::read`].
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.volume.check_bytes(offset, out.len())?;
        let block_bytes = self.pipeline().engine().block_bytes();
        read_bytes(offset, out, block_bytes, |block, out| self.read(block, out))
    }

    fn view(&self, operation: &Operation, out: &mut [u8]) -> Result<()> {
        match operation.base() {
            Base::Current => {
                self.volume.read(operation.block.key.block(), out)?;
                apply_edits(&operation.edits, out);
            }
            Base::Staged { slot, crc } => {
                let key = operation.block.key;
                self.pipeline().engine().read_staged(key, slot, crc, out)?;
            }
            Base::Buffered { at } => out.copy_from_slice(&self.work.data[at..at + out.len()]),
            Base::Zero => out.fill(0),
        }
        Ok(())
    }
}
