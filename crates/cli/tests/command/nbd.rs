//! A small NBD client: enough to put load on a daemon, by the specification in the NBD project's
//! doc/proto.md (fixed newstyle, NBD_OPT_GO, simple replies).

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const COMMAND_READ: u16 = 0;
const COMMAND_WRITE: u16 = 1;

pub struct Client {
    stream: UnixStream,
    handle: u64,
}

fn number<const BYTES: usize>(stream: &mut UnixStream) -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

impl Client {
    pub fn open(socket: &Path, export: &str) -> io::Result<Client> {
        let mut stream = UnixStream::connect(socket)?;
        assert_eq!(&number::<16>(&mut stream)?, b"NBDMAGICIHAVEOPT");
        let _flags = number::<2>(&mut stream)?;
        // Fixed newstyle, no zeroes.
        stream.write_all(&3_u32.to_be_bytes())?;
        let mut request = b"IHAVEOPT".to_vec();
        request.extend(OPTION_GO.to_be_bytes());
        request.extend((export.len() as u32 + 6).to_be_bytes());
        request.extend((export.len() as u32).to_be_bytes());
        request.extend(export.as_bytes());
        request.extend(0_u16.to_be_bytes());
        stream.write_all(&request)?;
        loop {
            let _magic_and_option = number::<12>(&mut stream)?;
            let reply = u32::from_be_bytes(number(&mut stream)?);
            let length = u32::from_be_bytes(number(&mut stream)?);
            let mut data = vec![0; length as usize];
            stream.read_exact(&mut data)?;
            match reply {
                REPLY_ACK => return Ok(Client { stream, handle: 0 }),
                error if error >> 31 == 1 => {
                    return Err(io::Error::other(
                        String::from_utf8_lossy(&data).into_owned(),
                    ));
                }
                _ => {}
            }
        }
    }

    fn request(&mut self, command: u16, offset: u64, length: usize, data: &[u8]) -> io::Result<()> {
        self.handle += 1;
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend(0_u16.to_be_bytes());
        request.extend(command.to_be_bytes());
        request.extend(self.handle.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend((length as u32).to_be_bytes());
        request.extend(data);
        self.stream.write_all(&request)?;
        assert_eq!(u32::from_be_bytes(number(&mut self.stream)?), 0x6744_6698);
        let error = u32::from_be_bytes(number(&mut self.stream)?);
        assert_eq!(u64::from_be_bytes(number(&mut self.stream)?), self.handle);
        match error {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error as i32)),
        }
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.request(COMMAND_WRITE, offset, data.len(), data)
    }

    pub fn read(&mut self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        self.request(COMMAND_READ, offset, length, &[])?;
        let mut data = vec![0; length];
        self.stream.read_exact(&mut data)?;
        Ok(data)
    }
}
