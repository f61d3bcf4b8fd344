//! TLS: only clients whose certificate our authority signed see anything, and nothing is said in
//! the clear before. Certificates are made here; libnbd's tools take part where they are installed.

mod nbd_client;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use forebay_serve::nbd::{Exports, NbdAddress, NbdOptions, NbdServer, TlsFiles};
use forebay_serve::{BlockDevice, MemoryDevice};
use nbd_client::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const MIB: usize = 1 << 20;

/// An authority with a server's and a client's certificate, in files named as libnbd wants them.
struct Authority {
    folder: tempfile::TempDir,
}

impl Authority {
    fn new() -> Authority {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let write =
            |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
        write("ca-cert.pem", authority.pem());
        for (name, purpose) in [
            ("server", ExtendedKeyUsagePurpose::ServerAuth),
            ("client", ExtendedKeyUsagePurpose::ClientAuth),
        ] {
            let mut params =
                CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()]).unwrap();
            params.extended_key_usages = vec![purpose];
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &authority).unwrap();
            write(&format!("{name}-cert.pem"), certificate.pem());
            write(&format!("{name}-key.pem"), key.serialize_pem());
        }
        Authority { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn options(&self) -> NbdOptions {
        NbdOptions {
            tls: Some(TlsFiles {
                certificate: self.file("server-cert.pem"),
                private_key: self.file("server-key.pem"),
                client_authorities: self.file("ca-cert.pem"),
            }),
            // Authenticated clients may take their time.
            handshake_timeout: Duration::from_secs(3600),
            ..NbdOptions::default()
        }
    }

    /// How a client of this authority speaks TLS; without a certificate of its own if that is said.
    fn client(&self, with_certificate: bool) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(self.file("ca-cert.pem")).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = if with_certificate {
            let chain = vec![CertificateDer::from_pem_file(self.file("client-cert.pem")).unwrap()];
            let key = PrivateKeyDer::from_pem_file(self.file("client-key.pem")).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        } else {
            builder.with_no_client_auth()
        };
        Arc::new(config)
    }
}

struct TcpRig {
    server: NbdServer,
    port: u16,
}

impl TcpRig {
    /// On all addresses, which TLS allows.
    fn new(authority: &Authority) -> TcpRig {
        let exports = Arc::new(Exports::new());
        let device = MemoryDevice::new(16 * MIB, 4096);
        device.write_at(0, b"secret").unwrap();
        exports.add("disk", "", Arc::new(device)).unwrap();
        let address: NbdAddress = "tcp:0.0.0.0:0".parse().unwrap();
        let server = NbdServer::start(exports, &address, authority.options()).unwrap();
        let NbdAddress::Tcp { port, .. } = *server.address() else {
            panic!("{server:?}");
        };
        TcpRig { server, port }
    }

    fn connect(&self) -> Client<TcpStream> {
        Client::greet(TcpStream::connect(("127.0.0.1", self.port)).unwrap()).unwrap()
    }

    fn start_tls(
        &self,
        config: Arc<ClientConfig>,
    ) -> Client<StreamOwned<ClientConnection, TcpStream>> {
        let mut plain = self.connect();
        assert_eq!(plain.verdict(OPT_STARTTLS, &[]).unwrap(), REP_ACK);
        let session = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
        Client {
            stream: StreamOwned::new(session, plain.stream),
            structured: false,
            size_bytes: 0,
            flags: 0,
        }
    }
}

#[test]
fn a_client_with_a_certificate_is_served() {
    let authority = Authority::new();
    let rig = TcpRig::new(&authority);
    let mut client = rig.start_tls(authority.client(true));
    client.open("disk").unwrap();
    assert_eq!(client.read(0, 6), b"secret");
    let data: Vec<u8> = (0..3 * MIB).map(|at| (at / 997) as u8).collect();
    client.write(MIB as u64 + 1, &data);
    assert!(client.read(MIB as u64 + 1, 3 << 20) == data);
    for number in 0..64 {
        client
            .send_request(READ, 0, number, 1 << 20, 1 << (9 + number % 12))
            .unwrap();
    }
    for _ in 0..64 {
        let reply = client.reply(0).unwrap();
        assert_eq!(reply.data.len(), 1 << (9 + reply.cookie % 12));
    }
    assert_eq!(client.verdict_of_disconnect(), 0);
}

trait Disconnect {
    /// Bytes that still came after a disconnect.
    fn verdict_of_disconnect(&mut self) -> usize;
}

impl<S: Read + Write> Disconnect for Client<S> {
    fn verdict_of_disconnect(&mut self) -> usize {
        self.send_request(DISCONNECT, 0, 0, 0, 0).unwrap();
        let mut rest = Vec::new();
        // The session is closed in order, not cut off.
        self.stream.read_to_end(&mut rest).unwrap();
        rest.len()
    }
}

#[test]
fn nothing_is_served_in_the_clear() {
    let authority = Authority::new();
    let rig = TcpRig::new(&authority);
    let mut client = rig.connect();
    for option in [OPT_LIST, OPT_INFO, OPT_GO, OPT_STRUCTURED_REPLY] {
        let verdict = client.verdict(option, &go_data("disk")).unwrap();
        assert_eq!(verdict, REP_TLS_REQUIRED, "option {option}");
    }
    client.send_option(OPT_EXPORT_NAME, b"disk").unwrap();
    let mut rest = Vec::new();
    client.stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "{rest:?}");
}

#[test]
fn other_certificates_are_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let rig = TcpRig::new(&authority);
    let ask = |config| -> io::Result<()> {
        let mut client = rig.start_tls(config);
        client.go("disk")
    };
    ask(authority.client(true)).unwrap();
    ask(authority.client(false)).unwrap_err();
    // Signed by another authority, though it trusts us.
    std::fs::copy(authority.file("ca-cert.pem"), other.file("ca-cert.pem")).unwrap();
    ask(other.client(true)).unwrap_err();
    assert_eq!(rig.server.stats().reads, 0);
}

#[test]
fn what_was_sent_in_the_clear_behind_starttls_is_not_taken() {
    let authority = Authority::new();
    let rig = TcpRig::new(&authority);
    let mut client = rig.connect();
    let mut bytes = Vec::new();
    for (code, data) in [(OPT_STARTTLS, Vec::new()), (OPT_GO, go_data("disk"))] {
        bytes.extend(b"IHAVEOPT");
        bytes.extend(code.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
    }
    client.stream.write_all(&bytes).unwrap();
    assert_eq!(client.option_reply().unwrap().0, REP_ACK);
    let mut rest = Vec::new();
    let _ = client.stream.read_to_end(&mut rest);
    // An alert at the most; no reply to the option.
    assert!(rest.len() < 20, "{rest:?}");
}

#[test]
fn who_does_not_start_tls_is_dropped_long_before_who_has() {
    let authority = Authority::new();
    let rig = TcpRig::new(&authority);
    let mut known = rig.start_tls(authority.client(true));
    assert_eq!(known.verdict(OPT_LIST, &[]).unwrap(), REP_ACK);
    let mut silent = rig.connect();
    let mut starting = rig.connect();
    assert_eq!(starting.verdict(OPT_STARTTLS, &[]).unwrap(), REP_ACK);
    assert!(silent.is_closed() && starting.is_closed());
    assert_eq!(known.verdict(OPT_LIST, &[]).unwrap(), REP_ACK);
}

#[test]
fn files_that_are_wrong_are_named() {
    let authority = Authority::new();
    let start = |files: TlsFiles| {
        let options = NbdOptions {
            tls: Some(files),
            ..NbdOptions::default()
        };
        let address: NbdAddress = "tcp:127.0.0.1:0".parse().unwrap();
        NbdServer::start(Arc::new(Exports::new()), &address, options)
            .unwrap_err()
            .to_string()
    };
    let good = authority.options().tls.unwrap();
    let missing = start(TlsFiles {
        certificate: authority.file("nowhere.pem"),
        ..good.clone()
    });
    assert!(missing.contains("nowhere.pem"), "{missing}");
    let empty = start(TlsFiles {
        client_authorities: authority.file("server-key.pem"),
        ..good.clone()
    });
    assert!(empty.contains("no certificate"), "{empty}");
    let strange = start(TlsFiles {
        private_key: authority.file("client-key.pem"),
        ..good
    });
    assert!(strange.contains("client-key.pem"), "{strange}");
}

fn succeed(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn libnbd_speaks_tls_with_us() {
    let test = "libnbd_speaks_tls_with_us";
    let supports = Command::new("nbdcopy").arg("--version").output();
    if !supports.is_ok_and(|output| output.status.success()) {
        let _ = writeln!(io::stderr(), "skipped {test}: needs nbdcopy");
        return;
    }
    let authority = Authority::new();
    let rig = TcpRig::new(&authority);
    let uri = format!(
        "nbds://localhost:{}/disk?tls-certificates={}",
        rig.port,
        authority.folder.path().display()
    );
    let info = succeed(Command::new("timeout").args(["60", "nbdinfo", &uri]));
    assert!(info.contains("export-size: 16777216"), "{info}");
    assert!(info.contains("with TLS"), "{info}");
    let copy = authority.file("copy");
    succeed(
        Command::new("timeout")
            .args(["60", "nbdcopy", &uri])
            .arg(&copy),
    );
    assert!(starts_with(&copy, b"secret"));
}

fn starts_with(path: &Path, expected: &[u8]) -> bool {
    std::fs::read(path).unwrap().starts_with(expected)
}

/// As `openssl x509 -req` makes it without extensions.
const VERSION_1: &str = "-----BEGIN CERTIFICATE-----
MIIBIzCBywIUZPY4NXFxd+h0xNpXYLbSXPda2NYwCgYIKoZIzj0EAwIwFDESMBAG
A1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMzAwMzIxM1oYDzIxMjYxMDMwMDAzMjEz
WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AAQCI379yAzhrrJ+m6lthiU7bxC6qEtKM8OLoRjuLkXHjAN2ql1PvS8sLxrPZJnf
IEIwS9ZSAk7ytWSsu2ej01D3MAoGCCqGSM49BAMCA0cAMEQCIEZJkX9Xvh4fXmTG
OoD07YfFns6PfNL2JjIl7XcehjuyAiBBrPRO4WY1mQUPYs1MuQxGh0CKUevoaEou
+fgTo7D+Tw==
-----END CERTIFICATE-----
";

#[test]
fn a_certificate_of_version_1_was_refused_by_the_name_of_its_key() {
    let authority = Authority::new();
    std::fs::write(authority.file("server-cert.pem"), VERSION_1).unwrap();
    let address: NbdAddress = "tcp:127.0.0.1:0".parse().unwrap();
    let started = NbdServer::start(Arc::new(Exports::new()), &address, authority.options());
    let said = started.unwrap_err().to_string();
    assert!(
        said.contains("server-cert.pem") && !said.contains("server-key.pem"),
        "{said}"
    );
    assert!(said.contains("version 3"), "{said}");
}
