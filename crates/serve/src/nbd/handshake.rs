//! The fixed newstyle handshake: what a client may ask before it opens an export.
//!
//! Nothing is received beyond what an option's header and stated length say, so that bytes which
//! follow STARTTLS in the clear are never taken for encrypted ones. What a client negotiated in the
//! clear counts for nothing once TLS has started.

use std::io;
use std::sync::Arc;

use crate::nbd::exports::{Export, Exports};
use crate::nbd::link::{Link, Membership};
use crate::nbd::option_data::{InfoQuery, MetaContextQuery};
use crate::nbd::protocol::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, EXPORT_NAME_ZEROES, FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES,
    INIT_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, PAYLOAD_BYTES_MAX, info, option, option_reply,
    transmission,
};
use crate::nbd::transport::{Transport, receive_exact};

/// The longest data of an option: a few strings of the greatest length.
const OPTION_BYTES_MAX: u32 = 64 << 10;

/// The block size that clients are advised to use where the device has a smaller one, in bytes.
const PREFERRED_BLOCK_BYTES_MIN: u32 = 4096;

/// What every export of ours can do.
const TRANSMISSION_FLAGS: u16 = transmission::HAS_FLAGS
    | transmission::SEND_FLUSH
    | transmission::SEND_FUA
    | transmission::SEND_TRIM
    | transmission::SEND_WRITE_ZEROES
    | transmission::CAN_MULTI_CONN
    | transmission::SEND_CACHE;

/// Whether what is said is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    /// It is not, and need not be.
    Plain,
    /// It must be, and is not yet.
    TlsAwaited,
    /// It is.
    Tls,
}

/// A handshake with one client.
pub(crate) struct Handshake<'h> {
    pub(crate) exports: &'h Exports,
    pub(crate) link: &'h Arc<Link>,
    /// Asked once the client wants an export: takes a place for it, or says why there is none.
    pub(crate) admit: &'h dyn Fn() -> Result<(), String>,
    pub(crate) security: Security,
    pub(crate) no_zeroes: bool,
}

/// How a handshake ended.
pub(crate) enum Outcome {
    /// The client opened an export.
    Open(Negotiated),
    /// It wants to go on encrypted.
    StartTls,
    /// It wants nothing more, or was turned away.
    Over,
}

/// What was agreed. The connection counts among the export's until this is dropped.
pub(crate) struct Negotiated {
    pub(crate) structured: bool,
    pub(crate) block_status: bool,
    pub(crate) link: Arc<Link>,
    // Before the membership, whose end tells others that the device is free.
    pub(crate) export: Arc<Export>,
    _membership: Membership,
}

/// What a client has set so far.
#[derive(Default)]
struct Settings {
    structured: bool,
    /// The export for which it chose `base:allocation`.
    allocation_of: Option<String>,
}

impl Settings {
    fn open(&self, export: Arc<Export>, link: &Arc<Link>) -> Option<Negotiated> {
        let membership = export.links.enter(link)?;
        let block_status = self.allocation_of.as_deref() == Some(&*export.name);
        Some(Negotiated {
            structured: self.structured,
            block_status: block_status && self.structured,
            link: Arc::clone(link),
            export,
            _membership: membership,
        })
    }

    fn transmission_flags(&self) -> u16 {
        let df = if self.structured {
            transmission::SEND_DF
        } else {
            0
        };
        TRANSMISSION_FLAGS | df
    }
}

impl Handshake<'_> {
    /// The first words of both sides.
    pub(crate) fn greet(&mut self, transport: &dyn Transport) -> io::Result<()> {
        let mut greeting = Vec::with_capacity(18);
        greeting.extend(INIT_MAGIC);
        greeting.extend(OPTION_MAGIC);
        greeting.extend((FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
        transport.send(&greeting)?;
        let mut flags = [0; 4];
        receive_exact(transport, &mut flags)?;
        let flags = u32::from_be_bytes(flags);
        let known = u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
        if flags & !known != 0 || flags & u32::from(FLAG_FIXED_NEWSTYLE) == 0 {
            return Err(violation("the client's flags are not of fixed newstyle"));
        }
        self.no_zeroes = flags & u32::from(FLAG_NO_ZEROES) != 0;
        Ok(())
    }

    /// Answers options until one ends the handshake.
    pub(crate) fn negotiate(&self, transport: &dyn Transport) -> io::Result<Outcome> {
        let mut settings = Settings::default();
        loop {
            let mut header = [0; 16];
            receive_exact(transport, &mut header)?;
            if header[..8] != OPTION_MAGIC {
                return Err(violation("an option does not start with its magic"));
            }
            let [code, length] = [&header[8..12], &header[12..]]
                .map(|bytes| u32::from_be_bytes(bytes.try_into().expect("four bytes")));
            let replies = Replies { transport, code };
            if length > OPTION_BYTES_MAX {
                replies.error(option_reply::TOO_BIG, "the option is too long")?;
                return Ok(Outcome::Over);
            }
            let mut data = vec![0; length as usize];
            receive_exact(transport, &mut data)?;
            if let Some(outcome) = self.answer(&replies, &data, &mut settings)? {
                return Ok(outcome);
            }
        }
    }

    fn answer(
        &self,
        replies: &Replies<'_>,
        data: &[u8],
        settings: &mut Settings,
    ) -> io::Result<Option<Outcome>> {
        if replies.code == option::ABORT {
            replies.acknowledge()?;
            return Ok(Some(Outcome::Over));
        }
        if self.security == Security::TlsAwaited && replies.code != option::STARTTLS {
            if replies.code == option::EXPORT_NAME {
                // This option has no error reply.
                return Ok(Some(Outcome::Over));
            }
            replies.error(option_reply::TLS_REQUIRED, "start TLS first")?;
            return Ok(None);
        }
        match replies.code {
            option::EXPORT_NAME => return self.export_name(replies, data, settings).map(Some),
            option::STARTTLS => return self.start_tls(replies, data),
            option::LIST => self.list(replies, data)?,
            option::INFO | option::GO => return self.info(replies, data, settings),
            option::STRUCTURED_REPLY => {
                if data.is_empty() {
                    settings.structured = true;
                    replies.acknowledge()?;
                } else {
                    replies.error(option_reply::INVALID, "this option has no data")?;
                }
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.meta_context(replies, data, settings)?;
            }
            _ => replies.error(option_reply::UNSUPPORTED, "this option is not known here")?,
        }
        Ok(None)
    }

    /// The old way to open an export: there is no error reply, only the end.
    fn export_name(
        &self,
        replies: &Replies<'_>,
        data: &[u8],
        settings: &Settings,
    ) -> io::Result<Outcome> {
        let found = std::str::from_utf8(data)
            .ok()
            .and_then(|name| self.exports.find(name))
            .and_then(|export| settings.open(export, self.link));
        let Some(negotiated) = found else {
            return Err(violation("there is no export of that name"));
        };
        if (self.admit)().is_err() {
            return Ok(Outcome::Over);
        }
        let mut reply = Vec::with_capacity(10 + EXPORT_NAME_ZEROES);
        reply.extend(negotiated.export.device.size_bytes().to_be_bytes());
        reply.extend(settings.transmission_flags().to_be_bytes());
        if !self.no_zeroes {
            reply.extend([0; EXPORT_NAME_ZEROES]);
        }
        replies.transport.send(&reply)?;
        Ok(Outcome::Open(negotiated))
    }

    fn start_tls(&self, replies: &Replies<'_>, data: &[u8]) -> io::Result<Option<Outcome>> {
        match self.security {
            Security::TlsAwaited if data.is_empty() => {
                replies.acknowledge()?;
                return Ok(Some(Outcome::StartTls));
            }
            Security::Plain => replies.error(
                option_reply::POLICY,
                "this server has no certificate to start TLS with",
            )?,
            Security::TlsAwaited => {
                replies.error(option_reply::INVALID, "this option has no data")?;
            }
            Security::Tls => replies.error(option_reply::INVALID, "TLS has started")?,
        }
        Ok(None)
    }

    fn list(&self, replies: &Replies<'_>, data: &[u8]) -> io::Result<()> {
        if !data.is_empty() {
            return replies.error(option_reply::INVALID, "this option has no data");
        }
        for export in self.exports.all() {
            let mut reply = Vec::new();
            reply.extend((export.name.len() as u32).to_be_bytes());
            reply.extend(export.name.as_bytes());
            reply.extend(export.description.as_bytes());
            replies.send(option_reply::SERVER, &reply)?;
        }
        replies.acknowledge()
    }

    fn info(
        &self,
        replies: &Replies<'_>,
        data: &[u8],
        settings: &Settings,
    ) -> io::Result<Option<Outcome>> {
        let Some(query) = InfoQuery::parse(data) else {
            replies.error(option_reply::INVALID, "the option's data is malformed")?;
            return Ok(None);
        };
        let found = self.exports.find(query.name);
        // Joined before it is promised: an export that goes away now takes the connection along.
        let (export, negotiated) = match found {
            Some(export) if replies.code == option::GO => {
                let negotiated = settings.open(Arc::clone(&export), self.link);
                (negotiated.is_some().then_some(export), negotiated)
            }
            other => (other, None),
        };
        let Some(export) = export else {
            replies.error(option_reply::UNKNOWN, "there is no export of that name")?;
            return Ok(None);
        };
        if negotiated.is_some()
            && let Err(refusal) = (self.admit)()
        {
            replies.error(option_reply::POLICY, &refusal)?;
            return Ok(Some(Outcome::Over));
        }
        let mut details = Vec::with_capacity(12);
        details.extend(export.device.size_bytes().to_be_bytes());
        details.extend(settings.transmission_flags().to_be_bytes());
        replies.info(info::EXPORT, &details)?;
        let sizes = [
            1,
            export.device.block_size().max(PREFERRED_BLOCK_BYTES_MIN),
            PAYLOAD_BYTES_MAX,
        ];
        replies.info(info::BLOCK_SIZE, &sizes.map(u32::to_be_bytes).concat())?;
        if query.wants(info::NAME) {
            replies.info(info::NAME, export.name.as_bytes())?;
        }
        if query.wants(info::DESCRIPTION) {
            replies.info(info::DESCRIPTION, export.description.as_bytes())?;
        }
        replies.acknowledge()?;
        Ok(negotiated.map(Outcome::Open))
    }

    fn meta_context(
        &self,
        replies: &Replies<'_>,
        data: &[u8],
        settings: &mut Settings,
    ) -> io::Result<()> {
        let is_set = replies.code == option::SET_META_CONTEXT;
        if is_set {
            settings.allocation_of = None;
        }
        if !settings.structured {
            return replies.error(option_reply::INVALID, "ask for structured replies first");
        }
        let Some(query) = MetaContextQuery::parse(data) else {
            return replies.error(option_reply::INVALID, "the option's data is malformed");
        };
        let Some(export) = self.exports.find(query.name) else {
            return replies.error(option_reply::UNKNOWN, "there is no export of that name");
        };
        let is_chosen = if is_set {
            query.asks_for(BASE_ALLOCATION)
        } else {
            query.lists(BASE_ALLOCATION)
        };
        if is_chosen {
            let number = if is_set { BASE_ALLOCATION_ID } else { 0 };
            let mut reply = number.to_be_bytes().to_vec();
            reply.extend(BASE_ALLOCATION.as_bytes());
            replies.send(option_reply::META_CONTEXT, &reply)?;
            if is_set {
                settings.allocation_of = Some(export.name.clone());
            }
        }
        replies.acknowledge()
    }
}

/// Replies to one option.
struct Replies<'r> {
    transport: &'r dyn Transport,
    code: u32,
}

impl Replies<'_> {
    fn send(&self, kind: u32, data: &[u8]) -> io::Result<()> {
        let mut reply = Vec::with_capacity(20 + data.len());
        reply.extend(OPTION_REPLY_MAGIC.to_be_bytes());
        reply.extend(self.code.to_be_bytes());
        reply.extend(kind.to_be_bytes());
        reply.extend((data.len() as u32).to_be_bytes());
        reply.extend(data);
        self.transport.send(&reply)
    }

    fn acknowledge(&self) -> io::Result<()> {
        self.send(option_reply::ACK, &[])
    }

    fn error(&self, kind: u32, message: &str) -> io::Result<()> {
        self.send(kind, message.as_bytes())
    }

    fn info(&self, kind: u16, data: &[u8]) -> io::Result<()> {
        self.send(option_reply::INFO, &[&kind.to_be_bytes(), data].concat())
    }
}

fn violation(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
