//! A blocking NBD client that says what went wrong: fixed newstyle, simple replies, many requests in
//! flight. By the specification in the NetworkBlockDevice project's `doc/proto.md`.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Reads.
pub const READ: u16 = 0;
/// Writes.
pub const WRITE: u16 = 1;
/// Makes everything durable.
pub const FLUSH: u16 = 3;
/// Gives a range up.
pub const TRIM: u16 = 4;
/// Makes zeroes.
pub const WRITE_ZEROES: u16 = 6;
/// The change is durable when it is answered.
pub const FUA: u16 = 1;
/// Zeroes keep their room.
pub const NO_HOLE: u16 = 2;

const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const OPTION_REPLY_MAGIC: u64 = 0x0003_E889_0455_65A9;
const OPTION_GO: u32 = 7;
const OPTION_ACK: u32 = 1;
const OPTION_INFO: u32 = 3;
/// Longer than any answer may take; a client that waits so long gets an error, and does not hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// An export, open.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    /// Its size.
    pub size_bytes: u64,
}

/// One reply; data follows if it answers a read without an error.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    /// What the request was called.
    pub cookie: u64,
    /// 0 if it was done.
    pub errno: u32,
}

impl Reply {
    /// Bytes of one.
    pub const BYTES: usize = 16;

    /// Takes it apart.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(bytes: &[u8; Reply::BYTES]) -> io::Result<Reply> {
        let word =
            |from: usize| u32::from_be_bytes(bytes[from..from + 4].try_into().expect("four bytes"));
        if word(0) != REPLY_MAGIC {
            let magic = word(0);
            return Err(unexpected(format!("a reply that starts with {magic:#x}")));
        }
        Ok(Reply {
            cookie: u64::from(word(8)) << 32 | u64::from(word(12)),
            errno: word(4),
        })
    }
}

fn unexpected(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn array<const BYTES: usize>(stream: &mut UnixStream) -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

impl Client {
    /// Opens an export.
    ///
    /// # Errors
    /// No server listens, the server refuses, or what it says is not NBD.
    pub fn open(socket: &Path, export: &str) -> io::Result<Client> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let greeting = array::<18>(&mut stream)?;
        if &greeting[..16] != b"NBDMAGICIHAVEOPT" {
            return Err(unexpected(format!(
                "no NBD server greets with {greeting:?}"
            )));
        }
        // Fixed newstyle, no zeroes.
        let mut hello = 3_u32.to_be_bytes().to_vec();
        hello.extend(b"IHAVEOPT");
        hello.extend(OPTION_GO.to_be_bytes());
        hello.extend((export.len() as u32 + 6).to_be_bytes());
        hello.extend((export.len() as u32).to_be_bytes());
        hello.extend(export.as_bytes());
        hello.extend(0_u16.to_be_bytes());
        stream.write_all(&hello)?;
        let mut size_bytes = 0;
        loop {
            let magic = u64::from_be_bytes(array(&mut stream)?);
            let _option = array::<4>(&mut stream)?;
            let kind = u32::from_be_bytes(array(&mut stream)?);
            let length = u32::from_be_bytes(array(&mut stream)?);
            if magic != OPTION_REPLY_MAGIC || length > 64 << 10 {
                return Err(unexpected(format!("an option's reply of {length} bytes")));
            }
            let mut data = vec![0; length as usize];
            stream.read_exact(&mut data)?;
            match kind {
                OPTION_ACK => return Ok(Client { stream, size_bytes }),
                OPTION_INFO if data.len() >= 10 && data[..2] == [0, 0] => {
                    let bytes = data[2..10].try_into().expect("eight bytes");
                    size_bytes = u64::from_be_bytes(bytes);
                }
                refusal if refusal >> 31 == 1 => {
                    let message = String::from_utf8_lossy(&data).into_owned();
                    return Err(io::Error::other(message));
                }
                _ => {}
            }
        }
    }

    /// Appends a request's header to what will be sent.
    pub fn push(
        out: &mut Vec<u8>,
        command: u16,
        flags: u16,
        cookie: u64,
        offset: u64,
        length: u32,
    ) {
        out.extend(REQUEST_MAGIC.to_be_bytes());
        out.extend(flags.to_be_bytes());
        out.extend(command.to_be_bytes());
        out.extend(cookie.to_be_bytes());
        out.extend(offset.to_be_bytes());
        out.extend(length.to_be_bytes());
    }

    /// Sends.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Receives a reply.
    ///
    /// # Errors
    /// The connection is gone, or what comes is none.
    pub fn reply(&mut self) -> io::Result<Reply> {
        Reply::parse(&array(&mut self.stream)?)
    }

    /// Receives the data of a read.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn data(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut data = vec![0; length];
        self.stream.read_exact(&mut data)?;
        Ok(data)
    }

    /// Says that no more requests will come; replies still do.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn finish_sending(&self) -> io::Result<()> {
        self.stream.shutdown(std::net::Shutdown::Write)
    }

    /// The connection, which waits for as long as it takes, for a caller that keeps requests and replies in
    /// memory of its own.
    ///
    /// # Errors
    /// The system's.
    pub fn into_stream(self) -> io::Result<UnixStream> {
        self.stream.set_read_timeout(None)?;
        self.stream.set_write_timeout(None)?;
        Ok(self.stream)
    }

    /// Writes, and waits for the reply.
    ///
    /// # Errors
    /// The connection is gone, or the server refuses.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.ask(WRITE, offset, data.len() as u32, data)
    }

    /// Reads.
    ///
    /// # Errors
    /// As [`Client::write`].
    pub fn read(&mut self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        self.ask(READ, offset, length as u32, &[])?;
        self.data(length)
    }

    fn ask(&mut self, command: u16, offset: u64, length: u32, data: &[u8]) -> io::Result<()> {
        let mut request = Vec::new();
        Client::push(&mut request, command, 0, 0, offset, length);
        request.extend(data);
        self.send(&request)?;
        match self.reply()?.errno {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno as i32)),
        }
    }
}
