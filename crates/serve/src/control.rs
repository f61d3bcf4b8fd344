//! The control socket: how a command asks the daemon that owns a pool.
//!
//! One JSON object a line each way. A request is `{"command": NAME}`; an answer is
//! `{"ok": true, "result": …}` or `{"ok": false, "error": MESSAGE}`. The socket lies beside the pool's
//! first member, is named after it with `.sock` added, and only its owner may open it (mode 0600).

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

/// The longest line either side accepts: an answer holds some hundred numbers.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Clients served at the same time; more are told to come again.
const CLIENTS_MAX: usize = 16;

/// How long a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the daemon that serves the pool with this first member listens.
pub fn control_path(pool_member: &Path) -> PathBuf {
    let mut name = pool_member.as_os_str().to_owned();
    name.push(".sock");
    PathBuf::from(name)
}

/// Answers one command: the result, or a message that says what went wrong.
pub type Handler = dyn Fn(&str) -> Result<Value, String> + Send + Sync;

/// A listening control socket. Dropping it stops the listener and removes the socket.
#[derive(Debug)]
pub struct ControlServer {
    path: PathBuf,
    is_stopping: Arc<AtomicBool>,
    listener: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Listens on `path`. The caller owns the pool (holds its lock), so a socket found there was
    /// left by a daemon that was killed, and is replaced.
    pub fn new(path: &Path, handler: Arc<Handler>) -> io::Result<Self> {
        let name_error = |error: io::Error| {
            io::Error::new(
                error.kind(),
                format!(
                    "the control socket {} cannot be made ({error}); a socket's path may have 107 bytes",
                    path.display()
                ),
            )
        };
        let listener = bind_private(path).map_err(name_error)?;
        let is_stopping = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("control".into()).spawn({
            let is_stopping = Arc::clone(&is_stopping);
            move || accept(&listener, &is_stopping, &handler)
        })?;
        Ok(ControlServer {
            path: path.to_path_buf(),
            is_stopping,
            listener: Some(thread),
        })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        // The listener sleeps in accept; a connection wakes it. If that fails it is gone already.
        let is_awake = UnixStream::connect(&self.path).is_ok();
        if let (true, Some(thread)) = (is_awake, self.listener.take()) {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// Binds in a private directory and moves the socket into place, so that nobody else can connect
/// to it in the moment before its mode is set.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let mut directory = path.as_os_str().to_owned();
    directory.push(".d");
    let directory = PathBuf::from(directory);
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::DirBuilder::new().mode(0o700).create(&directory)?;
    let inside = directory.join("s");
    let bound = UnixListener::bind(&inside).and_then(|listener| {
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o600))?;
        fs::rename(&inside, path)?;
        Ok(listener)
    });
    fs::remove_dir_all(&directory)?;
    bound
}

fn accept(listener: &UnixListener, is_stopping: &AtomicBool, handler: &Arc<Handler>) {
    let clients = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        if is_stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(mut stream) = stream else {
            // Out of descriptors, most likely: leave time for some to be closed.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        if clients.fetch_add(1, Ordering::SeqCst) >= CLIENTS_MAX {
            clients.fetch_sub(1, Ordering::SeqCst);
            let _ = answer(&mut stream, Err("the daemon is busy; ask again".into()));
            continue;
        }
        let (clients, handler) = (Arc::clone(&clients), Arc::clone(handler));
        std::thread::spawn(move || {
            // A client that went away concerns nobody else.
            let _ = serve_client(stream, &*handler);
            clients.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

fn serve_client(stream: UnixStream, handler: &Handler) -> io::Result<()> {
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let mut line = String::new();
        if reader.by_ref().take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let result = match serde_json::from_str::<Value>(&line) {
            Ok(request) => match request["command"].as_str() {
                Some(command) => handler(command),
                None => Err("the request has no \"command\"".into()),
            },
            Err(error) => Err(format!("the request is not a line of JSON: {error}")),
        };
        answer(&mut stream, result)?;
    }
}

fn answer(stream: &mut UnixStream, result: Result<Value, String>) -> io::Result<()> {
    let value = match result {
        Ok(result) => json!({"ok": true, "result": result}),
        Err(error) => json!({"ok": false, "error": error}),
    };
    stream.write_all(format!("{value}\n").as_bytes())
}

/// Asks the daemon that listens on `path`, and waits for its answer however long that takes.
///
/// `Ok(None)` where no daemon listens; `Ok(Some(Err(message)))` where it refused.
pub fn request(path: &Path, command: &str) -> io::Result<Option<Result<Value, String>>> {
    let mut stream = match UnixStream::connect(path) {
        Ok(stream) => stream,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    stream.write_all(format!("{}\n", json!({"command": command})).as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream)
        .take(LINE_BYTES_MAX)
        .read_line(&mut line)?;
    if line.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("the daemon at {} ended before it answered", path.display()),
        ));
    }
    let mut answer: Value = serde_json::from_str(&line)?;
    Ok(Some(if answer["ok"] == true {
        Ok(answer["result"].take())
    } else {
        Err(answer["error"].as_str().unwrap_or("no reason given").into())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echo_server(path: &Path) -> ControlServer {
        ControlServer::new(
            path,
            Arc::new(|command| match command {
                "stat" => Ok(json!({"reads": 7})),
                other => Err(format!("no command {other}")),
            }),
        )
        .unwrap()
    }

    #[test]
    fn a_command_is_answered_and_an_unknown_one_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = control_path(&directory.path().join("pool"));
        let _server = echo_server(&path);
        let answer = request(&path, "stat").unwrap().unwrap().unwrap();
        assert_eq!(answer["reads"], 7);
        let refused = request(&path, "dance").unwrap().unwrap().unwrap_err();
        assert_eq!(refused, "no command dance");
    }

    #[test]
    fn the_socket_is_private_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = control_path(&directory.path().join("pool"));
        let server = echo_server(&path);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(server);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_socket_left_by_a_killed_daemon_is_nobody_and_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = control_path(&directory.path().join("pool"));
        drop(UnixListener::bind(&path).unwrap());
        assert!(request(&path, "stat").unwrap().is_none());
        let _server = echo_server(&path);
        assert!(request(&path, "stat").unwrap().is_some());
    }

    #[test]
    fn nonsense_is_answered_with_a_message() {
        let directory = tempfile::tempdir().unwrap();
        let path = control_path(&directory.path().join("pool"));
        let _server = echo_server(&path);
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"not json\n{}\n").unwrap();
        let mut lines = BufReader::new(stream).lines();
        for _ in 0..2 {
            let line = lines.next().unwrap().unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(answer["ok"], false, "{line}");
        }
    }
}
