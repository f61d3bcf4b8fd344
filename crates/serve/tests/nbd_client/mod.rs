//! A plain NBD client for the tests: says exactly what it is told to, right or wrong.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_serve::nbd::{Exports, NbdAddress, NbdOptions, NbdServer};
use forebay_serve::{BlockDevice, MemoryDevice};

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISCONNECT: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const CACHE: u16 = 5;
pub const WRITE_ZEROES: u16 = 6;
pub const BLOCK_STATUS: u16 = 7;
pub const RESIZE: u16 = 8;

pub const OPT_EXPORT_NAME: u32 = 1;
pub const OPT_ABORT: u32 = 2;
pub const OPT_LIST: u32 = 3;
pub const OPT_STARTTLS: u32 = 5;
pub const OPT_INFO: u32 = 6;
pub const OPT_GO: u32 = 7;
pub const OPT_STRUCTURED_REPLY: u32 = 8;
pub const OPT_SET_META_CONTEXT: u32 = 10;

pub const REP_ACK: u32 = 1;
pub const REP_POLICY: u32 = (1 << 31) + 2;
pub const REP_INVALID: u32 = (1 << 31) + 3;
pub const REP_UNSUPPORTED: u32 = (1 << 31) + 1;
pub const REP_TLS_REQUIRED: u32 = (1 << 31) + 5;
pub const REP_UNKNOWN: u32 = (1 << 31) + 6;
pub const REP_TOO_BIG: u32 = (1 << 31) + 9;

/// A server on a Unix socket in a folder of its own.
pub struct Rig {
    pub server: NbdServer,
    pub exports: Arc<Exports>,
    pub socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Rig {
    /// Exports `device` as "disk".
    pub fn new(device: Arc<dyn BlockDevice>, options: NbdOptions) -> Rig {
        let exports = Arc::new(Exports::new());
        exports.add("disk", "a disk for tests", device).unwrap();
        Rig::with(exports, options)
    }

    pub fn with(exports: Arc<Exports>, options: NbdOptions) -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("nbd");
        let address = NbdAddress::Unix(socket.clone());
        let server = NbdServer::start(Arc::clone(&exports), &address, options).unwrap();
        Rig {
            server,
            exports,
            socket,
            _folder: folder,
        }
    }

    /// Of so many zero bytes in memory.
    pub fn memory(bytes: usize) -> Rig {
        Rig::new(
            Arc::new(MemoryDevice::new(bytes, 4096)),
            NbdOptions::default(),
        )
    }

    pub fn client(&self) -> Client<UnixStream> {
        Client::greet(UnixStream::connect(&self.socket).unwrap()).unwrap()
    }

    /// A client that has "disk" open, with structured replies and block status.
    pub fn open(&self) -> Client<UnixStream> {
        let mut client = self.client();
        client.open("disk").unwrap();
        client
    }

    /// The socket's address as the tools write it.
    pub fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket.display())
    }
}

pub fn connect(path: &Path) -> UnixStream {
    UnixStream::connect(path).unwrap()
}

/// A stream to a server.
pub trait Stream: Read + Write {}
impl Stream for UnixStream {}
impl Stream for TcpStream {}

/// A connected client.
pub struct Client<S> {
    pub stream: S,
    pub structured: bool,
    pub size_bytes: u64,
    pub flags: u16,
}

/// One reply: its cookie, the error and what came with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    pub errno: u32,
    /// Data, or the message of an error.
    pub data: Vec<u8>,
    /// Lengths and states of the extents.
    pub extents: Vec<(u32, u32)>,
}

impl<S: Read + Write> Client<S> {
    /// After the first words.
    pub fn greet(mut stream: S) -> io::Result<Client<S>> {
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        assert_eq!(greeting[16..], [0, 3]);
        stream.write_all(&3_u32.to_be_bytes())?;
        Ok(Client {
            stream,
            structured: false,
            size_bytes: 0,
            flags: 0,
        })
    }

    pub fn send_option(&mut self, code: u32, data: &[u8]) -> io::Result<()> {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend(code.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        self.stream.write_all(&bytes)
    }

    /// Kind and data of the next reply to an option.
    pub fn option_reply(&mut self) -> io::Result<(u32, Vec<u8>)> {
        let mut header = [0; 20];
        self.stream.read_exact(&mut header)?;
        assert_eq!(&header[..8], &0x0003_E889_0455_65A9_u64.to_be_bytes());
        let mut data = vec![0; u32::from_be_bytes(header[16..].try_into().unwrap()) as usize];
        self.stream.read_exact(&mut data)?;
        Ok((u32::from_be_bytes(header[12..16].try_into().unwrap()), data))
    }

    /// All replies to an option, the last of which acknowledges or refuses.
    pub fn option(&mut self, code: u32, data: &[u8]) -> io::Result<Vec<(u32, Vec<u8>)>> {
        self.send_option(code, data)?;
        let mut replies = Vec::new();
        loop {
            let reply = self.option_reply()?;
            let is_last = reply.0 == REP_ACK || reply.0 >> 31 == 1;
            replies.push(reply);
            if is_last {
                return Ok(replies);
            }
        }
    }

    /// Kind of the last reply.
    pub fn verdict(&mut self, code: u32, data: &[u8]) -> io::Result<u32> {
        Ok(self.option(code, data)?.last().unwrap().0)
    }

    /// Opens an export with all there is.
    pub fn open(&mut self, name: &str) -> io::Result<()> {
        assert_eq!(self.verdict(OPT_STRUCTURED_REPLY, &[])?, REP_ACK);
        self.structured = true;
        let query = [string(name), vec![0, 0, 0, 1], string("base:allocation")].concat();
        assert_eq!(self.verdict(OPT_SET_META_CONTEXT, &query)?, REP_ACK);
        self.go(name)
    }

    /// Opens an export with simple replies unless structured ones were asked for.
    pub fn go(&mut self, name: &str) -> io::Result<()> {
        let replies = self.option(OPT_GO, &go_data(name))?;
        if replies.last().unwrap().0 != REP_ACK {
            let message = String::from_utf8_lossy(&replies.last().unwrap().1).into_owned();
            return Err(io::Error::other(message));
        }
        for (_, data) in &replies {
            if data.starts_with(&[0, 0]) {
                self.size_bytes = u64::from_be_bytes(data[2..10].try_into().unwrap());
                self.flags = u16::from_be_bytes(data[10..12].try_into().unwrap());
            }
        }
        Ok(())
    }

    pub fn send_request(
        &mut self,
        command: u16,
        flags: u16,
        cookie: u64,
        offset: u64,
        length: u32,
    ) -> io::Result<()> {
        self.stream
            .write_all(&request(command, flags, cookie, offset, length))
    }

    /// The next reply; `length` is that of the read whose data a simple reply would bring.
    pub fn reply(&mut self, length: usize) -> io::Result<Reply> {
        let mut magic = [0; 4];
        self.stream.read_exact(&mut magic)?;
        if u32::from_be_bytes(magic) == 0x6744_6698 {
            let mut rest = [0; 12];
            self.stream.read_exact(&mut rest)?;
            let errno = u32::from_be_bytes(rest[..4].try_into().unwrap());
            let mut data = vec![0; if errno == 0 { length } else { 0 }];
            self.stream.read_exact(&mut data)?;
            return Ok(Reply {
                cookie: u64::from_be_bytes(rest[4..].try_into().unwrap()),
                errno,
                data,
                extents: Vec::new(),
            });
        }
        assert_eq!(u32::from_be_bytes(magic), 0x668E_33EF, "a reply's magic");
        let mut rest = [0; 16];
        self.stream.read_exact(&mut rest)?;
        assert_eq!(rest[..2], [0, 1], "one chunk is all");
        let kind = u16::from_be_bytes(rest[2..4].try_into().unwrap());
        let mut body = vec![0; u32::from_be_bytes(rest[12..].try_into().unwrap()) as usize];
        self.stream.read_exact(&mut body)?;
        let mut reply = Reply {
            cookie: u64::from_be_bytes(rest[4..12].try_into().unwrap()),
            errno: 0,
            data: Vec::new(),
            extents: Vec::new(),
        };
        match kind {
            0 => assert!(body.is_empty()),
            1 => reply.data = body.split_off(8),
            5 => {
                assert_eq!(body[..4], [0, 0, 0, 1]);
                reply.extents = body[4..]
                    .chunks_exact(8)
                    .map(|extent| {
                        let (length, state) = extent.split_at(4);
                        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
                        (number(length), number(state))
                    })
                    .collect();
            }
            0x8001 => {
                reply.errno = u32::from_be_bytes(body[..4].try_into().unwrap());
                reply.data = body.split_off(6);
            }
            other => panic!("a chunk of kind {other}"),
        }
        Ok(reply)
    }

    /// One request and its reply.
    pub fn ask(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> io::Result<Reply> {
        self.send_request(command, flags, 77, offset, length)?;
        self.stream.write_all(payload)?;
        let expected = if command == READ { length as usize } else { 0 };
        let reply = self.reply(if self.structured { 0 } else { expected })?;
        assert_eq!(reply.cookie, 77);
        Ok(reply)
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        let reply = self.ask(READ, 0, offset, length, &[]).unwrap();
        assert_eq!(reply.errno, 0, "{reply:?}");
        reply.data
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let reply = self.ask(WRITE, 0, offset, data.len() as u32, data).unwrap();
        assert_eq!(reply.errno, 0, "{reply:?}");
    }

    /// Whether the server has closed the connection, after what it still had to say.
    pub fn is_closed(&mut self) -> bool {
        io::copy(&mut self.stream, &mut io::sink()).is_ok()
    }
}

pub fn request(command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

pub fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

/// The data of GO and INFO that asks for everything.
pub fn go_data(name: &str) -> Vec<u8> {
    [string(name), vec![0, 3, 0, 1, 0, 2, 0, 3]].concat()
}
