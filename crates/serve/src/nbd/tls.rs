//! TLS round a socket, by rustls: the client must show a certificate that our authority signed.
//!
//! One lock guards the session. Nothing is received under it, so that a waiting reader lets
//! writers through; records are sent under it, because their order is part of the session.

use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

use crate::nbd::transport::Transport;

/// Bytes received at once: two records of the largest size.
const RECEIVE_BYTES: usize = 32 << 10;

/// Plaintext put into records before these are sent.
const SEND_BYTES: usize = 64 << 10;

/// The files that TLS needs, all in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by those that lead to its authority.
    pub certificate: PathBuf,
    /// The server's private key.
    pub private_key: PathBuf,
    /// Certificates of the authorities whose clients are let in.
    pub client_authorities: PathBuf,
}

/// The mode of a key that is readable by all users.
fn exposed_mode(key: &Path) -> Option<u32> {
    let mode = std::fs::metadata(key).ok()?.permissions().mode() & 0o7777;
    (mode & 0o004 != 0).then_some(mode)
}

/// Reads the files; an error names the one that is wrong.
pub(crate) fn configure(files: &TlsFiles) -> io::Result<Arc<ServerConfig>> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{}: {error}", path.display()),
        )
    };
    if let Some(mode) = exposed_mode(&files.private_key) {
        tracing::warn!(
            key = %files.private_key.display(),
            mode = format!("{mode:o}"),
            "every user of this machine can read the private key; chmod 600 it, and have it renewed"
        );
    }
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.private_key)
        .map_err(|error| wrong(&files.private_key, &error))?;
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(&files.client_authorities)? {
        authorities
            .add(certificate)
            .map_err(|error| wrong(&files.client_authorities, &error))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), Arc::clone(&provider))
            .build()
            .map_err(|error| wrong(&files.client_authorities, &error))?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&files.certificate, &error))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|error| match error {
            rustls::Error::InvalidCertificate(why) => {
                let found = format!(
                    "the server's certificate cannot be used ({why}); have one of X.509 version 3 made: one \
                     without extensions is of version 1 (openssl takes them by -extfile or -addext, \
                     for example subjectAltName=DNS:HOST)"
                );
                wrong(&files.certificate, &found)
            }
            error => wrong(&files.private_key, &error),
        })?;
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let wrong = |found: String| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{}: {found}", path.display()),
        )
    };
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| wrong(error.to_string()))?;
    if found.is_empty() {
        return Err(wrong("there is no certificate in it".into()));
    }
    Ok(found)
}

/// A transport whose bytes travel encrypted over another.
pub(crate) struct TlsTransport<T> {
    below: T,
    session: Mutex<ServerConnection>,
    /// What was received and not yet decrypted. Only the receiving thread locks it.
    encrypted: Mutex<Encrypted>,
}

struct Encrypted {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl<T: Transport> TlsTransport<T> {
    /// Performs the handshake; fails where the client shows no certificate that counts.
    pub(crate) fn accept(config: &Arc<ServerConfig>, below: T) -> io::Result<TlsTransport<T>> {
        let mut session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        // What is put in is sent at once, so the session's own buffer may take a chunk of any size.
        session.set_buffer_limit(None);
        let transport = TlsTransport {
            below,
            session: Mutex::new(session),
            encrypted: Mutex::new(Encrypted {
                buffer: vec![0; RECEIVE_BYTES].into(),
                start: 0,
                end: 0,
            }),
        };
        while transport.lock().is_handshaking() {
            if !transport.take_in()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(transport)
    }

    fn lock(&self) -> MutexGuard<'_, ServerConnection> {
        self.session.lock()
    }

    /// Hands the session some of what the peer sent, received first if need be; false at the end of
    /// the stream. What it yields must be read before more is handed in.
    fn take_in(&self) -> io::Result<bool> {
        let mut encrypted = self.encrypted.lock();
        let encrypted = &mut *encrypted;
        if encrypted.start == encrypted.end {
            (encrypted.start, encrypted.end) = (0, self.below.receive(&mut encrypted.buffer)?);
        }
        let mut received = &encrypted.buffer[encrypted.start..encrypted.end];
        let is_over = received.is_empty();
        let mut session = self.lock();
        // With nothing received this tells the session that the stream has ended.
        session.read_tls(&mut received)?;
        encrypted.start = encrypted.end - received.len();
        let processed = session.process_new_packets();
        // Answers of the handshake, or the alert that says what is wrong.
        self.send_records(&mut session)?;
        processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(!is_over)
    }

    fn send_records(&self, session: &mut ServerConnection) -> io::Result<()> {
        let mut records = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut records)?;
        }
        self.below.send(&records)
    }
}

impl<T: Transport> Transport for TlsTransport<T> {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.lock().reader().read(buffer) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Cut off without a farewell: nothing more comes, and what is not whole is dropped.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) => return Err(error),
            }
            self.take_in()?;
        }
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut session = self.lock();
        for chunk in bytes.chunks(SEND_BYTES) {
            session.writer().write_all(chunk)?;
            self.send_records(&mut session)?;
        }
        Ok(())
    }

    fn set_deadline(&self, deadline: Option<Instant>) -> io::Result<()> {
        self.below.set_deadline(deadline)
    }

    fn finish(&self) {
        let mut session = self.lock();
        session.send_close_notify();
        // The peer may be gone already.
        let _ = self.send_records(&mut session);
        self.below.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_every_user_may_read_is_noticed() {
        let key = tempfile::NamedTempFile::new().unwrap();
        for (mode, found) in [
            (0o600, None),
            (0o640, None),
            (0o644, Some(0o644)),
            (0o604, Some(0o604)),
        ] {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(key.path(), permissions).unwrap();
            assert_eq!(exposed_mode(key.path()), found);
        }
    }
}
