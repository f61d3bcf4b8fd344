//! Where a server listens: `unix:PATH` or `tcp:HOST:PORT`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::unix_socket::UNIX_PATH_BYTES_MAX;

/// An address to listen on or that is listened on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NbdAddress {
    /// A Unix socket at this path, mode 0600.
    Unix(PathBuf),
    /// A TCP port. Port 0 asks for any free one.
    Tcp {
        /// A name or an IP address, an IPv6 one without its brackets.
        host: String,
        /// The port.
        port: u16,
    },
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no NBD address: {found}; write unix:PATH or tcp:HOST:PORT")]
pub struct NbdAddressError {
    text: String,
    found: &'static str,
}

impl FromStr for NbdAddress {
    type Err = NbdAddressError;

    fn from_str(text: &str) -> Result<NbdAddress, NbdAddressError> {
        let refuse = |found| NbdAddressError {
            text: text.to_owned(),
            found,
        };
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.len() {
                0 => Err(refuse("the path is missing")),
                1..=UNIX_PATH_BYTES_MAX => Ok(NbdAddress::Unix(path.into())),
                _ => Err(refuse("a socket's path may have 103 bytes")),
            };
        }
        let Some(rest) = text.strip_prefix("tcp:") else {
            return Err(refuse("it starts with neither unix: nor tcp:"));
        };
        let Some((host, port)) = rest.rsplit_once(':') else {
            return Err(refuse("the port is missing"));
        };
        let port = port
            .parse()
            .map_err(|_| refuse("the port is no number from 0 to 65535"))?;
        let host = match host.strip_prefix('[') {
            Some(inside) => inside
                .strip_suffix(']')
                .ok_or_else(|| refuse("the bracket is not closed"))?,
            None if host.contains(':') => {
                return Err(refuse("an IPv6 address needs brackets"));
            }
            None => host,
        };
        if host.is_empty() {
            return Err(refuse("the host is missing"));
        }
        Ok(NbdAddress::Tcp {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for NbdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NbdAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            NbdAddress::Tcp { host, port } if host.contains(':') => {
                write!(f, "tcp:[{host}]:{port}")
            }
            NbdAddress::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_parses_to_the_same() {
        for text in [
            "unix:/run/pool.nbd",
            "tcp:localhost:10809",
            "tcp:[::1]:0",
            "tcp:127.0.0.1:1",
        ] {
            let address: NbdAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        let long = format!("unix:/{}", "x".repeat(103));
        for (text, reason) in [
            ("unix:", "path is missing"),
            (&long, "103"),
            ("/run/pool.nbd", "neither"),
            ("tcp:localhost", "port is missing"),
            ("tcp:localhost:70000", "65535"),
            ("tcp::10809", "host is missing"),
            ("tcp:::1:10809", "brackets"),
            ("tcp:[::1:10809", "not closed"),
        ] {
            let message = text.parse::<NbdAddress>().unwrap_err().to_string();
            assert!(message.contains(reason), "{text}: {message}");
        }
    }
}
