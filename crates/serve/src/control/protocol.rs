//! The lines of the control socket: what a request, a refusal and an answer look like.
//!
//! Whatever bytes arrive, parsing ends in a value or in a [`Refusal`] with a reason, and holds no
//! more than one line of [`REQUEST_BYTES_MAX`].

use std::fmt;
use std::io::{self, BufRead, Read};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// The version that this side speaks; a request of another one is refused with a message.
pub const PROTOCOL_VERSION: u64 = 1;

/// The longest request: a command, a few names and paths.
pub const REQUEST_BYTES_MAX: u64 = 64 << 10;

/// The longest answer: some hundred numbers for each of a pool's volumes.
pub const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// The parameters of a command, as both sides have them. They serialize as an object, and refuse
/// unknown fields, so that a misspelt one is not silently ignored.
pub trait Parameters: Serialize + DeserializeOwned {
    /// The command's name.
    const COMMAND: &'static str;
}

/// What a command asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The command's name.
    pub command: String,
    /// Everything else in the line.
    pub parameters: Map<String, Value>,
}

/// A request as it is on the wire.
#[derive(Serialize, Deserialize)]
struct RequestLine {
    #[serde(default = "own_version")]
    version: Value,
    #[serde(default)]
    command: Value,
    #[serde(flatten)]
    parameters: Map<String, Value>,
}

fn own_version() -> Value {
    PROTOCOL_VERSION.into()
}

/// A line: the value and a newline.
fn line_of(value: &impl Serialize) -> String {
    let line = serde_json::to_string(value).expect("its keys are texts");
    line + "\n"
}

impl Request {
    /// A request without parameters.
    pub fn new(command: &str) -> Self {
        Request {
            command: command.to_owned(),
            parameters: Map::new(),
        }
    }

    /// A request with a command's parameters; `null` is the same as none.
    pub fn of<P: Parameters>(parameters: &P) -> Self {
        let mut request = Request::new(P::COMMAND);
        match serde_json::to_value(parameters) {
            Ok(Value::Object(fields)) => {
                let given = fields.into_iter().filter(|(_, value)| !value.is_null());
                request.parameters = given.collect();
            }
            other => unreachable!("parameters are an object of texts and numbers: {other:?}"),
        }
        request
    }

    /// Adds a parameter; `null` is the same as none.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        if !value.is_null() {
            self.parameters.insert(name.to_owned(), value);
        }
        self
    }

    /// The line, its newline included.
    pub fn to_line(&self) -> String {
        line_of(&RequestLine {
            version: own_version(),
            command: self.command.clone().into(),
            parameters: self.parameters.clone(),
        })
    }

    /// Reads a line.
    ///
    /// # Errors
    /// Not a JSON object, another version, no command.
    pub fn parse(line: &[u8]) -> Result<Self, Refusal> {
        let malformed = |message: String| Refusal::new(RefusalKind::Malformed, message);
        let line: RequestLine = serde_json::from_slice(line)
            .map_err(|error| malformed(format!("the request is not a JSON object: {error}")))?;
        if line.version != PROTOCOL_VERSION {
            return Err(Refusal::new(
                RefusalKind::Version,
                format!(
                    "the daemon speaks version {PROTOCOL_VERSION} of the protocol, the request \
                     version {}; use the command that came with the daemon",
                    line.version
                ),
            ));
        }
        match line.command {
            Value::String(command) => Ok(Request {
                command,
                parameters: line.parameters,
            }),
            _ => Err(malformed("the request has no \"command\"".into())),
        }
    }

    /// The parameters, as the command `P` has them.
    ///
    /// # Errors
    /// One is missing, unknown, of another type or out of range.
    pub fn parameters<P: Parameters>(&self) -> Result<P, Refusal> {
        let fields = Value::Object(self.parameters.clone());
        serde_path_to_error::deserialize(fields).map_err(|error| {
            let (path, command) = (error.path().to_string(), &self.command);
            let place = match path.as_str() {
                "." => command.clone(),
                path => format!("\"{path}\" of {command}"),
            };
            Refusal::new(RefusalKind::Invalid, format!("{place}: {}", error.inner()))
        })
    }
}

/// Why the daemon did not do it, for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// The line is no request.
    Malformed,
    /// The line speaks another version.
    Version,
    /// There is no such command.
    UnknownCommand,
    /// A parameter is missing, unknown or out of range.
    Invalid,
    /// What the request names is not there.
    NotFound,
    /// What should change is in use.
    InUse,
    /// The daemon serves as many clients as it can, or is ending.
    Busy,
    /// The asking side went away.
    Cancelled,
    /// A backing's newest data is in another pool.
    Stale,
    /// It was tried and failed; or a kind that this side does not know.
    #[serde(other)]
    Failed,
}

/// Why the daemon did not do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For a program.
    pub kind: RefusalKind,
    /// For a person.
    pub message: String,
}

impl Refusal {
    /// A refusal with a message.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Refusal {
            kind,
            message: message.into(),
        }
    }

    /// It was tried and failed.
    pub fn failed(error: impl fmt::Display) -> Self {
        Refusal::new(RefusalKind::Failed, error.to_string())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// One line from the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// How far it is; more lines follow.
    Progress(Value),
    /// The last line: what was asked for.
    Done(Value),
    /// The last line: why not.
    Refused(Refusal),
}

/// A reply as it is on the wire.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct ReplyLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<RefusalKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ok: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    progress: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
}

/// A field that is there, be it `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Reply {
    /// The line, its newline included.
    pub fn to_line(&self) -> String {
        let mut line = ReplyLine::default();
        match self.clone() {
            Reply::Progress(progress) => line.progress = Some(progress),
            Reply::Done(result) => (line.ok, line.result) = (Some(true), Some(result)),
            Reply::Refused(refusal) => {
                (line.ok, line.version) = (Some(false), Some(PROTOCOL_VERSION));
                (line.kind, line.error) = (Some(refusal.kind), Some(refusal.message));
            }
        }
        line_of(&line)
    }

    /// Reads a line.
    ///
    /// # Errors
    /// It is not an answer of this protocol.
    pub fn parse(line: &[u8]) -> io::Result<Self> {
        let line: ReplyLine = serde_json::from_slice(line)?;
        match (line.progress, line.ok) {
            (Some(progress), _) => Ok(Reply::Progress(progress)),
            (None, Some(true)) => Ok(Reply::Done(line.result.unwrap_or_default())),
            (None, Some(false)) => Ok(Reply::Refused(Refusal {
                kind: line.kind.unwrap_or(RefusalKind::Failed),
                message: line.error.unwrap_or_else(|| "no reason given".into()),
            })),
            (None, None) => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the answer says neither ok nor progress; is it a Forebay daemon?",
            )),
        }
    }
}

/// Reads up to and without the next newline; `None` at the end of the stream.
///
/// # Errors
/// The stream's own; a line of more than `bytes_max`, or one that ends without a newline.
pub fn read_line(reader: &mut impl BufRead, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    reader.take(bytes_max + 1).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Ok(Some(line));
    }
    Err(if line.len() as u64 > bytes_max {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a line is longer than {bytes_max} bytes"),
        )
    } else {
        io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "a line ends without a newline",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Attach {
        backing: String,
        fuse: Option<String>,
        threads: u64,
    }

    impl Parameters for Attach {
        const COMMAND: &'static str = "attach";
    }

    #[test]
    fn requests_come_back_as_they_went() {
        let attach = Attach {
            backing: "/srv/disk.img".into(),
            fuse: None,
            threads: 4,
        };
        let request = Request::of(&attach);
        let line = request.to_line();
        assert_eq!(
            line,
            "{\"version\":1,\"command\":\"attach\",\"backing\":\"/srv/disk.img\",\"threads\":4}\n"
        );
        assert_eq!(Request::parse(line.as_bytes()), Ok(request.clone()));
        assert_eq!(request.parameters(), Ok(attach));
        for (wrong, expected) in [
            (
                request.clone().with("threads", "four"),
                "\"threads\" of attach",
            ),
            (request.clone().with("thread", 4), "`thread`"),
            (Request::new("attach").with("threads", 4), "`backing`"),
        ] {
            let refusal = wrong.parameters::<Attach>().unwrap_err();
            assert_eq!(refusal.kind, RefusalKind::Invalid);
            assert!(refusal.message.contains(expected), "{refusal}");
        }
    }

    #[test]
    fn replies_come_back_as_they_went() {
        for reply in [
            Reply::Progress(json!({"dirty_blocks": 7})),
            Reply::Done(json!({"flushed": true})),
            Reply::Refused(Refusal::new(RefusalKind::InUse, "it is mounted")),
        ] {
            assert_eq!(Reply::parse(reply.to_line().as_bytes()).unwrap(), reply);
        }
        let refused = Reply::Refused(Refusal::new(RefusalKind::NotFound, "no"));
        assert_eq!(
            refused.to_line(),
            "{\"error\":\"no\",\"kind\":\"not-found\",\"ok\":false,\"version\":1}\n"
        );
        assert_eq!(
            Reply::Done(json!({})).to_line(),
            "{\"ok\":true,\"result\":{}}\n"
        );
        let later = Reply::parse(b"{\"ok\": false, \"kind\": \"of-version-2\"}").unwrap();
        assert!(matches!(later, Reply::Refused(refusal) if refusal.kind == RefusalKind::Failed));
    }

    #[test]
    fn another_version_is_refused_and_none_is_ours() {
        let refusal = Request::parse(b"{\"version\": 9, \"command\": \"stat\"}").unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Version);
        let refusal = Request::parse(b"{\"version\": null}").unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Version);
        assert!(Request::parse(b"{\"command\": \"stat\"}").is_ok());
    }

    #[test]
    fn lines_are_bounded() {
        let mut reader = io::Cursor::new(b"one\ntwo".to_vec());
        assert_eq!(read_line(&mut reader, 3).unwrap(), Some(b"one".to_vec()));
        assert!(read_line(&mut reader, 3).is_err(), "no newline");
        let mut long = io::Cursor::new(vec![b'x'; 100]);
        let error = read_line(&mut long, 10).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(long.position() <= 100);
    }
}
