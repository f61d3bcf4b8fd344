//! The daemon's side of the control socket: a private socket, a bounded number of clients, one
//! request after the other on each.
//!
//! A client that sends nonsense, or nothing, or disconnects does not affect the others.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown};
use serde_json::Value;

use super::clients::{Clients, Place, TimedReader, TimedWriter};
use super::protocol::{REQUEST_BYTES_MAX, Refusal, RefusalKind, Reply, Request, read_line};

/// Clients served at the same time; more are told to come again.
const CLIENTS_MAX: usize = 16;

/// How long a client may take to send its next request, all of it, or to take an answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the listener rests when it cannot accept, which is for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where a request that takes long says how far it is.
pub trait Progress {
    /// Tells the asking side.
    ///
    /// # Errors
    /// It went away, and the request is to be called off.
    fn report(&mut self, progress: Value) -> Result<(), Refusal>;

    /// Whether the asking side went away; for what waits long between reports.
    fn is_called_off(&self) -> bool;
}

/// Answers requests. Called from several threads at once.
pub trait Handler: Send + Sync {
    /// The result of one request.
    ///
    /// # Errors
    /// Why it was not done.
    fn handle(&self, request: &Request, progress: &mut dyn Progress) -> Result<Value, Refusal>;
}

/// A listening control socket. Dropping it stops the listener and removes the socket.
#[derive(Debug)]
pub struct ControlServer {
    path: PathBuf,
    /// The socket's inode, so that another process's socket is not removed.
    inode: u64,
    is_stopping: Arc<AtomicBool>,
    descriptor: UnixListener,
    listener: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Listens on `path`, on a socket that belongs to `owner` (a user and a group) or to the
    /// process. The caller owns the pool (holds its lock), so a socket found there was left by a
    /// daemon that was killed, and is replaced.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn new(
        path: &Path,
        owner: Option<(u32, u32)>,
        handler: Arc<dyn Handler>,
    ) -> io::Result<Self> {
        let name_error = |error: io::Error| {
            io::Error::new(
                error.kind(),
                format!(
                    "the control socket {} cannot be made ({error}); a socket's path may have 107 bytes, so put the pool where its path is shorter",
                    path.display()
                ),
            )
        };
        let listener = bind_private_for(path, owner).map_err(name_error)?;
        let descriptor = listener.try_clone()?;
        let inode = fs::symlink_metadata(path)?.ino();
        let is_stopping = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("control".into()).spawn({
            let is_stopping = Arc::clone(&is_stopping);
            move || accept(&listener, &is_stopping, &handler)
        })?;
        Ok(ControlServer {
            path: path.to_path_buf(),
            inode,
            is_stopping,
            descriptor,
            listener: Some(thread),
        })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        // The listener sleeps in accept, which fails from now on.
        let is_awake = rustix::net::shutdown(&self.descriptor, Shutdown::Both).is_ok();
        if let (true, Some(thread)) = (is_awake, self.listener.take()) {
            let _ = thread.join();
        }
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds a socket of mode 0600 that belongs to `owner`, a user and a group, or to the process: in a
/// private directory, then moved into place, so that no other user can connect to it before its
/// mode and owner are set, nor have the ownership of another file changed in its stead. A socket at
/// `path` is replaced, whichever process made it; anything else there is left alone.
///
/// # Errors
/// Something else is at `path`, the directory cannot be written, the owner cannot be set, or the path
/// is too long for a socket.
pub fn bind_private_for(path: &Path, owner: Option<(u32, u32)>) -> io::Result<UnixListener> {
    let found = fs::symlink_metadata(path).map(|metadata| metadata.file_type().is_socket());
    if matches!(found, Ok(false)) {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "something that is no socket is there; name another path, or remove it",
        ));
    }
    // Clients must fit the whole path into the address too.
    std::os::unix::net::SocketAddr::from_pathname(path)?;
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let directory = PathBuf::from(name);
    // A daemon that was killed on the way left its directory, with its socket or without.
    if let Ok(left) = open_directory(&directory) {
        let socket = inside(&left);
        if fs::symlink_metadata(&socket).is_ok_and(|found| found.file_type().is_socket()) {
            let _ = fs::remove_file(socket);
        }
    }
    let _ = fs::remove_dir(&directory);
    fs::DirBuilder::new().mode(0o700).create(&directory)?;
    let bound = bind_inside(&directory, path, owner);
    fs::remove_dir(&directory)?;
    bound
}

fn bind_inside(
    directory: &Path,
    path: &Path,
    owner: Option<(u32, u32)>,
) -> io::Result<UnixListener> {
    let handle = open_directory(directory)?;
    let metadata = handle.metadata()?;
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o077 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("another process replaced {}", directory.display()),
        ));
    }
    let short = inside(&handle);
    let listener = UnixListener::bind(&short)?;
    let prepare = || {
        fs::set_permissions(&short, fs::Permissions::from_mode(0o600))?;
        if let Some((user, group)) = owner {
            std::os::unix::fs::lchown(&short, Some(user), Some(group))?;
        }
        fs::rename(&short, path)
    };
    match prepare() {
        Ok(()) => Ok(listener),
        Err(error) => {
            let _ = fs::remove_file(&short);
            Err(error)
        }
    }
}

fn open_directory(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_DIRECTORY)
        .open(path)
}

/// The socket in an open directory: a short name, since a socket's path may have 107 bytes only,
/// and one that no other user can redirect.
fn inside(directory: &fs::File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/s", directory.as_raw_fd()))
}

fn accept(listener: &UnixListener, is_stopping: &AtomicBool, handler: &Arc<dyn Handler>) {
    let clients = Clients::new(CLIENTS_MAX);
    for stream in listener.incoming() {
        if is_stopping.load(Ordering::SeqCst) {
            return;
        }
        let admitted = stream.and_then(|stream| Ok((clients.admit(&stream)?, stream)));
        let Ok((place, stream)) = admitted else {
            std::thread::sleep(ACCEPT_PAUSE);
            continue;
        };
        let Some(place) = place else {
            let busy = Reply::Refused(Refusal::new(
                RefusalKind::Busy,
                format!("the daemon answers {CLIENTS_MAX} clients already; ask again"),
            ));
            // It has room for that, or is no client to wait for.
            let _ = stream.set_nonblocking(true);
            let _ = (&stream).write_all(busy.to_line().as_bytes());
            continue;
        };
        let handler = Arc::clone(handler);
        let spawned = std::thread::Builder::new()
            .name("control-client".into())
            .spawn(move || {
                let _ = serve_stream(stream, &place, &*handler);
            });
        if spawned.is_err() {
            // Out of threads or memory; the client sees its connection closed.
            std::thread::sleep(ACCEPT_PAUSE);
        }
    }
}

fn serve_stream(stream: UnixStream, place: &Place, handler: &dyn Handler) -> io::Result<()> {
    let deadline = Arc::new(Mutex::new(Instant::now()));
    let mut reader = BufReader::new(TimedReader::new(stream.try_clone()?, &deadline));
    let mut writer = TimedWriter::new(&stream, CLIENT_TIMEOUT);
    loop {
        *deadline.lock() = Instant::now() + CLIENT_TIMEOUT;
        place.wait_for_request(true);
        let line = next_request(&mut reader, &mut writer)?;
        place.wait_for_request(false);
        let Some(line) = line else {
            return Ok(());
        };
        answer(&line, &mut writer, handler, &|| has_hung_up(&stream))?;
    }
}

/// Whether the other side will send nothing more.
fn has_hung_up(stream: &UnixStream) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let mut byte = [0_u8; 1];
    match rustix::net::recv(stream, &mut byte, flags) {
        Ok((_, length)) => length == 0,
        Err(error) => error != Errno::AGAIN && error != Errno::INTR,
    }
}

/// Answers a client's requests until it ends, sends a line that is too long, or is too slow. A
/// request that reports progress is called off when `has_hung_up` says that the client went away.
///
/// # Errors
/// The stream's.
pub fn serve_client(
    reader: &mut impl BufRead,
    writer: &mut impl Write,
    handler: &dyn Handler,
    has_hung_up: &dyn Fn() -> bool,
) -> io::Result<()> {
    while let Some(line) = next_request(reader, writer)? {
        answer(&line, writer, handler, has_hung_up)?;
    }
    Ok(())
}

/// The next line; one that is too long is refused.
///
/// # Errors
/// The stream's, and such a line.
fn next_request(reader: &mut impl BufRead, writer: &mut impl Write) -> io::Result<Option<Vec<u8>>> {
    let line = read_line(reader, REQUEST_BYTES_MAX);
    if let Err(error) = &line
        && error.kind() == io::ErrorKind::InvalidData
    {
        let refusal = Refusal::new(RefusalKind::Malformed, error.to_string());
        writer.write_all(Reply::Refused(refusal).to_line().as_bytes())?;
    }
    line
}

fn answer(
    line: &[u8],
    writer: &mut impl Write,
    handler: &dyn Handler,
    has_hung_up: &dyn Fn() -> bool,
) -> io::Result<()> {
    let mut progress = ProgressLines {
        writer: &mut *writer,
        has_hung_up,
    };
    let result = Request::parse(line).and_then(|request| handler.handle(&request, &mut progress));
    let reply = result.map_or_else(Reply::Refused, Reply::Done);
    writer.write_all(reply.to_line().as_bytes())
}

struct ProgressLines<'a, W: Write> {
    writer: &'a mut W,
    has_hung_up: &'a dyn Fn() -> bool,
}

impl<W: Write> Progress for ProgressLines<'_, W> {
    fn report(&mut self, progress: Value) -> Result<(), Refusal> {
        let line = Reply::Progress(progress).to_line();
        let is_told = self.writer.write_all(line.as_bytes()).is_ok();
        if is_told && !(self.has_hung_up)() {
            return Ok(());
        }
        Err(Refusal::new(
            RefusalKind::Cancelled,
            "called off by the side that asked",
        ))
    }

    fn is_called_off(&self) -> bool {
        (self.has_hung_up)()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Client, ClientError, control_path};
    use super::*;
    use serde_json::json;

    struct Echo;

    impl Handler for Echo {
        fn handle(&self, request: &Request, progress: &mut dyn Progress) -> Result<Value, Refusal> {
            match request.command.as_str() {
                "stat" => Ok(json!({"reads": 7})),
                "count" => {
                    for step in 0..request.parameters["to"].as_u64().unwrap() {
                        progress.report(json!({"step": step}))?;
                    }
                    Ok(json!({}))
                }
                other => Err(Refusal::new(
                    RefusalKind::UnknownCommand,
                    format!("no command {other}"),
                )),
            }
        }
    }

    fn echo_server(path: &Path) -> ControlServer {
        ControlServer::new(path, None, Arc::new(Echo)).unwrap()
    }

    fn ask(path: &Path, command: &str) -> Result<Value, ClientError> {
        let mut client = Client::connect(path).unwrap().unwrap();
        client.request(&Request::new(command), |_| true)
    }

    #[test]
    fn a_command_is_answered_and_an_unknown_one_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = control_path(&directory.path().join("pool"));
        let _server = echo_server(&path);
        assert_eq!(ask(&path, "stat").unwrap()["reads"], 7);
        let refused = ask(&path, "dance").unwrap_err();
        assert_eq!(refused.to_string(), "no command dance");
    }

    #[test]
    fn progress_arrives_in_order_and_a_client_that_leaves_calls_it_off() {
        let directory = tempfile::tempdir().unwrap();
        let path = control_path(&directory.path().join("pool"));
        let _server = echo_server(&path);
        let mut client = Client::connect(&path).unwrap().unwrap();
        let mut steps = Vec::new();
        let count = Request::new("count").with("to", 5);
        client
            .request(&count, |progress| {
                steps.push(progress["step"].as_u64().unwrap());
                true
            })
            .unwrap();
        assert_eq!(steps, [0, 1, 2, 3, 4]);
        // A request that would never end is called off by leaving it.
        let endless = Request::new("count").with("to", u64::MAX);
        let error = client.request(&endless, |_| false).unwrap_err();
        assert!(error.to_string().contains("called off"), "{error}");
        assert_eq!(ask(&path, "stat").unwrap()["reads"], 7);
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
    fn a_socket_that_was_put_in_its_place_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = control_path(&directory.path().join("pool"));
        let server = echo_server(&path);
        fs::rename(&path, directory.path().join("ours")).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        drop(server);
        assert!(path.exists(), "it is not ours to remove");
        drop(other);
    }

    #[test]
    fn a_file_in_the_way_is_left_alone_and_a_long_path_works_to_its_limit() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("precious");
        fs::write(&file, "data").unwrap();
        let error = ControlServer::new(&file, None, Arc::new(Echo)).unwrap_err();
        assert!(error.to_string().contains("no socket"), "{error}");
        assert_eq!(fs::read(&file).unwrap(), b"data");
        let unfinished = directory.path().join("sock.new");
        fs::create_dir(&unfinished).unwrap();
        fs::write(unfinished.join("s"), "data").unwrap();
        assert!(ControlServer::new(&directory.path().join("sock"), None, Arc::new(Echo)).is_err());
        assert_eq!(fs::read(unfinished.join("s")).unwrap(), b"data");
        fs::remove_dir_all(unfinished).unwrap();
        let room = 107 - directory.path().as_os_str().len() - 1;
        let longest = directory.path().join("x".repeat(room));
        let server = echo_server(&longest);
        assert!(ask(&longest, "stat").is_ok());
        drop(server);
        let longer = directory.path().join("x".repeat(room + 1));
        assert!(ControlServer::new(&longer, None, Arc::new(Echo)).is_err());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_socket_left_by_a_killed_daemon_answers_nothing_and_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = control_path(&directory.path().join("pool"));
        drop(UnixListener::bind(&path).unwrap());
        assert!(Client::connect(&path).unwrap().is_none());
        let _server = echo_server(&path);
        assert!(ask(&path, "stat").is_ok());
    }

    #[test]
    fn nonsense_is_answered_with_a_message_and_too_much_of_it_ends_the_connection() {
        let directory = tempfile::tempdir().unwrap();
        let path = control_path(&directory.path().join("pool"));
        let _server = echo_server(&path);
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"not json\n{}\n[]\n").unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        for _ in 0..3 {
            let line = lines.next().unwrap().unwrap();
            assert!(line.contains("\"malformed\""), "{line}");
        }
        // The server may hang up before it has read all of it.
        let _ = stream.write_all(&vec![b'x'; REQUEST_BYTES_MAX as usize + 1000]);
        let _ = lines.next();
        assert!(lines.next().is_none_or(|line| line.is_err()));
        assert!(ask(&path, "stat").is_ok());
    }

    #[test]
    fn more_clients_than_places_are_told_so_and_places_come_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = control_path(&directory.path().join("pool"));
        let _server = echo_server(&path);
        let idle: Vec<_> = (0..CLIENTS_MAX)
            .map(|_| UnixStream::connect(&path).unwrap())
            .collect();
        let refused = BufReader::new(UnixStream::connect(&path).unwrap())
            .lines()
            .next()
            .unwrap()
            .unwrap();
        assert!(refused.contains("\"busy\""), "{refused}");
        drop(idle);
        // Places come back as soon as their threads have seen the end.
        while ask(&path, "stat").is_err() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_client_that_dribbles_does_not_keep_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = control_path(&directory.path().join("pool"));
        let _server = echo_server(&path);
        let mut dribbles: Vec<_> = (0..CLIENTS_MAX)
            .map(|_| UnixStream::connect(&path).unwrap())
            .collect();
        let mut bytes = 0;
        // A byte now and then: none of them is ever silent for the time that a client has, and no
        // request is ever whole.
        while dribbles
            .iter_mut()
            .all(|stream| stream.write_all(b" ").is_ok())
        {
            bytes += 1;
            assert!(bytes < 300, "they keep their places");
            std::thread::sleep(CLIENT_TIMEOUT / 50);
        }
        assert!(ask(&path, "stat").is_ok());
    }

    #[test]
    fn clients_that_say_nothing_make_way_for_one_that_asks() {
        let directory = tempfile::tempdir().unwrap();
        let path = control_path(&directory.path().join("pool"));
        let _server = echo_server(&path);
        let idle: Vec<_> = (0..CLIENTS_MAX)
            .map(|_| UnixStream::connect(&path).unwrap())
            .collect();
        let mut refusals = 0;
        while ask(&path, "stat").is_err() {
            refusals += 1;
            assert!(refusals < 3000, "none makes way");
            std::thread::sleep(Duration::from_millis(1));
        }
        let is_gone = |stream: &&UnixStream| has_hung_up(stream);
        assert_eq!(idle.iter().filter(is_gone).count(), 1);
    }
}
