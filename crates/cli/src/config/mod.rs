//! What the daemon is told: by flags, by a config file, by both.
//!
//! One struct describes both, so that the file's keys are the flags' names. A flag wins over the
//! file; a key that is not known is refused with its name and line, and never ignored.

mod transport;
mod tunables;
mod values;

pub use transport::TransportName;
pub use tunables::{Replacement, Switch, Tunables, Verify};

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use forebay_command::disks::{DiskSettings, UblkNumber};
use forebay_command::{Failure, LogFormat, LogLevel, size};
use forebay_serve::control_path;
use forebay_serve::nbd::NbdAddress;
use serde::Deserialize;

use values::{addresses, one_or_many, seconds, size_or_number};

/// The longest config file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The longest request that there is fits.
const NBD_MEMORY_MIN: u64 = 32 << 20;

fn nbd_memory(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        ..NBD_MEMORY_MIN => Err("it is at least 32M, the longest request".into()),
        bytes => Ok(bytes),
    }
}

/// From one pass over a mapped region to the next, in seconds.
const DAX_PERIOD_S: std::ops::RangeInclusive<f64> = 0.1..=30.0;

fn dax_period(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if DAX_PERIOD_S.contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!(
            "'{text}' is not a number of seconds from 0.1 to 30"
        )),
    }
}

/// Flags of `forebay serve` and keys of its config file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Settings {
    /// A member of the pool; once for each member.
    #[arg(long, value_name = "PATH")]
    #[serde(deserialize_with = "one_or_many")]
    pub pool: Vec<PathBuf>,
    /// A pool on an SSD between this pool and its disks: what leaves the one goes to the other, and from there to the disks.
    #[arg(long, value_name = "POOL")]
    pub behind: Option<PathBuf>,
    /// Where the witness of a mirror is now, if it was moved.
    #[arg(long, value_name = "FILE")]
    pub witness: Option<PathBuf>,
    /// Take a pool that another user owns, may write or may swap; it decides what is written to which file.
    #[arg(long)]
    pub trust_owner: bool,
    /// The image file or block device behind the disk.
    #[arg(long, value_name = "PATH")]
    pub backing: Option<PathBuf>,
    /// The name of the disk, for clients and commands; the name of the backing file if not given.
    #[arg(long)]
    pub name: Option<String>,
    /// Existing directory to mount the disk in; it is then the file `disk` there.
    #[arg(long, value_name = "DIRECTORY")]
    pub fuse: Option<PathBuf>,
    /// Have this host's kernel make a block device of the disk: /dev/ublkbNUMBER, or the next free
    /// one. Needs root and a kernel with ublk.
    #[arg(long, value_name = "NUMBER", num_args = 0..=1, default_missing_value = "auto")]
    pub ublk: Option<UblkNumber>,
    /// Offer the disk to a virtual machine over vhost-user, at a socket that is made there.
    #[arg(long, value_name = "SOCKET")]
    pub vhost_user: Option<PathBuf>,
    /// Queues that a disk has over vhost-user [default: one for each processor, up to 4].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub vhost_user_queues: Option<u16>,
    /// Listen for NBD clients: unix:PATH or tcp:HOST:PORT. May be repeated.
    #[arg(long, value_name = "ADDRESS")]
    #[serde(deserialize_with = "addresses")]
    pub nbd: Vec<NbdAddress>,
    /// NBD connections served at the same time; more are refused.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
    pub nbd_connections: Option<u16>,
    /// NBD connections of one peer (a process; over TCP a host) [default: three in four of all].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
    pub nbd_connections_per_peer: Option<u16>,
    /// Bytes that long requests of all NBD clients of an address may hold, like 256M, at least 32M;
    /// what is more waits [default: 1G].
    #[arg(long, value_name = "SIZE", value_parser = nbd_memory)]
    #[serde(deserialize_with = "size_or_number")]
    pub nbd_memory: Option<u64>,
    /// Certificate chain of the NBD server (PEM); NBD over TCP then speaks TLS only.
    #[arg(long, value_name = "FILE")]
    pub tls_certificate: Option<PathBuf>,
    /// Private key of that certificate (PEM).
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Certificates of the authorities that sign clients (PEM); a client without one is refused.
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
    /// Threads that serve requests of a FUSE disk [default: 8].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// What brings the kernel's requests to FUSE disks; io-uring needs Linux 6.18.3 and enable_uring of its module
    /// fuse [default: auto].
    #[arg(long, value_enum)]
    pub transport: Option<TransportName>,
    /// Let every user of this machine reach the mounts.
    #[arg(long)]
    pub allow_other: bool,
    /// Become this user once everything that needs root is open.
    #[arg(long)]
    pub user: Option<String>,
    /// Give up system calls that the daemon never needs, once everything is open [default: on].
    #[arg(long, value_enum, value_name = "SWITCH")]
    pub sandbox: Option<Switch>,
    /// Open no other files than those in this directory, or this file, once everything is open; every backing,
    /// also of disks that are attached later, has to lie there. May be repeated.
    #[arg(long, value_name = "PATH")]
    #[serde(deserialize_with = "one_or_many")]
    pub allow_backing: Vec<PathBuf>,
    /// Seconds to wait for disks that are in use before ending at once [default: 30].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86400))]
    pub shutdown_deadline: Option<u64>,
    /// Format of log lines on standard error [default: text].
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
    /// Least important events that are logged [default: info].
    #[arg(long, value_enum)]
    pub log_level: Option<LogLevel>,
    /// Percent of the pool that may be dirty before writers are slowed.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub dirty_low: Option<u8>,
    /// Percent of the pool at which writers go as fast as the backing takes their blocks.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub dirty_high: Option<u8>,
    /// Bytes a second that write-back may write, like 100M; 0 for no limit.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    #[serde(deserialize_with = "size_or_number")]
    pub flush_rate: Option<u64>,
    /// When reads are compared with their checksums [default: always].
    #[arg(long, value_enum)]
    pub verify: Option<Verify>,
    /// Which blocks leave first when space is needed [default: sieve].
    #[arg(long, value_enum)]
    pub replacement: Option<Replacement>,
    /// Write the journals of file systems back last, since they are overwritten soon [default: on].
    #[arg(long, value_enum, value_name = "SWITCH")]
    pub defer_journal: Option<Switch>,
    /// Whether a whole block whose bytes the pool has already shares them [default: on].
    #[arg(long, value_enum, value_name = "SWITCH")]
    pub share_duplicates: Option<Switch>,
    /// Whether a whole block is compared with what is cached, so that only what is new, or not zero, is
    /// stored [default: on].
    #[arg(long, value_enum, value_name = "SWITCH")]
    pub compare_writes: Option<Switch>,
    /// Bytes of a run of reads beyond which its misses are not brought in, like 4M; 0 for none.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    #[serde(deserialize_with = "size_or_number")]
    pub sequential_cutoff: Option<u64>,
    /// Bytes that are read ahead of a run of reads at most, up to 64M; 0 for none [default: 4M].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    #[serde(deserialize_with = "size_or_number")]
    pub read_ahead: Option<u64>,
    /// Seconds from one pass over a mapped region that a program has open to the next, 0.1 to 30 [default: 1].
    #[arg(long, value_name = "SECONDS", value_parser = dax_period)]
    #[serde(deserialize_with = "seconds")]
    pub dax_period: Option<Duration>,
    /// Further disks; only a file has them.
    #[arg(skip)]
    pub volume: Vec<DiskSettings>,
}

impl Settings {
    /// Reads a config file; relative paths in it are relative to its folder.
    ///
    /// # Errors
    /// It cannot be read, is no TOML, has unknown keys or wrong values.
    pub fn read(path: &Path) -> Result<Settings, Failure> {
        let named = |error: String| Failure::Arguments(format!("{}{error}", path.display()));
        let metadata = std::fs::metadata(path).map_err(|error| named(format!(": {error}")))?;
        if metadata.len() > FILE_BYTES_MAX {
            return Err(named(format!(
                ": {} bytes; a config file may have {FILE_BYTES_MAX}",
                metadata.len()
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|error| named(format!(": {error}")))?;
        let mut settings = Settings::parse(&text)
            .map_err(|error| named(format!(":{}: {}", error.line, error.message)))?;
        let folder = std::path::absolute(path)?;
        settings.resolve(folder.parent().unwrap_or(Path::new("/")));
        Ok(settings)
    }

    /// Reads the text of a config file.
    ///
    /// # Errors
    /// The line and what is wrong with it.
    pub fn parse(text: &str) -> Result<Settings, ConfigError> {
        let settings: Settings = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            ConfigError {
                line: line_of(text, start),
                message: error.message().trim().replace('\n', "; "),
            }
        })?;
        settings
            .check_ranges()
            .map_err(|(key, message)| ConfigError {
                line: line_of_key(text, key),
                message: format!("{key}: {message}"),
            })?;
        Ok(settings)
    }

    /// What clap checks on the command line.
    fn check_ranges(&self) -> Result<(), (&'static str, String)> {
        let refuse = |key, value: u64, range: &str| {
            Err((key, format!("{value} is out of range; it is {range}")))
        };
        for (key, percent) in [
            ("dirty-low", self.dirty_low),
            ("dirty-high", self.dirty_high),
        ] {
            if let Some(percent @ 101..) = percent {
                return refuse(key, percent.into(), "a percentage from 0 to 100");
            }
        }
        match self.threads {
            Some(threads @ (0 | 257..)) => return refuse("threads", threads.into(), "1 to 256"),
            _ if self.nbd_connections == Some(0) => {
                return refuse("nbd-connections", 0, "1 to 65535");
            }
            _ if self.nbd_connections_per_peer == Some(0) => {
                return refuse("nbd-connections-per-peer", 0, "1 to 65535");
            }
            _ => {}
        }
        if let Some(bytes @ ..NBD_MEMORY_MIN) = self.nbd_memory {
            return refuse("nbd-memory", bytes, "at least 32M, the longest request");
        }
        if let Some(queues @ (0 | 257..)) = self.vhost_user_queues {
            return refuse("vhost-user-queues", queues.into(), "1 to 256");
        }
        if let Some(period) = self.dax_period
            && !DAX_PERIOD_S.contains(&period.as_secs_f64())
        {
            let range = format!(
                "{} s is out of range; it is 0.1 to 30",
                period.as_secs_f64()
            );
            return Err(("dax-period", range));
        }
        match self.shutdown_deadline {
            Some(seconds @ 86401..) => refuse("shutdown-deadline", seconds, "0 to 86400"),
            _ => Ok(()),
        }
    }

    fn resolve(&mut self, folder: &Path) {
        let single = [
            &mut self.behind,
            &mut self.witness,
            &mut self.backing,
            &mut self.fuse,
            &mut self.vhost_user,
            &mut self.tls_certificate,
            &mut self.tls_key,
            &mut self.tls_client_ca,
        ];
        let optional = single.into_iter().flatten();
        let volumes = self.volume.iter_mut();
        let inner = volumes.flat_map(|volume| {
            let front_ends = [&mut volume.fuse, &mut volume.vhost_user];
            std::iter::once(&mut volume.backing).chain(front_ends.into_iter().flatten())
        });
        let sockets = self.nbd.iter_mut().filter_map(|address| match address {
            NbdAddress::Unix(path) => Some(path),
            NbdAddress::Tcp { .. } => None,
        });
        for path in self
            .pool
            .iter_mut()
            .chain(&mut self.allow_backing)
            .chain(optional)
            .chain(inner)
            .chain(sockets)
        {
            *path = folder.join(&*path);
        }
    }

    /// These settings where they say something, else those of the file.
    #[must_use]
    pub fn or(self, file: Settings) -> Settings {
        fn list<T>(flags: Vec<T>, file: Vec<T>) -> Vec<T> {
            if flags.is_empty() { file } else { flags }
        }
        // A disk on the command line is the one that is meant, not one more.
        let volume = if self.backing.is_some() {
            Vec::new()
        } else {
            file.volume
        };
        Settings {
            pool: list(self.pool, file.pool),
            behind: self.behind.or(file.behind),
            witness: self.witness.or(file.witness),
            trust_owner: self.trust_owner || file.trust_owner,
            backing: self.backing.or(file.backing),
            name: self.name.or(file.name),
            fuse: self.fuse.or(file.fuse),
            ublk: self.ublk.or(file.ublk),
            vhost_user: self.vhost_user.or(file.vhost_user),
            vhost_user_queues: self.vhost_user_queues.or(file.vhost_user_queues),
            nbd: list(self.nbd, file.nbd),
            nbd_connections: self.nbd_connections.or(file.nbd_connections),
            nbd_connections_per_peer: self
                .nbd_connections_per_peer
                .or(file.nbd_connections_per_peer),
            nbd_memory: self.nbd_memory.or(file.nbd_memory),
            tls_certificate: self.tls_certificate.or(file.tls_certificate),
            tls_key: self.tls_key.or(file.tls_key),
            tls_client_ca: self.tls_client_ca.or(file.tls_client_ca),
            threads: self.threads.or(file.threads),
            transport: self.transport.or(file.transport),
            allow_other: self.allow_other || file.allow_other,
            user: self.user.or(file.user),
            sandbox: self.sandbox.or(file.sandbox),
            allow_backing: list(self.allow_backing, file.allow_backing),
            shutdown_deadline: self.shutdown_deadline.or(file.shutdown_deadline),
            log_format: self.log_format.or(file.log_format),
            log_level: self.log_level.or(file.log_level),
            dirty_low: self.dirty_low.or(file.dirty_low),
            dirty_high: self.dirty_high.or(file.dirty_high),
            flush_rate: self.flush_rate.or(file.flush_rate),
            verify: self.verify.or(file.verify),
            replacement: self.replacement.or(file.replacement),
            defer_journal: self.defer_journal.or(file.defer_journal),
            share_duplicates: self.share_duplicates.or(file.share_duplicates),
            compare_writes: self.compare_writes.or(file.compare_writes),
            sequential_cutoff: self.sequential_cutoff.or(file.sequential_cutoff),
            read_ahead: self.read_ahead.or(file.read_ahead),
            dax_period: self.dax_period.or(file.dax_period),
            volume,
        }
    }

    /// Those of them that can be changed later.
    pub fn tunables(&self) -> Tunables {
        Tunables {
            dirty_low: self.dirty_low,
            dirty_high: self.dirty_high,
            flush_rate: self.flush_rate,
            verify: self.verify,
            replacement: self.replacement,
            defer_journal: self.defer_journal,
            share_duplicates: self.share_duplicates,
            compare_writes: self.compare_writes,
            sequential_cutoff: self.sequential_cutoff,
            read_ahead: self.read_ahead,
        }
    }

    /// The sockets of the front ends, and the control socket.
    ///
    /// # Errors
    /// As [`Settings::volumes`].
    pub fn sockets(&self) -> Result<Vec<PathBuf>, Failure> {
        let nbd = self.nbd.iter().filter_map(|address| match address {
            NbdAddress::Unix(path) => Some(path.clone()),
            NbdAddress::Tcp { .. } => None,
        });
        let volumes = self.volumes()?.into_iter();
        let control = self.pool.first().map(|pool| control_path(pool));
        let all = nbd.chain(volumes.filter_map(|volume| volume.vhost_user));
        all.chain(control)
            .map(|path| Ok(std::path::absolute(path)?))
            .collect()
    }

    /// Every disk: the one of the flags, or of the keys outside of tables, first.
    ///
    /// # Errors
    /// A name or a mount without a disk.
    pub fn volumes(&self) -> Result<Vec<DiskSettings>, Failure> {
        let first = match &self.backing {
            Some(backing) => Some(DiskSettings {
                backing: backing.clone(),
                name: self.name.clone(),
                fuse: self.fuse.clone(),
                ublk: self.ublk,
                vhost_user: self.vhost_user.clone(),
            }),
            None if self.name.is_some()
                || self.fuse.is_some()
                || self.ublk.is_some()
                || self.vhost_user.is_some() =>
            {
                return Err(Failure::Arguments(
                    "a name, a FUSE mount, a ublk device or a vhost-user socket belongs to a \
                     backing; name it with --backing"
                        .into(),
                ));
            }
            None => None,
        };
        Ok(first.into_iter().chain(self.volume.clone()).collect())
    }
}

/// What is wrong with a config file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

fn line_of(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().iter().take(byte);
    before.filter(|byte| **byte == b'\n').count() + 1
}

fn line_of_key(text: &str, key: &str) -> usize {
    let is_key = |line: &str| line.trim_start().starts_with(key);
    text.lines().position(is_key).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../../../packaging/forebay.toml");

    #[test]
    fn the_packaged_example_is_valid_and_every_line_of_it_too() {
        let settings = Settings::parse(EXAMPLE).unwrap();
        assert!(!settings.pool.is_empty());
        // The commented lines are settings as well: `#key = value`, prose has a space.
        let all = EXAMPLE
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(setting) if !setting.starts_with(' ') => setting,
                _ => line,
            })
            .collect::<Vec<_>>()
            .join("\n");
        let settings = Settings::parse(&all).unwrap_or_else(|error| panic!("{error:?}\n{all}"));
        assert_eq!(settings.volume.len(), 2);
    }

    #[test]
    fn the_keys_are_the_flags() {
        use clap::CommandFactory;
        let command = crate::arguments::Arguments::command();
        let serve = command.find_subcommand("serve").unwrap();
        for flag in serve.get_arguments().filter_map(clap::Arg::get_long) {
            // What is forced once is not a lasting setting.
            if ["config", "accept-stale", "without-missing"].contains(&flag) {
                continue;
            }
            let error = Settings::parse(&format!("{flag} = {{ x = 1 }}")).unwrap_err();
            assert!(
                !error.message.contains("unknown field"),
                "{flag} is no key of the file: {}",
                error.message
            );
        }
    }

    #[test]
    fn an_unknown_key_is_refused_by_name_with_its_line() {
        let error = Settings::parse("pool = \"p\"\n\nbackin = \"x\"\n").unwrap_err();
        assert_eq!(error.line, 3);
        assert!(error.message.contains("`backin`"), "{}", error.message);
        let nested = "pool = \"p\"\n[[volume]]\nbacking = \"x\"\nfusee = \"y\"\n";
        let error = Settings::parse(nested).unwrap_err();
        assert_eq!(error.line, 4, "{}", error.message);
        assert!(error.message.contains("`fusee`"), "{}", error.message);
    }

    #[test]
    fn wrong_values_are_refused_with_their_line() {
        for (text, line, part) in [
            ("threads = 0", 1, "1 to 256"),
            ("defer-journal = \"perhaps\"", 1, "perhaps"),
            ("transport = \"pigeon\"", 1, "io-uring"),
            ("\ndirty-high = 101", 2, "percentage"),
            ("\n\nflush-rate = \"3 apples\"", 3, "apples"),
            ("nbd = [\"udp:1\"]", 1, "unix:PATH"),
            ("verify = \"sometimes\"", 1, "sometimes"),
            ("ublk = \"many\"", 1, "neither auto nor a number"),
            ("ublk = -1", 1, "neither auto nor a number"),
            ("\ndax-period = 0.05", 2, "0.1 to 30"),
            ("dax-period = -1", 1, "0 or more"),
            ("dax-period = \"soon\"", 1, "seconds"),
            ("pool = 7", 1, "a text or a list"),
            ("pool = \"a\"\npool = \"b\"", 2, "duplicate"),
        ] {
            let error = Settings::parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {}", error.message);
            assert!(error.message.contains(part), "{text}: {}", error.message);
        }
    }

    #[test]
    fn flags_win_over_the_file() {
        let file =
            "pool = [\"a\", \"b\"]\nthreads = 4\nflush-rate = \"1M\"\n[[volume]]\nbacking = \"x\"";
        let file = Settings::parse(file).unwrap();
        let flags = Settings {
            threads: Some(2),
            backing: Some("y".into()),
            ..Settings::default()
        };
        let both = flags.or(file.clone());
        assert_eq!(both.pool.len(), 2);
        assert_eq!(both.threads, Some(2));
        assert_eq!(both.flush_rate, Some(1 << 20));
        let volumes = both.volumes().unwrap();
        assert_eq!(volumes.len(), 1);
        assert_eq!(volumes[0].backing, Path::new("y"));
        let alone = Settings::default().or(file).volumes().unwrap();
        assert_eq!(alone[0].backing, Path::new("x"));
    }
}
