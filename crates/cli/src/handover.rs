//! What the processes of `forebay run --shared` tell each other, over a pair of sockets without a name: no other process
//! can reach it.
//!
//! The broker says which directory it serves, once, when the pool is open. The process that becomes the program answers with the
//! mount that it has made. Where it ends without one, the broker sees the end of the stream.
//!
//! Over a second pair the broker tells the command when the last process has ended, and the command the broker when what
//! is left of them is not to be waited for.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use forebay_mount::{DirectoryIdentity, PrivateMount};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Of a mount in the host's user namespace, made by root.
const OF_ROOT: u8 = b'h';
/// Of a mount in a user namespace of its own.
const OF_USER: u8 = b'u';

/// The broker's: no process has the directory any more.
const OVER: u8 = b'o';
/// The command's: those that still have it are to get errors.
const END_NOW: u8 = b'e';

/// No process has the directory any more.
pub fn say_over(control: &UnixStream) {
    say(control, OVER);
}

/// Processes that still have the directory are to get errors.
pub fn say_end_now(control: &UnixStream) {
    say(control, END_NOW);
}

/// A process that is gone needs no word.
fn say(control: &UnixStream, word: u8) {
    let _ = rustix::net::send(control, &[word], SendFlags::NOSIGNAL);
}

/// Waits for the other side's word, of which there is one kind; `false` if it has ended.
pub fn await_word(mut control: &UnixStream) -> io::Result<bool> {
    let mut word = [0];
    Ok(control.read(&mut word)? == 1)
}

/// The pool is open, and of this directory.
pub fn say_ready(socket: &mut UnixStream, served: DirectoryIdentity) -> io::Result<()> {
    let numbers = [served.device.to_ne_bytes(), served.inode.to_ne_bytes()];
    socket.write_all(&numbers.concat())
}

/// The directory that the broker serves, once it has the pool; if it has none, it has said why.
pub fn await_ready(socket: &mut UnixStream) -> io::Result<Option<DirectoryIdentity>> {
    let mut numbers = [[0; 8]; 2];
    for number in &mut numbers {
        match socket.read_exact(number) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
    }
    let [device, inode] = numbers.map(u64::from_ne_bytes);
    Ok(Some(DirectoryIdentity { device, inode }))
}

/// Hands the mount over to the process that serves it.
pub fn give_mount(socket: &UnixStream, mount: &PrivateMount) -> io::Result<()> {
    let kind = match mount.is_of_root {
        true => OF_ROOT,
        false => OF_USER,
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let devices = [mount.device.as_fd()];
    let fits = control.push(SendAncillaryMessage::ScmRights(&devices));
    assert!(fits, "there is room for one descriptor");
    let message = [IoSlice::new(std::slice::from_ref(&kind))];
    sendmsg(socket, &message, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The mount to serve; nothing if none was made.
pub fn take_mount(socket: &UnixStream) -> io::Result<Option<PrivateMount>> {
    let mut kind = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut kind)];
    let received = recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let device = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut devices) => devices.next(),
        _ => None,
    });
    match (received.bytes, device) {
        (0, _) => Ok(None),
        (_, Some(device)) => Ok(Some(PrivateMount {
            device,
            is_of_root: kind == [OF_ROOT],
        })),
        (_, None) => Err(io::Error::other("a message without a mount")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_arrives_as_it_was_said_and_an_end_is_none() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let served = DirectoryIdentity {
            device: 7,
            inode: u64::MAX,
        };
        say_ready(&mut ours, served).unwrap();
        drop(ours);
        assert_eq!(await_ready(&mut theirs).unwrap(), Some(served));
        assert_eq!(await_ready(&mut theirs).unwrap(), None);
    }

    #[test]
    fn a_mount_arrives_as_it_was_given_and_an_end_is_none() {
        for is_of_root in [false, true] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let device = std::fs::File::open("/dev/null").unwrap().into();
            give_mount(&ours, &PrivateMount { device, is_of_root }).unwrap();
            let mount = take_mount(&theirs).unwrap().unwrap();
            assert_eq!(mount.is_of_root, is_of_root);
            let status = rustix::fs::fstat(&mount.device).unwrap();
            assert_eq!(status.st_rdev, rustix::fs::makedev(1, 3));
            drop(ours);
            assert!(take_mount(&theirs).unwrap().is_none());
        }
    }
}
