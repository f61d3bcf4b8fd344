//! The one NBD client that both servers are measured with: simple replies, a fixed queue depth, as
//! many requests in one call as there are, no threads.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use forebay_harness::Result;
use forebay_harness::nbd::{self, FLUSH, READ, Reply, WRITE};

use crate::payload::{BLOCK_BYTES, Blocks, Payload};

/// What every operation is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A block is read.
    Read,
    /// A block is written, and flushed when that is answered.
    WriteAndFlush,
}

/// A connection with an export open.
pub struct Client {
    stream: UnixStream,
    /// Blocks of the export.
    pub blocks: u64,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    start: usize,
    end: usize,
    /// What each request in flight asked for; its place is the request's cookie.
    slots: Vec<u16>,
}

impl Client {
    /// Opens the export called "disk" of the server on `socket`.
    pub fn open(socket: &Path, depth: usize) -> Result<Client> {
        let client = nbd::Client::open(socket, "disk")?;
        let blocks = client.size_bytes / BLOCK_BYTES as u64;
        Ok(Client {
            stream: client.into_stream()?,
            blocks,
            outgoing: Vec::new(),
            incoming: vec![0; depth * (Reply::BYTES + BLOCK_BYTES)],
            start: 0,
            end: 0,
            slots: vec![0; depth],
        })
    }

    fn request(&mut self, slot: usize, command: u16, block: u64) {
        self.slots[slot] = command;
        let (offset, length) = match command {
            FLUSH => (0, 0),
            _ => (block * BLOCK_BYTES as u64, BLOCK_BYTES as u32),
        };
        let out = &mut self.outgoing;
        nbd::Client::push(out, command, 0, slot as u64, offset, length);
    }

    /// Does `count` operations on random blocks, as many at a time as the queue is deep.
    pub fn run(
        &mut self,
        work: Work,
        count: u64,
        blocks: &mut Blocks,
        payload: &mut Payload,
    ) -> Result<()> {
        let depth = self.slots.len().min(count as usize);
        let (mut started, mut done) = (0, 0);
        for slot in 0..depth {
            self.begin(work, slot, blocks, payload);
            started += 1;
        }
        while done < count {
            self.stream.write_all(&self.outgoing)?;
            self.outgoing.clear();
            self.receive()?;
            while let Some(slot) = self.next_reply()? {
                if self.slots[slot] == WRITE {
                    self.request(slot, FLUSH, 0);
                    continue;
                }
                done += 1;
                if started < count {
                    self.begin(work, slot, blocks, payload);
                    started += 1;
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, work: Work, slot: usize, blocks: &mut Blocks, payload: &mut Payload) {
        match work {
            Work::Read => self.request(slot, READ, blocks.next()),
            Work::WriteAndFlush => {
                self.request(slot, WRITE, blocks.next());
                self.outgoing.extend_from_slice(payload.next());
            }
        }
    }

    fn receive(&mut self) -> Result<()> {
        self.incoming.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let count = self.stream.read(&mut self.incoming[self.end..])?;
        if count == 0 {
            return Err("the server has closed the connection".into());
        }
        self.end += count;
        Ok(())
    }

    /// The slot of the next reply, if all of it is here.
    fn next_reply(&mut self) -> Result<Option<usize>> {
        let here = &self.incoming[self.start..self.end];
        let Some(reply) = here.first_chunk() else {
            return Ok(None);
        };
        let reply = Reply::parse(reply)?;
        let slot = reply.cookie as usize;
        if reply.errno != 0 || slot >= self.slots.len() {
            return Err(format!("a reply that no request expects: {reply:?}").into());
        }
        let data = if self.slots[slot] == READ {
            BLOCK_BYTES
        } else {
            0
        };
        if here.len() < Reply::BYTES + data {
            return Ok(None);
        }
        self.start += Reply::BYTES + data;
        Ok(Some(slot))
    }
}
