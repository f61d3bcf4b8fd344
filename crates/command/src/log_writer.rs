//! Where log lines go: standard error, which may be a pipe without a reader, a full disk, or gone.
//!
//! A line that is not taken is dropped and counted. Logging never fails, and never blocks a thread
//! for longer than `PATIENCE`, once until lines are taken again.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tracing_subscriber::fmt::MakeWriter;

/// How long a reader that has fallen behind may hold up a line.
const PATIENCE: Duration = Duration::from_millis(100);

/// What a pipe that takes anything takes at once.
const PIECE_BYTES: usize = 4096;

static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Whether notes of ours are JSON too.
static IS_JSON: AtomicBool = AtomicBool::new(false);

static STATE: Mutex<State> = Mutex::new(State {
    untold: 0,
    is_torn: false,
    is_behind: false,
});

struct State {
    /// Lines dropped of which the log itself does not tell yet.
    untold: u64,
    /// A line was taken in part: the next one starts on a line of its own.
    is_torn: bool,
    /// The reader took nothing the last time.
    is_behind: bool,
}

/// Log lines that were dropped so far.
pub fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// The way to standard error.
#[derive(Clone, Copy, Debug)]
pub struct LogWriter;

impl LogWriter {
    /// For lines of text, or of JSON.
    pub fn new(is_json: bool) -> LogWriter {
        IS_JSON.store(is_json, Ordering::Relaxed);
        LogWriter
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = LogWriter;

    fn make_writer(&'a self) -> LogWriter {
        LogWriter
    }
}

impl Write for LogWriter {
    /// Takes a line whole, whatever becomes of it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = STATE.lock();
        state.write(line, io::stderr().as_fd());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl State {
    fn write(&mut self, line: &[u8], to: impl AsFd) {
        let mut text = Vec::with_capacity(line.len() + 80);
        if self.is_torn {
            text.push(b'\n');
        }
        if self.untold > 0 {
            text.extend(note(self.untold).into_bytes());
        }
        text.extend_from_slice(line);
        match self.send(&text, to) {
            Ok(()) => {
                self.untold = 0;
                self.is_torn = false;
            }
            Err(sent_bytes) => {
                self.is_torn |= sent_bytes > 0;
                self.untold += 1;
                DROPPED.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// # Errors
    /// How much was taken, where it was not all.
    fn send(&mut self, text: &[u8], to: impl AsFd) -> Result<(), usize> {
        let mut sent = 0;
        while sent < text.len() {
            if !self.wait(&to) {
                return Err(sent);
            }
            let piece = &text[sent..text.len().min(sent + PIECE_BYTES)];
            match rustix::io::write(&to, piece) {
                Ok(0) => return Err(sent),
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(_) => return Err(sent),
            }
        }
        Ok(())
    }

    /// Waits until it takes something; false where that takes too long.
    fn wait(&mut self, to: &impl AsFd) -> bool {
        let patience = if self.is_behind {
            Duration::ZERO
        } else {
            PATIENCE
        };
        let timeout = Timespec::try_from(patience).expect("a short time");
        let mut waited = [PollFd::new(to, PollFlags::OUT)];
        // An error is told by the write as well.
        self.is_behind = matches!(poll(&mut waited, Some(&timeout)), Ok(0));
        !self.is_behind
    }
}

fn note(lines: u64) -> String {
    let what = format!("{lines} log lines were dropped before this: they could not be written");
    match IS_JSON.load(Ordering::Relaxed) {
        true => format!("{{\"level\":\"WARN\",\"message\":\"{what}\",\"dropped\":{lines}}}\n"),
        false => format!("WARN {what}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};

    #[test]
    fn a_line_that_was_taken_in_part_does_not_run_into_the_next() {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut state = State {
            untold: 0,
            is_torn: false,
            is_behind: true,
        };
        state.write(&[b'x'; 1 << 20], &writer);
        assert!(state.is_torn && state.is_behind);
        assert_eq!(state.untold, 1);
        let mut buffer = vec![0; 1 << 20];
        let mut taken = 0;
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        while let Ok(count @ 1..) = rustix::io::read(&reader, &mut buffer) {
            taken += count;
        }
        assert!((1..1 << 20).contains(&taken));
        state.write(b"next\n", &writer);
        let count = rustix::io::read(&reader, &mut buffer).unwrap();
        let text = String::from_utf8_lossy(&buffer[..count]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].is_empty() && lines[1].starts_with("WARN 1 log lines"),
            "{text}"
        );
        assert_eq!(lines[2], "next");
        assert_eq!(state.untold, 0);
    }
}
