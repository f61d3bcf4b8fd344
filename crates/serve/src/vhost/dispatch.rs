//! One message of a client carried out: what it says is taken apart, the session told, an answer
//! sent where the message has one.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crate::vhost::memory::{REGIONS_MAX, RegionPlace};
use crate::vhost::session::Session;
use crate::vhost::wire::{Message, Numbers, code, invalid, receive, reply};

/// Queues in one byte: the descriptor messages have no more room for it.
const QUEUE_MASK: u64 = 0xff;

/// In a descriptor message: none came with it.
const FLAG_NO_DESCRIPTOR: u64 = 1 << 8;

/// What a message is answered with.
enum Answer {
    /// Only whether it succeeded, and only where the client asks for that.
    Acknowledgement,
    Number(u64),
    Bytes(Vec<u8>),
}

/// Serves a client until it disconnects.
///
/// # Errors
/// It broke the protocol, or the socket failed; it is not to be served any more.
pub(crate) fn serve(stream: &UnixStream, session: &mut Session) -> io::Result<()> {
    while let Some(message) = receive(stream)? {
        let (code, needs_reply) = (message.code, message.needs_reply);
        let is_acknowledged = |session: &Session| needs_reply && session.has_reply_ack();
        match carry_out(message, session) {
            Ok(Answer::Number(number)) => reply(stream, code, &number.to_ne_bytes(), None)?,
            Ok(Answer::Bytes(bytes)) => reply(stream, code, &bytes, None)?,
            Ok(Answer::Acknowledgement) if is_acknowledged(session) => {
                reply(stream, code, &0_u64.to_ne_bytes(), None)?;
            }
            Ok(Answer::Acknowledgement) => {}
            // A front end that is told can go on; but where it expects a number, this would pass
            // for one.
            Err(error) if is_acknowledged(session) && !has_answer(code) => {
                if let Some(left_out) = session.complaint() {
                    tracing::warn!(
                        message = code, %error, left_out,
                        "a vhost-user client is refused something"
                    );
                }
                reply(stream, code, &1_u64.to_ne_bytes(), None)?;
            }
            Err(error) => return Err(invalid(format!("message {code}: {error}"))),
        }
    }
    Ok(())
}

/// Whether a message that may fail is answered with something else than whether it worked.
fn has_answer(code: u32) -> bool {
    matches!(code, code::GET_VRING_BASE | code::GET_CONFIG)
}

fn carry_out(message: Message, session: &mut Session) -> io::Result<Answer> {
    let mut numbers = Numbers::of(&message.payload);
    match message.code {
        code::GET_FEATURES => return Ok(Answer::Number(session.offered())),
        code::GET_PROTOCOL_FEATURES => {
            return Ok(Answer::Number(session.offered_of_protocol()));
        }
        code::GET_QUEUE_NUM => return Ok(Answer::Number(session.queue_count())),
        code::GET_MAX_MEM_SLOTS => return Ok(Answer::Number(REGIONS_MAX as u64)),
        code::GET_VRING_BASE => {
            let index = numbers.u32()?;
            let base = session.stop_queue(index)?;
            let both = [index.to_ne_bytes(), base.to_ne_bytes()];
            return Ok(Answer::Bytes(both.concat()));
        }
        code::GET_CONFIG => return get_config(numbers, session).map(Answer::Bytes),
        code::SET_FEATURES => session.set_features(numbers.u64()?)?,
        code::SET_PROTOCOL_FEATURES => session.set_protocol_features(numbers.u64()?)?,
        // Nothing to do: the connection has one client only.
        code::SET_OWNER => {}
        code::RESET_OWNER => session.disable_all(),
        code::RESET_DEVICE => session.reset(),
        code::SET_BACKEND_REQ_FD => session.keep_channel(message.descriptors),
        code::SET_MEM_TABLE => {
            let regions = regions_of(numbers)?;
            session
                .change_memory(|table| table.replace(&regions, files_of(message.descriptors)))?;
        }
        code::ADD_MEM_REG => {
            let region = region_after_padding(numbers)?;
            let [file] = <[File; 1]>::try_from(files_of(message.descriptors))
                .map_err(|_| invalid("one region comes with one descriptor"))?;
            session.change_memory(|table| table.add(&region, file))?;
        }
        code::REM_MEM_REG => {
            let region = region_after_padding(numbers)?;
            session.change_memory(|table| table.remove(&region))?;
        }
        code::SET_VRING_NUM => session.set_queue_size(numbers.u32()?, numbers.u32()?)?,
        code::SET_VRING_BASE => session.set_queue_base(numbers.u32()?, numbers.u32()?)?,
        code::SET_VRING_ENABLE => {
            let (index, is_enabled) = (numbers.u32()?, numbers.u32()?);
            session.enable_queue(index, is_enabled != 0)?;
        }
        code::SET_VRING_ADDR => {
            let (index, _flags) = (numbers.u32()?, numbers.u32()?);
            let (descriptors, used) = (numbers.u64()?, numbers.u64()?);
            session.place_queue(index, [descriptors, numbers.u64()?, used])?;
        }
        code::SET_VRING_KICK | code::SET_VRING_CALL | code::SET_VRING_ERR => {
            let (index, descriptor) = queue_descriptor(numbers, message.descriptors)?;
            match message.code {
                code::SET_VRING_KICK => session.set_kick(index, descriptor)?,
                code::SET_VRING_CALL => session.set_call(index, descriptor)?,
                _ => session.set_error(index, descriptor)?,
            }
        }
        code::SET_CONFIG => {
            let (offset, _size, _flags) = (numbers.u32()?, numbers.u32()?, numbers.u32()?);
            session.set_config(offset, numbers.rest())?;
        }
        _ => return Err(invalid("it is not offered by this server")),
    }
    Ok(Answer::Acknowledgement)
}

fn files_of(descriptors: Vec<OwnedFd>) -> Vec<File> {
    descriptors.into_iter().map(File::from).collect()
}

fn region(numbers: &mut Numbers<'_>) -> io::Result<RegionPlace> {
    Ok(RegionPlace {
        guest_address: numbers.u64()?,
        bytes: numbers.u64()?,
        user_address: numbers.u64()?,
        file_offset: numbers.u64()?,
    })
}

/// What follows the regions that there are does not matter: some clients send room for more.
fn regions_of(mut numbers: Numbers<'_>) -> io::Result<Vec<RegionPlace>> {
    let (count, _padding) = (numbers.u32()?, numbers.u32()?);
    (0..count).map(|_| region(&mut numbers)).collect()
}

fn region_after_padding(mut numbers: Numbers<'_>) -> io::Result<RegionPlace> {
    let _padding = numbers.u64()?;
    region(&mut numbers)
}

fn queue_descriptor(
    mut numbers: Numbers<'_>,
    descriptors: Vec<OwnedFd>,
) -> io::Result<(u32, Option<OwnedFd>)> {
    let number = numbers.u64()?;
    let has_none = number & FLAG_NO_DESCRIPTOR != 0;
    let mut descriptors = descriptors.into_iter();
    match (has_none, descriptors.next(), descriptors.next()) {
        (true, None, None) => Ok(((number & QUEUE_MASK) as u32, None)),
        (false, Some(descriptor), None) => Ok(((number & QUEUE_MASK) as u32, Some(descriptor))),
        _ => Err(invalid("it says otherwise of its descriptor than it has")),
    }
}

/// A part of the configuration space; nothing where there is no such part, which is how a client is
/// told.
fn get_config(mut numbers: Numbers<'_>, session: &Session) -> io::Result<Vec<u8>> {
    let (offset, bytes, flags) = (numbers.u32()?, numbers.u32()?, numbers.u32()?);
    let Some(part) = session.config(offset, bytes) else {
        return Ok(Vec::new());
    };
    let mut answer = [offset, bytes, flags].map(u32::to_ne_bytes).concat();
    answer.extend(part);
    Ok(answer)
}
