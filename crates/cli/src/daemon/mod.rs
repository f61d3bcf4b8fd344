//! `forebay serve`: the daemon. It may be killed at any time; the next one recovers and serves on.
//!
//! Order at the start: the pool, the disks, the control socket, the front ends, then root's rights are
//! dropped if so configured, the mapped regions are kept, then the service manager is notified. Order at the end: no more requests,
//! no more commands, then the pool is closed. Dirty blocks stay in the pool: they are safe there, and
//! ending must be quick.

mod answers;
pub mod broker;
mod confinement;
mod detach;
mod drills;
mod every_thread;
mod faults;
pub mod mount;
mod privileges;
mod refusals;
mod regions;
mod report;
mod sandbox;
mod scrub;
mod service;
mod set_aside;
pub mod unmounter;
mod watch;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use forebay::{Pool, RegionOptions, RuntimeOptions};
use forebay_command::disks::{self, DiskSettings, Disks, VhostFrontEnds};
use forebay_command::end::{self, SHUTDOWN_DEADLINE};
use forebay_command::notify::Notifier;
use forebay_command::{Failure, start};
use forebay_serve::nbd::{NbdOptions, TlsFiles};
use forebay_serve::{ControlServer, DiskOptions, Transport, control_path};

use crate::arguments::ServeOptions;
use crate::config::{Settings, Switch};
use crate::stack::PoolBehind;
use crate::{idle_pool, members};
use answers::Answers;
use confinement::Confinement;
use privileges::Target;
use regions::{PERIOD, Regions, Teller};
use service::Service;
use unmounter::Unmounter;

/// Serves until told to stop.
pub fn run(options: &ServeOptions) -> Result<(), Failure> {
    let settings = read_settings(options)?;
    start::prepare(settings.log_level, settings.log_format);
    start::raise_descriptor_limit();
    let target = settings.user.as_deref().map(Target::of_name).transpose()?;
    let notifier = Arc::new(Notifier::from_environment());
    notifier.send("STATUS=Opening the pool");

    let (sender, events) = channel();
    // Recovered before any block of the pool in front is written back to it.
    let behind = settings.behind.clone();
    let behind = behind.map(|path| PoolBehind::open(path, behind_options(&settings)));
    let behind = behind.transpose()?;
    let pool = open_pool(&settings, options.without_missing)?;
    let disk_options = DiskOptions {
        transport: settings.transport.map_or(Transport::Auto, Transport::from),
        threads: usize::from(settings.threads.unwrap_or(8)),
        allow_other: settings.allow_other,
    };
    let owner = target.as_ref().map(Target::owner);
    let vhost = VhostFrontEnds::new(settings.vhost_user_queues, owner);
    let confinement = match settings.allow_backing.as_slice() {
        [] => None,
        paths => Some(Confinement::to(paths)?),
    };
    let disks = Disks::new(disk_options, vhost, sender.clone());
    let service = Arc::new(Service::new(
        (pool, settings.pool.clone()),
        behind,
        disks,
        confinement,
    ));
    end::forward_signals(sender, || end::Event::Signal)?;
    let control = control_path(&settings.pool[0]);
    let answers = Arc::new(Answers(Arc::downgrade(&service)));
    let control_server = ControlServer::new(&control, owner, answers)?;
    open_everything(&service, &settings, options.accept_stale, owner)?;
    if let Some(target) = &target {
        give_up_root(&service, target)?;
    }
    // As the user that it is from now on, and before it can open nothing more.
    let period = settings.dax_period.unwrap_or(PERIOD);
    *service.regions.lock() = Regions::keep(&service.pool, &service.given, period);
    enter_sandbox(&service, &settings)?;
    service.disks.announce();
    notifier.send("READY=1\nSTATUS=Serving");
    let watch = watch::start({
        let service = Arc::downgrade(&service);
        let mut teller = Teller::default();
        move || {
            let service = service.upgrade()?;
            let kept = service.regions.lock().as_ref().map(Regions::kept);
            teller.tell(&kept.unwrap_or_default());
            let members = members::of(&service.pool, &service.given);
            service.scrub.start_if_due(&service.pool);
            Some(watch::Seen::new(service.pool.stats(), members))
        }
    });
    let watch_behind = service.behind.as_ref().map(|_| {
        let service = Arc::downgrade(&service);
        watch::start(move || {
            let service = service.upgrade()?;
            let behind = service.behind.as_ref()?;
            let members = members::of(&behind.pool, std::slice::from_ref(&behind.given));
            Some(watch::Seen::new(behind.pool.stats(), members))
        })
    });
    notifier.watch({
        let service = Arc::downgrade(&service);
        move || {
            service.upgrade().is_some_and(|service| {
                let behind = service.behind.as_ref().map(|behind| &behind.pool);
                let mut pools = std::iter::once(&service.pool).chain(behind);
                pools.all(|pool| !pool.stats().poisoned)
            })
        }
    });

    let deadline = settings
        .shutdown_deadline
        .map_or(SHUTDOWN_DEADLINE, Duration::from_secs);
    let ended = disks::serve_until_end(&service.disks, &events, &notifier, deadline);
    drop(control_server);
    service.end_rebuild();
    // It may be looking at the pool, which is closed when no thread does, or begin a scrub.
    drop((watch, watch_behind));
    service.scrub.stop(&service.pool);
    if let Some(regions) = service.regions.lock().take() {
        regions.stop();
    }
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
    if !volumes.iter().any(DiskSettings::has_front_end) && settings.nbd.is_empty() {
        return refuse(
            "no program could reach a disk; open a front end with --fuse, --nbd, --vhost-user or --ublk",
        );
    }
    if settings.nbd.is_empty()
        && let Some(volume) = volumes.iter().find(|volume| !volume.has_front_end())
    {
        return Err(Failure::Arguments(format!(
            "no program could reach {}; give it a front end with --fuse, --nbd, --vhost-user or --ublk",
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

/// Opens the pool, and recovers it.
fn open_pool(settings: &Settings, without_missing: bool) -> Result<Pool, Failure> {
    let options = runtime_options(settings)?.without_missing(without_missing);
    let pool = idle_pool::open(&settings.pool, options)?;
    if let Some(witness) = pool.witness().filter(|witness| !witness.is_there) {
        tracing::warn!(
            witness = %witness.path.display(),
            "the witness is not there: no member can be taken out, and one that dies ends all writes"
        );
    }
    if let Some(bytes_per_s) = settings.flush_rate {
        pool.set_flush_rate_limit(bytes_per_s);
    }
    Ok(pool)
}

/// Of the pool between it and the disks, settings are as they are by default.
fn behind_options(settings: &Settings) -> RuntimeOptions {
    RuntimeOptions::default().region(region_options(settings))
}

fn region_options(settings: &Settings) -> RegionOptions {
    RegionOptions::default().trust_owner(settings.trust_owner)
}

/// What is read ahead of a run at most, where nothing else is said.
const READ_AHEAD_BYTES: u64 = 4 << 20;

fn runtime_options(settings: &Settings) -> Result<RuntimeOptions, Failure> {
    let mut options = RuntimeOptions::default()
        .region(region_options(settings))
        .witness(settings.witness.clone());
    let per_mille = |percent: u8| u32::from(percent) * 10;
    if let Some(low) = settings.dirty_low {
        options = options.dirty_low_per_mille(per_mille(low));
    }
    if let Some(high) = settings.dirty_high {
        options = options.dirty_high_per_mille(per_mille(high));
    }
    let (low, high) = options.watermarks_per_mille();
    if low > high {
        return Err(Failure::Arguments(format!(
            "dirty-low is {} percent and dirty-high {}; the low one may not exceed the high one",
            low / 10,
            high / 10
        )));
    }
    if let Some(verify) = settings.verify {
        options = options.verify(answers::verify_policy(verify));
    }
    if let Some(replacement) = settings.replacement {
        options = options.replacement(answers::replacement_policy(replacement));
    }
    if let Some(defers) = settings.defer_journal {
        options = options.defer_journal(defers.is_on());
    }
    if let Some(shares) = settings.share_duplicates {
        options = options.share_duplicates(shares.is_on());
    }
    if let Some(compares) = settings.compare_writes {
        options = options.compare_writes(compares.is_on());
    }
    if let Some(cutoff_bytes) = settings.sequential_cutoff {
        options = options.sequential_cutoff_bytes(cutoff_bytes);
    }
    let read_ahead_bytes = settings.read_ahead.unwrap_or(READ_AHEAD_BYTES);
    options = options.read_ahead_bytes(read_ahead_bytes);
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
    for volume in service.pool.stats().volumes {
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
    service.disks.listen(&settings.nbd, &options)
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
    if !sandbox::can_be_entered(service.disks.has_mounts(), has_unmounter) {
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
        .disks
        .served()
        .iter()
        .filter_map(|served| served.mount_identity())
        .collect();
    if !mounts.is_empty() {
        service.disks.use_unmounter(Unmounter::start(mounts)?);
    }
    Ok(())
}

fn give_up_root(service: &Service, target: &Target) -> Result<(), Failure> {
    start_unmounter(service)?;
    target.assume()
}

/// Closes the pool if it is no longer in use; otherwise its next opening recovers it.
fn close(mut service: Arc<Service>) {
    // A rebuild that was ended is being told to its client.
    let patience = Instant::now() + Duration::from_secs(1);
    let service = loop {
        match Arc::try_unwrap(service) {
            Ok(service) => break service,
            Err(_) if Instant::now() > patience => return,
            Err(used) => service = used,
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    for pool in service.into_pools() {
        if let Err(error) = pool.close() {
            tracing::error!(%error, "a pool was not closed in order; its next opening recovers it");
        }
    }
}
