//! Calls of gRPC, one at a time over a connection: a request of HTTP/2 (RFC 9113) whose body is a message behind its
//! length. The caller's thread waits; there is no other.
//!
//! Headers that come back are not read. They need not be: a server sends the message of an answer if the call
//! succeeded, and a status alone if it failed.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use forebay_harness::Result;

const CONNECT_DEADLINE: Duration = Duration::from_secs(1);
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEADER_BYTES: usize = 9;
/// What a frame may have unless more was agreed (RFC 9113, section 4.2).
const FRAME_BYTES_MAX: usize = 1 << 14;
/// Of gRPC's own: whether the message is compressed, and its length.
const MESSAGE_HEADER_BYTES: usize = 5;
/// All that a connection may be sent, so that no leave for more has to be given: no run needs so many bytes.
const WINDOW_BYTES: u32 = (1 << 31) - 1;
/// A new connection's (section 6.9.2).
const FIRST_WINDOW_BYTES: u32 = (1 << 16) - 1;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const FLAG_ACK: u8 = 1;
const FLAG_END_STREAM: u8 = 1;
const FLAG_END_HEADERS: u8 = 4;
const FLAG_PADDED: u8 = 8;

const SETTING_INITIAL_WINDOW_SIZE: u16 = 4;

#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    authority: String,
    /// A client's are odd.
    next_stream: u32,
}

#[derive(Debug)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Connection {
    /// # Errors
    /// There is no server.
    pub fn open(server: SocketAddr) -> Result<Connection> {
        let stream = TcpStream::connect_timeout(&server, CONNECT_DEADLINE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_DEADLINE))?;
        stream.set_write_timeout(Some(ANSWER_DEADLINE))?;
        let mut settings = SETTING_INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
        settings.extend(WINDOW_BYTES.to_be_bytes());
        let more = WINDOW_BYTES - FIRST_WINDOW_BYTES;
        let mut first = PREFACE.to_vec();
        push_frame(&mut first, (SETTINGS, 0), 0, &settings);
        push_frame(&mut first, (WINDOW_UPDATE, 0), 0, &more.to_be_bytes());
        (&stream).write_all(&first)?;
        Ok(Connection {
            stream,
            authority: server.to_string(),
            next_stream: 1,
        })
    }

    /// Calls a method, as `/package.Service/Method`; the message of the answer.
    ///
    /// # Errors
    /// The call failed, or the connection did, which is not to be used any more then. What was asked for may have been done.
    pub fn call(&mut self, method: &str, message: &[u8]) -> Result<Vec<u8>> {
        let stream = self.next_stream;
        self.next_stream += 2;
        let mut body = vec![0];
        body.extend(u32::try_from(message.len())?.to_be_bytes());
        body.extend(message);
        assert!(body.len() <= FRAME_BYTES_MAX, "one frame");
        let mut request = Vec::new();
        let header = (HEADERS, FLAG_END_HEADERS);
        push_frame(
            &mut request,
            header,
            stream,
            &headers(&self.authority, method),
        );
        push_frame(&mut request, (DATA, FLAG_END_STREAM), stream, &body);
        self.stream.write_all(&request)?;
        let mut answer = Vec::new();
        loop {
            let frame = self.next_frame()?;
            let is_ours = frame.stream == stream;
            match frame.kind {
                DATA if is_ours => answer.extend(unpadded(&frame)?),
                RESET if is_ours => return Err("the call was called off".into()),
                GO_AWAY => return Err("the server goes away".into()),
                SETTINGS if frame.flags & FLAG_ACK == 0 => self.answer(SETTINGS, &[])?,
                PING if frame.flags & FLAG_ACK == 0 => self.answer(PING, &frame.payload)?,
                _ => {}
            }
            let can_end = matches!(frame.kind, DATA | HEADERS);
            if is_ours && can_end && frame.flags & FLAG_END_STREAM != 0 {
                break;
            }
        }
        unwrapped(&answer, method)
    }

    fn answer(&mut self, kind: u8, payload: &[u8]) -> Result<()> {
        let mut frame = Vec::new();
        push_frame(&mut frame, (kind, FLAG_ACK), 0, payload);
        Ok(self.stream.write_all(&frame)?)
    }

    fn next_frame(&mut self) -> Result<Frame> {
        let mut header = [0; FRAME_HEADER_BYTES];
        self.read(&mut header)?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(format!("a frame of {length} bytes").into());
        }
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let mut payload = vec![0; length];
        self.read(&mut payload)?;
        Ok(Frame {
            kind: header[3],
            flags: header[4],
            stream: stream & (u32::MAX >> 1),
            payload,
        })
    }

    fn read(&mut self, to: &mut [u8]) -> Result<()> {
        let read = self.stream.read_exact(to);
        read.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => "no answer in time".into(),
            _ => error.into(),
        })
    }
}

fn push_frame(to: &mut Vec<u8>, (kind, flags): (u8, u8), stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("a short frame");
    to.extend(&length.to_be_bytes()[1..]);
    to.extend([kind, flags]);
    to.extend(stream.to_be_bytes());
    to.extend(payload);
}

/// A request's headers (RFC 7541): names of the static table by their number, all other texts as they are, none to be
/// remembered.
fn headers(authority: &str, method: &str) -> Vec<u8> {
    const METHOD_POST: u8 = 0x80 | 3;
    const SCHEME_HTTP: u8 = 0x80 | 6;
    const AUTHORITY: u8 = 1;
    const PATH: u8 = 4;
    /// 31, of which the first octet has 15.
    const CONTENT_TYPE: [u8; 2] = [15, 16];
    const NEW_NAME: u8 = 0;
    let mut all = vec![METHOD_POST, SCHEME_HTTP];
    let push_text = |all: &mut Vec<u8>, text: &str| {
        assert!(text.len() < 127, "a length of one octet");
        all.push(text.len() as u8);
        all.extend(text.bytes());
    };
    all.push(PATH);
    push_text(&mut all, method);
    all.push(AUTHORITY);
    push_text(&mut all, authority);
    all.extend(CONTENT_TYPE);
    push_text(&mut all, "application/grpc");
    all.push(NEW_NAME);
    push_text(&mut all, "te");
    push_text(&mut all, "trailers");
    all
}

/// A frame of data without what fills it up.
fn unpadded(frame: &Frame) -> Result<&[u8]> {
    if frame.flags & FLAG_PADDED == 0 {
        return Ok(&frame.payload);
    }
    let padding = usize::from(*frame.payload.first().ok_or("an empty padded frame")?);
    let end = frame.payload.len().checked_sub(padding);
    let data = end.and_then(|end| frame.payload.get(1..end));
    data.ok_or_else(|| "more padding than frame".into())
}

/// The one message of an answer.
fn unwrapped(answer: &[u8], method: &str) -> Result<Vec<u8>> {
    if answer.is_empty() {
        return Err(format!("{method} failed").into());
    }
    let (header, message) = answer
        .split_at_checked(MESSAGE_HEADER_BYTES)
        .ok_or("half a message")?;
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    if header[0] != 0 || length != message.len() {
        return Err(format!("{method}: not one plain message").into());
    }
    Ok(message.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// A server that reads one request, and answers with these frames.
    fn call_of(frames: Vec<(u8, u8, u32, Vec<u8>)>) -> Result<Vec<u8>> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut said = vec![0; PREFACE.len()];
            stream.read_exact(&mut said).expect("a preface");
            assert_eq!(said, PREFACE);
            for (kind, flags, stream_number, payload) in frames {
                let mut frame = Vec::new();
                push_frame(&mut frame, (kind, flags), stream_number, &payload);
                stream.write_all(&frame).expect("written");
            }
            // Until the client closes, or what it still sends would make the kernel drop what it has not read.
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
            rest
        });
        let called = Connection::open(address)?.call("/a.B/C", b"ask");
        let asked = server.join().expect("a server");
        assert!(
            asked.windows(8).any(|part| part == b"\0\0\0\0\x03ask"),
            "{asked:?}"
        );
        called
    }

    #[test]
    fn the_message_of_an_answer_comes_in_parts_among_other_frames() {
        let answer = call_of(vec![
            (SETTINGS, 0, 0, Vec::new()),
            (HEADERS, FLAG_END_HEADERS, 1, vec![0x88]),
            (PING, 0, 0, vec![1; 8]),
            (DATA, 0, 1, b"\0\0\0\0\x04an".to_vec()),
            (DATA, FLAG_PADDED, 1, b"\x02sw\0\0".to_vec()),
            (HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM, 1, vec![0x88]),
        ]);
        assert_eq!(answer.expect("an answer"), b"answ");
    }

    #[test]
    fn a_status_alone_and_a_server_that_goes_are_failures() {
        let ended = FLAG_END_HEADERS | FLAG_END_STREAM;
        for frames in [
            vec![(HEADERS, ended, 1, vec![0x88])],
            vec![(GO_AWAY, 0, 0, vec![0; 8])],
            vec![(RESET, 0, 1, vec![0; 4])],
            vec![(DATA, FLAG_END_STREAM, 1, b"\0\0\0\0\x09short".to_vec())],
        ] {
            assert!(call_of(frames).is_err());
        }
    }
}
