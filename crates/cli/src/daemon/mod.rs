//! `forebay serve`: the daemon. It may be killed at any time; the next one recovers and serves on.
//!
//! Order at the start: the pool, the disks, the control socket, the front ends, then root's rights are
//! dropped if so configured, then the service manager is notified. Order at the end: no more requests,
//! no more commands, then the pool is closed. Dirty blocks stay in the pool: they are safe there, and
//! ending must be quick.

mod answers;
mod confinement;
mod detach;
mod every_thread;
mod faults;
pub mod mount;
mod privileges;
mod report;
mod sandbox;
mod service;
mod store;
mod ublk;
pub mod unmounter;
mod vhost;
mod watch;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use forebay::{Pool, RuntimeOptions};
use forebay_serve::nbd::{NbdAddress, NbdOptions, NbdServer, TlsFiles};
use forebay_serve::{BlockDevice, ControlServer, DiskOptions, control_path};

use crate::arguments::ServeOptions;
use crate::config::{Settings, Switch, VolumeSettings};
use crate::engine_region;
use answers::Answers;
use confinement::Confinement;
use forebay_command::Failure;
use forebay_command::end::{Event, LastResort};
use forebay_command::notify::Notifier;
use forebay_command::{end, output, start};
use privileges::Target;
use service::{Service, lock};
use store::Store;
use unmounter::Unmounter;
use vhost::VhostFrontEnds;

/// How often a daemon that was told to end looks whether its disks are still in use.
const UNMOUNT_RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// How long ending may take by default.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(30);

/// How much longer than the deadline the pool may take to close before the process just ends.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// Serves until told to stop.
pub fn run(options: &ServeOptions) -> Result<(), Failure> {
    let settings = read_settings(options)?;
    start::prepare(settings.log_level, settings.log_format);
    start::raise_descriptor_limit();
    let target = settings.user.as_deref().map(Target::of_name).transpose()?;
    let notifier = Arc::new(Notifier::from_environment());
    notifier.send("STATUS=Opening the pool");

    let (sender, events) = channel();
    let store = open_store(&settings, options.accept_stale)?;
    let disk_options = DiskOptions {
        threads: usize::from(settings.threads.unwrap_or(8)),
        allow_other: settings.allow_other,
    };
    let owner = target.as_ref().map(Target::owner);
    let vhost = VhostFrontEnds::new(settings.vhost_user_queues, owner);
    let confinement = match settings.allow_backing.as_slice() {
        [] => None,
        paths => Some(Confinement::to(paths)?),
    };
    let service = Service::new(store, disk_options, vhost, sender.clone(), confinement);
    let service = Arc::new(service);
    end::forward_signals(sender)?;
    let control = control_path(&settings.pool[0]);
    let answers = Arc::new(Answers(Arc::downgrade(&service)));
    let control_server = ControlServer::new(&control, owner, answers)?;
    open_everything(&service, &settings, options.accept_stale, owner)?;
    if let Some(target) = &target {
        give_up_root(&service, target)?;
    }
    enter_sandbox(&service, &settings)?;
    announce(&service);
    notifier.send("READY=1\nSTATUS=Serving");
    let watch = watch::start({
        let service = Arc::downgrade(&service);
        move || {
            let service = service.upgrade()?;
            let pool = service.store.pool().ok()?;
            Some(pool.stats().volumes)
        }
    });
    notifier.watch({
        let service = Arc::downgrade(&service);
        move || {
            service
                .upgrade()
                .is_some_and(|service| !service.store.is_poisoned())
        }
    });

    let deadline = settings
        .shutdown_deadline
        .map_or(SHUTDOWN_DEADLINE, Duration::from_secs);
    let ended = serve_until_end(&service, &events, &notifier, deadline);
    drop(control_server);
    // It may be looking at the pool, which is closed when no thread does.
    drop(watch);
    close(service);
    ended
}

fn read_settings(options: &ServeOptions) -> Result<Settings, Failure> {
    let flags = options.settings.clone();
    let settings = match &options.config {
        Some(path) => flags.or(Settings::read(path)?),
        None => flags,
    };
    let refuse = |message: &str| Err(Failure::Arguments(message.to_owned()));
    if settings.pool.is_empty() {
        return refuse("no pool to serve; name its members with --pool");
    }
    if let Some(name) = settings.design() {
        store::check_design_settings(name, &settings)?;
    }
    let volumes = settings.volumes()?;
    let has_ublk = volumes.iter().any(|volume| volume.ublk.is_some());
    if has_ublk && !settings.allow_backing.is_empty() {
        return refuse(
            "the files of a ublk device come with it, where --allow-backing forbids them; leave one of the \
             two out",
        );
    }
    if has_ublk && settings.user.is_some() {
        return refuse(
            "the ublk driver obeys root only, and --user gives root up before the device can be \
             removed; leave one of the two out",
        );
    }
    if !volumes.iter().any(VolumeSettings::has_front_end) && settings.nbd.is_empty() {
        return refuse(
            "nobody could reach a disk; open a front end with --fuse, --nbd, --vhost-user or --ublk",
        );
    }
    if settings.nbd.is_empty()
        && let Some(volume) = volumes.iter().find(|volume| !volume.has_front_end())
    {
        return Err(Failure::Arguments(format!(
            "nobody could reach {}; give it a front end with --fuse, --nbd, --vhost-user or --ublk",
            volume.backing.display()
        )));
    }
    tls_files(&settings)?;
    Ok(settings)
}

fn tls_files(settings: &Settings) -> Result<Option<TlsFiles>, Failure> {
    let Settings {
        tls_certificate,
        tls_key,
        tls_client_ca,
        ..
    } = settings.clone();
    match (tls_certificate, tls_key, tls_client_ca) {
        (None, None, None) => Ok(None),
        (Some(certificate), Some(private_key), Some(client_authorities)) => Ok(Some(TlsFiles {
            certificate,
            private_key,
            client_authorities,
        })),
        _ => Err(Failure::Arguments(
            "TLS needs --tls-certificate, --tls-key and --tls-client-ca, all three".into(),
        )),
    }
}

/// Opens what the disks live in, and recovers it.
fn open_store(settings: &Settings, accepts_stale: bool) -> Result<Store, Failure> {
    if let Some(name) = settings.design() {
        return Store::open_design(name, settings, accepts_stale);
    }
    let pool = Pool::open_with(&settings.pool, runtime_options(settings)?)
        .map_err(|error| engine_region::explain(error, &settings.pool[0], settings.trust_owner))?;
    if let Some(bytes_per_s) = settings.flush_rate {
        pool.set_flush_rate_limit(bytes_per_s);
    }
    Ok(Store::Pool(Arc::new(pool)))
}

fn runtime_options(settings: &Settings) -> Result<RuntimeOptions, Failure> {
    let mut options = RuntimeOptions::default();
    options.region.trust_owner = settings.trust_owner;
    let per_mille = |percent: u8| u32::from(percent) * 10;
    if let Some(low) = settings.dirty_low {
        options.dirty_low_per_mille = per_mille(low);
    }
    if let Some(high) = settings.dirty_high {
        options.dirty_high_per_mille = per_mille(high);
    }
    if options.dirty_low_per_mille > options.dirty_high_per_mille {
        return Err(Failure::Arguments(format!(
            "dirty-low is {} percent and dirty-high {}; the low one may not exceed the high one",
            options.dirty_low_per_mille / 10,
            options.dirty_high_per_mille / 10
        )));
    }
    if let Some(verify) = settings.verify {
        options.verify = answers::verify_policy(verify);
    }
    if let Some(replacement) = settings.replacement {
        options.replacement = answers::replacement_policy(replacement);
    }
    if let Some(defers) = settings.defer_journal {
        options.defer_journal = defers.is_on();
    }
    if let Some(shares) = settings.share_duplicates {
        options.share_duplicates = shares.is_on();
    }
    if let Some(compares) = settings.compare_writes {
        options.compare_writes = compares.is_on();
    }
    Ok(options)
}

fn open_everything(
    service: &Arc<Service>,
    settings: &Settings,
    accepts_stale: bool,
    socket_owner: Option<(u32, u32)>,
) -> Result<(), Failure> {
    for volume in settings.volumes()? {
        service.attach(&volume, accepts_stale)?;
    }
    let pool = service.store.pool().ok();
    for volume in pool.map(|pool| pool.stats().volumes).into_iter().flatten() {
        if !volume.attached {
            tracing::warn!(
                backing = %volume.path.display(),
                "the pool holds blocks of a backing that is not served; what is dirty of it stays in the pool"
            );
        }
    }
    let default = NbdOptions::default();
    let options = NbdOptions {
        tls: tls_files(settings)?,
        socket_owner,
        connections_max: settings
            .nbd_connections
            .map_or(default.connections_max, usize::from),
        peer_connections_max: settings.nbd_connections_per_peer.map(usize::from),
        memory_max: settings.nbd_memory.unwrap_or(default.memory_max),
        ..default
    };
    for address in &settings.nbd {
        let exports = Arc::clone(&service.exports);
        let server = NbdServer::start(exports, address, options.clone())
            .map_err(|error| Failure::Failed(error.to_string()))?;
        if let NbdAddress::Tcp { .. } = address {
            tracing::info!(address = %server.address(), tls = options.tls.is_some(), "listening on TCP");
        }
        lock(&service.servers).push(server);
    }
    Ok(())
}

/// Unless it is off; where a disk is mounted by another user than root, it can only be off.
fn enter_sandbox(service: &Service, settings: &Settings) -> Result<(), Failure> {
    let is_wanted = settings.sandbox.is_none_or(Switch::is_on);
    if !is_wanted {
        return Ok(());
    }
    if settings.user.is_none() && !settings.allow_backing.is_empty() {
        // With a user it has been started already.
        start_unmounter(service)?;
    }
    let has_unmounter = settings.user.is_some() || !settings.allow_backing.is_empty();
    if !sandbox::can_be_entered(service.has_mounts(), has_unmounter) {
        tracing::info!(
            "no sandbox: a disk that another user than root has mounted needs fusermount3 to unmount"
        );
        return Ok(());
    }
    sandbox::enter(sandbox::Daemon::Disks)?;
    confine(service, settings)
}

/// What it cannot do is logged.
fn confine(service: &Service, settings: &Settings) -> Result<(), Failure> {
    let sockets = settings.sockets()?;
    match service.confine(&sockets)? {
        None => tracing::info!(
            "the sandbox is one of system calls, not of files: attach may name any backing; \
             --allow-backing says where they lie"
        ),
        Some(true) => {}
        Some(false) => tracing::warn!(
            "this kernel has no landlock: that only --allow-backing is opened is the daemon's own word"
        ),
    }
    Ok(())
}

fn start_unmounter(service: &Service) -> Result<(), Failure> {
    let mounts: Vec<_> = service
        .served()
        .iter()
        .filter_map(|served| served.mount_identity())
        .collect();
    if !mounts.is_empty() {
        service.use_unmounter(Unmounter::start(mounts)?);
    }
    Ok(())
}

fn give_up_root(service: &Service, target: &Target) -> Result<(), Failure> {
    start_unmounter(service)?;
    target.assume()
}

/// Says where each disk is, for a script that waits for it, then that all of it is ready.
fn announce(service: &Service) {
    for served in service.served() {
        let size_bytes = served.disk.size_bytes();
        if let Some(directory) = served.mounted_on() {
            let path = directory.join("disk");
            output::line(&format!("serving {} ({size_bytes} bytes)", path.display()));
        }
        if let Some(path) = service.ublk.path_of(&served.name) {
            output::line(&format!("serving {} ({size_bytes} bytes)", path.display()));
        }
        if let Some(path) = service.vhost.path_of(&served.name) {
            output::line(&format!(
                "serving {} over vhost-user at {} ({size_bytes} bytes)",
                served.name,
                path.display()
            ));
        }
        for server in lock(&service.servers).iter() {
            output::line(&format!(
                "serving {} over NBD at {} ({size_bytes} bytes)",
                served.name,
                server.address()
            ));
        }
    }
    output::line("ready");
}

/// Returns when the last front end is closed. The first signal closes them, and goes on trying until
/// none is in use; the second, or the deadline, forces the end.
fn serve_until_end(
    service: &Arc<Service>,
    events: &Receiver<Event>,
    notifier: &Notifier,
    deadline: Duration,
) -> Result<(), Failure> {
    // The service holds a sender, so that this waits for as long as it takes.
    while let Ok(Event::Unmounted(number)) = events.recv() {
        if let Some(name) = service.was_unmounted(number) {
            tracing::info!(volume = name, "unmounted by somebody else");
            if !service.has_front_ends() {
                tracing::info!("the last front end is closed: ending");
                return Ok(());
            }
        }
    }
    notifier.send("STOPPING=1\nSTATUS=Waiting for requests and for disks in use");
    tracing::info!(
        deadline_s = deadline.as_secs(),
        "told to end: closing the front ends"
    );
    let before_end = {
        let service = Arc::downgrade(service);
        move || {
            if let Some(service) = service.upgrade() {
                close_front_ends_by_force(&service);
            }
        }
    };
    let last_resort = LastResort::after(deadline + CLOSE_GRACE, before_end)?;
    let drained = close_front_ends(service, events, Instant::now() + deadline);
    // From here on only the pool is left to close; the last resort stays armed in case that hangs.
    std::mem::forget(last_resort);
    drained
}

fn close_front_ends(
    service: &Arc<Service>,
    events: &Receiver<Event>,
    deadline: Instant,
) -> Result<(), Failure> {
    let servers = std::mem::take(&mut *lock(&service.servers));
    // All at once: none may let clients in while another one waits for its own.
    servers.iter().for_each(NbdServer::begin_drain);
    service.vhost.begin_drain();
    let mut signals = 1;
    let mut waits = 0;
    loop {
        let mut in_use = unmount_all(service);
        in_use.extend(service.ublk.remove_unused());
        in_use.extend(service.vhost.remove_unused());
        if !servers.iter().all(NbdServer::is_drained) {
            in_use.push("NBD connections".to_owned());
        }
        if in_use.is_empty() {
            return Ok(());
        }
        if signals > 1 || Instant::now() >= deadline {
            insist(service, servers);
            return Err(Failure::Forced(format!(
                "ended while in use: {}; whoever uses it gets errors from now on unless it waits, and \
                 nothing acknowledged is lost",
                in_use.join(", ")
            )));
        }
        // Not at once: most are closed before the next look.
        if waits == 1 {
            tracing::warn!(
                disks = in_use.join(", "),
                "in use, and served until they are not; unmount what is on them and detach their \
                 loop devices, or signal again to end at once"
            );
        }
        let left = deadline.saturating_duration_since(Instant::now());
        match events.recv_timeout(left.min(UNMOUNT_RETRY_INTERVAL)) {
            Ok(Event::Signal) => signals += 1,
            Ok(Event::Unmounted(number)) => {
                service.was_unmounted(number);
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => waits += 1,
        }
    }
}

/// Unmounts what is not in use; returns what is still there, and why if that is unusual.
fn unmount_all(service: &Service) -> Vec<String> {
    let mut in_use = Vec::new();
    for served in service.served() {
        let path = served.mounted_on().unwrap_or_default().join("disk");
        let path = path.display();
        match service.unmount(&served, false) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                in_use.push(path.to_string());
            }
            // Its end arrives as an event, at once unless it was detached while open.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                in_use.push(format!("{path} (unmounted by somebody else, still open)"));
            }
            Err(error) => in_use.push(format!("{path} ({error})")),
        }
    }
    in_use
}

/// Closes what is still open, in use or not.
fn insist(service: &Service, servers: Vec<NbdServer>) {
    servers.iter().for_each(NbdServer::cut);
    service.vhost.cut();
    close_front_ends_by_force(service);
    let until = Instant::now() + CLOSE_GRACE;
    let is_over = || {
        let has_guests = !service.vhost.remove_unused().is_empty();
        servers.iter().all(NbdServer::is_drained) && !has_guests
    };
    while !is_over() {
        if Instant::now() >= until {
            // Dropping them would wait longer for requests that a backing does not answer; the
            // process ends and takes them along.
            std::mem::forget(servers);
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn close_front_ends_by_force(service: &Service) {
    for served in service.served() {
        if let Err(error) = service.unmount(&served, true) {
            tracing::error!(volume = served.name, %error, "not unmounted");
        }
    }
}

/// Closes the pool if it is no longer in use; otherwise its next opening recovers it.
fn close(service: Arc<Service>) {
    let Some(service) = Arc::into_inner(service) else {
        return;
    };
    let ended = match service.into_store() {
        // What a design committed is in its region; its next opening finds it.
        Store::Design(design) => design.end(),
        Store::Pool(pool) => match Arc::into_inner(pool) {
            Some(pool) => pool.close().map_err(Failure::from),
            None => Ok(()),
        },
    };
    if let Err(error) = ended {
        tracing::error!(%error, "the pool was not closed in order; its next opening recovers it");
    }
}
