//! The lines of the control socket: what a request, a refusal and an answer look like.
//!
//! Whatever bytes arrive, parsing ends in a value or in a [`Refusal`] with a reason, and holds no
//! more than one line of [`REQUEST_BYTES_MAX`].

use std::fmt;
use std::io::{self, BufRead, Read};

use serde_json::{Map, Value, json};

/// The version that this side speaks; a request of another one is refused with a message.
pub const PROTOCOL_VERSION: u64 = 1;

/// The longest request: a command, a few names and paths.
pub const REQUEST_BYTES_MAX: u64 = 64 << 10;

/// The longest answer: some hundred numbers for each of a pool's volumes.
pub const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// What a command asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The command's name.
    pub command: String,
    /// Everything else in the line.
    pub parameters: Map<String, Value>,
}

impl Request {
    /// A request without parameters.
    pub fn new(command: &str) -> Self {
        Request {
            command: command.to_owned(),
            parameters: Map::new(),
        }
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
        let mut fields = self.parameters.clone();
        fields.insert("version".into(), PROTOCOL_VERSION.into());
        fields.insert("command".into(), self.command.clone().into());
        format!("{}\n", Value::Object(fields))
    }

    /// Reads a line.
    ///
    /// Errors: not a JSON object, another version, no command.
    pub fn parse(line: &[u8]) -> Result<Self, Refusal> {
        let malformed = |message: String| Refusal::new(RefusalKind::Malformed, message);
        let value: Value = serde_json::from_slice(line)
            .map_err(|error| malformed(format!("the request is not a line of JSON: {error}")))?;
        let Value::Object(mut parameters) = value else {
            return Err(malformed("the request is not a JSON object".into()));
        };
        match parameters.remove("version") {
            None => {}
            Some(version) if version == PROTOCOL_VERSION => {}
            Some(version) => {
                return Err(Refusal::new(
                    RefusalKind::Version,
                    format!(
                        "the daemon speaks version {PROTOCOL_VERSION} of the protocol, the request \
                         version {version}; use the command that came with the daemon"
                    ),
                ));
            }
        }
        match parameters.remove("command") {
            Some(Value::String(command)) => Ok(Request {
                command,
                parameters,
            }),
            _ => Err(malformed("the request has no \"command\"".into())),
        }
    }

    /// A parameter that is a text.
    ///
    /// Errors: it is there and is no text.
    pub fn text(&self, name: &str) -> Result<Option<&str>, Refusal> {
        self.typed(name, "a text", Value::as_str)
    }

    /// A parameter that is a whole number, zero or more.
    ///
    /// Errors: it is there and is no such number.
    pub fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        self.typed(name, "a whole number", Value::as_u64)
    }

    /// A parameter that is `true` or `false`.
    ///
    /// Errors: it is there and is neither.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, Refusal> {
        self.typed(name, "true or false", Value::as_bool)
    }

    /// A text that must be there.
    ///
    /// Errors: it is not, or is no text.
    pub fn required_text(&self, name: &str) -> Result<&str, Refusal> {
        self.text(name)?.ok_or_else(|| {
            Refusal::new(
                RefusalKind::Invalid,
                format!("{} needs \"{name}\", a text", self.command),
            )
        })
    }

    /// Refuses parameters other than these, so that a misspelt one is not silently ignored.
    ///
    /// Errors: there is another one.
    pub fn knows_only(&self, names: &[&str]) -> Result<(), Refusal> {
        match self
            .parameters
            .keys()
            .find(|name| !names.contains(&name.as_str()))
        {
            None => Ok(()),
            Some(name) => Err(Refusal::new(
                RefusalKind::Invalid,
                format!(
                    "{} knows no \"{name}\"; it knows: {}",
                    self.command,
                    names.join(", ")
                ),
            )),
        }
    }

    fn typed<'a, T>(
        &'a self,
        name: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Refusal> {
        self.parameters.get(name).map_or(Ok(None), |value| {
            read(value).map(Some).ok_or_else(|| {
                Refusal::new(
                    RefusalKind::Invalid,
                    format!("\"{name}\" of {} is {value}, not {expected}", self.command),
                )
            })
        })
    }
}

/// Why the daemon did not do it, for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// It was tried and failed.
    Failed,
}

impl RefusalKind {
    const ALL: [(RefusalKind, &str); 10] = [
        (RefusalKind::Malformed, "malformed"),
        (RefusalKind::Version, "version"),
        (RefusalKind::UnknownCommand, "unknown-command"),
        (RefusalKind::Invalid, "invalid"),
        (RefusalKind::NotFound, "not-found"),
        (RefusalKind::InUse, "in-use"),
        (RefusalKind::Busy, "busy"),
        (RefusalKind::Cancelled, "cancelled"),
        (RefusalKind::Stale, "stale"),
        (RefusalKind::Failed, "failed"),
    ];

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(kind, _)| *kind == self);
        found.map_or("failed", |(_, name)| name)
    }

    /// The kind of that name; what is not known failed.
    pub fn of_name(name: &str) -> Self {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map_or(RefusalKind::Failed, |(kind, _)| *kind)
    }
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

impl Reply {
    /// The line, its newline included.
    pub fn to_line(&self) -> String {
        let value = match self {
            Reply::Progress(progress) => json!({"progress": progress}),
            Reply::Done(result) => json!({"ok": true, "result": result}),
            Reply::Refused(refusal) => json!({
                "ok": false,
                "version": PROTOCOL_VERSION,
                "kind": refusal.kind.name(),
                "error": refusal.message,
            }),
        };
        format!("{value}\n")
    }

    /// Reads a line.
    ///
    /// Errors: it is not an answer of this protocol.
    pub fn parse(line: &[u8]) -> io::Result<Self> {
        let mut value: Value = serde_json::from_slice(line)?;
        if let Some(progress) = value.get_mut("progress") {
            return Ok(Reply::Progress(progress.take()));
        }
        match value.get("ok").and_then(Value::as_bool) {
            Some(true) => Ok(Reply::Done(
                value.get_mut("result").map(Value::take).unwrap_or_default(),
            )),
            Some(false) => {
                let text = |name| value.get(name).and_then(Value::as_str);
                Ok(Reply::Refused(Refusal::new(
                    RefusalKind::of_name(text("kind").unwrap_or_default()),
                    text("error").unwrap_or("no reason given"),
                )))
            }
            None => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the answer says neither ok nor progress; is it a Forebay daemon?",
            )),
        }
    }
}

/// Reads up to and without the next newline; `None` at the end of the stream.
///
/// Errors: the stream's own; a line of more than `bytes_max`, or one that ends without a newline.
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

    #[test]
    fn requests_come_back_as_they_went() {
        let request = Request::new("attach")
            .with("backing", "/srv/disk.img")
            .with("fuse", None::<String>)
            .with("threads", 4);
        let line = request.to_line();
        assert_eq!(Request::parse(line.as_bytes()), Ok(request.clone()));
        assert_eq!(request.text("fuse"), Ok(None));
        assert_eq!(request.number("threads"), Ok(Some(4)));
        assert_eq!(
            request.number("backing").unwrap_err().kind,
            RefusalKind::Invalid
        );
        let refusal = request.knows_only(&["backing", "fuse"]).unwrap_err();
        assert!(refusal.message.contains("threads"), "{refusal}");
    }

    #[test]
    fn replies_come_back_as_they_went() {
        for reply in [
            Reply::Progress(json!({"dirty_blocks": 7})),
            Reply::Done(json!({"flushed": true})),
            Reply::Refused(Refusal::new(RefusalKind::InUse, "somebody reads it")),
        ] {
            assert_eq!(Reply::parse(reply.to_line().as_bytes()).unwrap(), reply);
        }
        for (kind, name) in RefusalKind::ALL {
            assert_eq!(RefusalKind::of_name(name), kind);
            assert_eq!(kind.name(), name);
        }
    }

    #[test]
    fn another_version_is_refused_and_none_is_ours() {
        let refusal = Request::parse(b"{\"version\": 9, \"command\": \"stat\"}").unwrap_err();
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
