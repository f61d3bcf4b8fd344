//! What the children of each fork may still have open, as they tell through the fork's pipe.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

use forebay_files::FileIdentity;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::locking::lock;

/// Bytes of an identity in the pipe.
const MESSAGE_BYTES: usize = 16;

/// A fork, some of whose children may not have exec'd or ended.
pub struct Fork {
    number: u64,
    /// None once no process has the other end.
    pipe: Option<OwnedFd>,
    /// Files that went on into other programs.
    inherited: Vec<FileIdentity>,
}

impl Fork {
    pub fn new(number: u64, pipe: Option<OwnedFd>) -> Fork {
        Fork {
            number,
            pipe,
            inherited: Vec::new(),
        }
    }
}

/// Tells the parent of a file that goes on into the program that this child runs next.
pub fn tell(parent: &OwnedFd, identity: FileIdentity) {
    let mut message = [0; MESSAGE_BYTES];
    message[..8].copy_from_slice(&identity.device.to_ne_bytes());
    message[8..].copy_from_slice(&identity.inode.to_ne_bytes());
    // Writes of this size are whole or not at all; a parent that is gone needs no message.
    let _ = rustix::io::write(parent, &message);
}

/// Reads what the children of all forks have reported.
pub fn look(forks: &Mutex<Vec<Fork>>) {
    for fork in lock(forks).iter_mut() {
        while let Some(pipe) = &fork.pipe {
            let mut polled = [PollFd::new(pipe, PollFlags::IN)];
            let now = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            if !matches!(rustix::event::poll(&mut polled, Some(&now)), Ok(1..)) {
                break;
            }
            let mut message = [0; MESSAGE_BYTES];
            match rustix::io::read(pipe.as_fd(), &mut message) {
                Ok(MESSAGE_BYTES) => {
                    let number =
                        |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
                    fork.inherited.push(FileIdentity {
                        device: number(&message[..8]),
                        inode: number(&message[8..]),
                    });
                }
                Ok(_) => fork.pipe = None,
                Err(_) => break,
            }
        }
    }
    lock(forks).retain(|fork| fork.pipe.is_some() || !fork.inherited.is_empty());
}

/// Whether children of this fork may not have exec'd or ended.
pub fn is_pending(forks: &Mutex<Vec<Fork>>, number: u64) -> bool {
    lock(forks)
        .iter()
        .any(|fork| fork.number == number && fork.pipe.is_some())
}

/// Whether the file went on into another program.
pub fn was_inherited(forks: &Mutex<Vec<Fork>>, number: u64, identity: FileIdentity) -> bool {
    lock(forks)
        .iter()
        .any(|fork| fork.number == number && fork.inherited.contains(&identity))
}
