//! Reads: blocks that the pool holds from there, all others from the backing.

use std::io;

use super::Content;
use super::pooled::Pooled;
use crate::errors::from_pool;
use crate::target::read_full;

impl Content {
    /// Reads from byte `offset`; less than asked only at the end of the file.
    pub(crate) fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let state = self.read_state();
        if state.passes_through {
            return read_full(&self.target.descriptor(), offset, out);
        }
        let inside = self.target.size_bytes().saturating_sub(offset);
        let len = usize::try_from(inside).map_or(out.len(), |inside| inside.min(out.len()));
        self.read_inside(state.pooled.as_ref(), offset, &mut out[..len])?;
        Ok(len)
    }

    /// The same within the file, by a caller that holds its lock.
    pub(super) fn read_inside(
        &self,
        pooled: Option<&Pooled>,
        offset: u64,
        out: &mut [u8],
    ) -> io::Result<()> {
        let Some(pooled) = pooled else {
            return self.target.read_through(offset, out);
        };
        let block_bytes = self.shared.volume.block_size() as u64;
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let end = offset + out.len() as u64;
            let first = at / block_bytes;
            let is_pooled = pooled.blocks.contains(first);
            let mut next = first + 1;
            while next * block_bytes < end && pooled.blocks.contains(next) == is_pooled {
                next += 1;
            }
            let part = (next * block_bytes).min(end) - at;
            let bytes = &mut out[done..done + part as usize];
            match is_pooled {
                true => self.read_pooled(pooled, at, bytes)?,
                false => self.target.read_through(at, bytes)?,
            }
            done += part as usize;
        }
        Ok(())
    }

    /// Reads blocks that may be in the pool, by way of it.
    fn read_pooled(&self, pooled: &Pooled, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let volume = &self.shared.volume;
        let block_bytes = volume.block_size() as u64;
        let end = offset + out.len() as u64;
        let (mut at, mut rest) = (offset, out);
        while !rest.is_empty() {
            let block = at / block_bytes;
            let place = pooled.place(block).expect("its blocks have segments");
            // Neighbours in the file are neighbours in the volume, up to the segment's end.
            let is_neighbour = |next: &u64| {
                next * block_bytes < end && pooled.place(*next) == Some(place + (next - block))
            };
            let next = (block + 1..).find(|next| !is_neighbour(next));
            let next = next.expect("the range ends");
            let len = (next * block_bytes).min(end) - at;
            let (bytes, tail) = rest.split_at_mut(len as usize);
            volume
                .read_at(place * block_bytes + at % block_bytes, bytes)
                .map_err(from_pool)?;
            (at, rest) = (at + len, tail);
        }
        Ok(())
    }
}
