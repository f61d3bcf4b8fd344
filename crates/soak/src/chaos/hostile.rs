//! Clients that do not keep to the protocol. They are refused or cut off; no other client may
//! notice.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::Chaos;
use forebay_harness::Result;
use forebay_harness::nbd::{Client, READ, TRIM, WRITE};

/// A daemon drops a silent client after ten seconds in the handshake.
const PATIENCE: Duration = Duration::from_secs(30);
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

impl Chaos<'_> {
    /// Garbage in the handshake, an option that lies about its length, garbage after it.
    pub fn hostile_nbd(&mut self) -> Result<()> {
        self.tally.fault("garbage_nbd");
        let mut garbage = vec![0; self.rng.usize(1..8192)];
        self.rng.fill(&mut garbage);
        let mut hello = 3_u32.to_be_bytes().to_vec();
        match self.rng.u32(..3) {
            0 => {}
            1 => garbage = [&hello[..], b"IHAVEOPT\0\0\0\x07\xff\xff\xff\xff", &garbage].concat(),
            _ => {
                hello.extend(b"IHAVEOPT\0\0\0\x07\0\0\0\x0b\0\0\0\x05alpha\0\0");
                garbage = [&hello[..], &garbage].concat();
            }
        }
        self.send_garbage(&self.place.nbd(), &garbage)
    }

    /// Garbage, wrong requests and lines without end for the control socket.
    pub fn hostile_control(&mut self) -> Result<()> {
        self.tally.fault("garbage_control");
        let mut garbage = vec![0; self.rng.usize(1..100_000)];
        match self.rng.u32(..3) {
            0 => self.rng.fill(&mut garbage),
            1 => garbage.fill(b'['),
            _ => {
                garbage = b"{\"command\": \"detach\", \"volume\": 7}\n{\"version\": 99}\n".to_vec()
            }
        }
        self.send_garbage(&self.place.control(), &garbage)
    }

    /// Sends it and waits until the daemon has enough of it.
    fn send_garbage(&self, socket: &Path, garbage: &[u8]) -> Result<()> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        // It may be cut off at any byte.
        let _ = stream.write_all(garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut said = Vec::new();
        if let Err(error) = stream.take(1 << 20).read_to_end(&mut said)
            && error.kind() == std::io::ErrorKind::WouldBlock
        {
            let socket = socket.display();
            self.tally
                .error(format!("{socket}: garbage is neither refused nor cut off"));
        }
        Ok(())
    }

    /// Requests past the end, and of 4 GiB, are refused by their error; the connection serves on.
    pub fn out_of_range(&mut self) -> Result<()> {
        self.tally.fault("out_of_range");
        let volume = self.any_volume();
        let mut client = Client::open(&self.place.nbd(), volume)?;
        let end = client.size_bytes;
        let cases = [
            (READ, end, 4096, EINVAL),
            (READ, 0, u32::MAX, EINVAL),
            (READ, u64::MAX - 511, 512, EINVAL),
            (TRIM, end - 512, 1024, EINVAL),
            (WRITE, end - 512, 1024, ENOSPC),
        ];
        for (cookie, (command, offset, length, errno)) in cases.into_iter().enumerate() {
            let mut request = Vec::new();
            Client::push(&mut request, command, 0, cookie as u64, offset, length);
            if command == WRITE {
                request.extend(vec![0xee; length as usize]);
            }
            client.send(&request)?;
            let reply = client.reply()?;
            if (reply.errno, reply.cookie) != (errno, cookie as u64) {
                self.tally.error(format!(
                    "{volume}: command {command} at {offset} of {length} bytes: {reply:?}, not {errno}"
                ));
            }
        }
        // The data of this one never comes.
        let mut endless = Vec::new();
        Client::push(&mut endless, WRITE, 0, 9, 0, u32::MAX);
        client.send(&endless)?;
        Ok(())
    }
}
