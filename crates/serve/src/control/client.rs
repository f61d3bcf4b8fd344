//! The asking side of the control socket.

use std::io::{self, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::protocol::{ANSWER_BYTES_MAX, Refusal, Reply, Request, read_line};

/// Why a request had no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The daemon said no.
    #[error("{0}")]
    Refused(Refusal),
    /// The connection failed, or what came was no answer.
    #[error("the daemon at {}: {source}", path.display())]
    Connection {
        /// The control socket.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
}

/// A connection to a daemon. Requests on it are answered one after the other.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the daemon that listens on `path`; `None` where none does.
    ///
    /// # Errors
    /// The socket is there and cannot be opened.
    pub fn connect(path: &Path) -> Result<Option<Self>, ClientError> {
        match UnixStream::connect(path) {
            Ok(stream) => Ok(Some(Client {
                path: path.to_path_buf(),
                stream: BufReader::new(stream),
            })),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) =>
            {
                Ok(None)
            }
            Err(source) => Err(ClientError::Connection {
                path: path.to_path_buf(),
                source,
            }),
        }
    }

    /// Asks, and waits for the result however long that takes. `on_progress` is called with each
    /// report of progress; once it returns false, the request is cancelled: the answer then says
    /// so, or is the result where it was too late. The connection cannot be used after that.
    ///
    /// # Errors
    /// The daemon refused, or went away.
    pub fn request(
        &mut self,
        request: &Request,
        mut on_progress: impl FnMut(Value) -> bool,
    ) -> Result<Value, ClientError> {
        self.write(request).map_err(|source| self.failed(source))?;
        loop {
            match self.read().map_err(|source| self.failed(source))? {
                Reply::Done(result) => return Ok(result),
                Reply::Refused(refusal) => return Err(ClientError::Refused(refusal)),
                Reply::Progress(progress) => {
                    if !on_progress(progress) {
                        // The daemon sees that nothing more will come. If this fails it has ended,
                        // which the next read tells.
                        let _ = self.stream.get_ref().shutdown(Shutdown::Write);
                    }
                }
            }
        }
    }

    fn write(&mut self, request: &Request) -> io::Result<()> {
        self.stream
            .get_mut()
            .write_all(request.to_line().as_bytes())
    }

    fn read(&mut self) -> io::Result<Reply> {
        match read_line(&mut self.stream, ANSWER_BYTES_MAX)? {
            Some(line) => Reply::parse(&line),
            None => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it ended before it answered",
            )),
        }
    }

    fn failed(&self, source: io::Error) -> ClientError {
        ClientError::Connection {
            path: self.path.clone(),
            source,
        }
    }
}
