//! `forebay-lab serve`: a published design over its disk, served as `forebay serve` serves the disks of a
//! pool. It may be killed at any time; the next one recovers.
//!
//! Order at the start: the cache, the control socket, the front ends. Order at the end: no more requests, no
//! more commands, then the disk is marked whole if nothing is dirty. What is dirty stays in the memory.

use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::time::Duration;

use forebay_command::disks::{self, Disks, Served, VhostFrontEnds, report};
use forebay_command::end::{self, SHUTDOWN_DEADLINE};
use forebay_command::notify::Notifier;
use forebay_command::requests::{Flush, FrontEnds, Stat};
use forebay_command::{Failure, Trust, json_path, start};
use forebay_lab::Engine;
use forebay_lab::engines::EngineName;
use forebay_serve::control::{Handler, Parameters, Progress};
use forebay_serve::nbd::NbdOptions;
use forebay_serve::{
    ControlServer, DiskOptions, MeteredDevice, Refusal, RefusalKind, Request, control_path,
    mount_point,
};
use serde_json::{Value, json};

use crate::EngineDevice;
use crate::arguments::ServeOptions;
use crate::delays::{Delays, SetDelays};
use crate::region::{self, OpenOptions};

/// No later daemon takes a ublk device over: the memory of a design has no name of its own.
const NO_IDENTITY: u64 = 0;

/// A published design and its disk, from the start to the end.
struct Laboratory {
    name: EngineName,
    engine: Arc<dyn Engine>,
    delays: Delays,
    memory: PathBuf,
    trust: Trust,
    backing: PathBuf,
    disks: Arc<Disks<()>>,
}

/// Serves until told to stop.
pub fn run(options: &ServeOptions) -> Result<(), Failure> {
    let disk = &options.disk;
    if !disk.has_front_end() && options.nbd.is_empty() {
        return Err(Failure::Arguments(
            "no program could reach the disk; open a front end with --nbd, --fuse or --vhost-user"
                .into(),
        ));
    }
    start::prepare(options.log_level, options.log_format);
    start::raise_descriptor_limit();
    let (sender, events) = channel();
    let notifier = Notifier::from_environment();
    let memory = (options.memory.as_path(), options.trust);
    let asked = OpenOptions {
        name: options.engine,
        accept_stale: options.accept_stale,
        has_cleaner: options.cleaner,
        delays: options.delays,
    };
    let opened = region::open(asked, memory, &disk.backing)?;
    let disk_options = DiskOptions {
        threads: usize::from(options.threads),
        allow_other: false,
        ..DiskOptions::default()
    };
    let vhost = VhostFrontEnds::new(options.vhost_user_queues, None);
    let disks = Arc::new(Disks::new(disk_options, vhost, sender.clone()));
    let laboratory = Arc::new(Laboratory {
        name: opened.name,
        engine: opened.engine,
        delays: opened.delays,
        memory: options.memory.clone(),
        trust: options.trust,
        backing: opened.backing,
        disks: Arc::clone(&disks),
    });
    end::forward_signals(sender, || end::Event::Signal)?;
    let answers = Arc::new(Answers(Arc::downgrade(&laboratory)));
    let control_server = ControlServer::new(&control_path(&options.memory), None, answers)?;
    laboratory.open_front_ends(options)?;
    disks.announce();
    notifier.send("READY=1\nSTATUS=Serving");
    let deadline = options
        .shutdown_deadline
        .map_or(SHUTDOWN_DEADLINE, Duration::from_secs);
    let ended = disks::serve_until_end(&disks, &events, &notifier, deadline);
    drop((control_server, disks));
    if let Some(Err(error)) = Arc::into_inner(laboratory).map(Laboratory::end) {
        tracing::error!(%error, "not ended in order; the next start recovers it");
    }
    ended
}

impl Laboratory {
    fn open_front_ends(&self, options: &ServeOptions) -> Result<(), Failure> {
        let settings = &options.disk;
        let name = self
            .disks
            .new_name(settings.name.as_deref(), &settings.backing)?;
        if let Some(directory) = &settings.fuse {
            mount_point::prepare(directory)?;
        }
        let device = MeteredDevice::new(EngineDevice::new(Arc::clone(&self.engine)));
        let served = Served::new(name, self.backing.clone(), device, (), NO_IDENTITY);
        let served = Arc::new(served);
        self.disks.add(Arc::clone(&served));
        self.disks
            .open_front_ends(&served, &settings.front_ends())?;
        self.disks.listen(&options.nbd, &NbdOptions::default())
    }

    /// To be called when the disk is no longer served. What is dirty stays in the memory; without anything
    /// dirty the disk is whole.
    ///
    /// # Errors
    /// The disk or its mark failed; the next start finds everything.
    fn end(self) -> Result<(), Failure> {
        let Laboratory {
            name,
            engine,
            memory,
            trust,
            backing,
            disks,
            ..
        } = self;
        drop(disks);
        if engine.stats().dirty_blocks > 0 {
            return Ok(());
        }
        engine.flush()?;
        if Arc::strong_count(&engine) > 1 {
            return Ok(());
        }
        // Its region and its disk are locked while it is there.
        drop(engine);
        region::end(name, (&memory, trust), &backing)
    }

    /// The state of the engine, of the disk, of every front end: a `stat` of `forebay serve`, as far as an
    /// engine has it.
    fn stat(&self) -> Value {
        let stats = self.engine.stats();
        let disks = self.disks.served().into_iter().map(|served| {
            let disk = json!({
                "id": 0,
                "size_bytes": self.engine.size_bytes(),
                "attached": true,
                "degraded": stats.is_degraded,
                "last_error": self.engine.last_error(),
                "backing": report::backing(&stats.backing),
                "requests": report::requests(&served.meters.snapshot()),
            });
            let mut disk = json_path::with(disk, "path", &self.backing);
            report::describe(&self.disks, &served, &mut disk);
            disk
        });
        json!({
            "engine": self.engine.name(),
            "block_bytes": self.engine.block_bytes(),
            "transaction_blocks_max": self.engine.transaction_blocks_max(),
            "slots": stats.slots,
            "cached_blocks": stats.cached_blocks,
            "dirty_blocks": stats.dirty_blocks,
            "delays": self.delays.to_json(),
            "counters": report::memory(&stats.memory),
            "totals": {
                "commits": stats.commits,
                "blocks_committed": stats.blocks_committed,
                "write_hits": stats.write_hits,
                "read_hits": stats.read_hits,
                "read_misses": stats.read_misses,
                "evictions": stats.evictions,
                "write_back_errors": stats.write_back_errors,
            },
            "volumes": disks.collect::<Vec<_>>(),
            "front_ends": report::front_ends(&self.disks),
            "daemon": report::daemon(self.disks.started),
        })
    }

    fn answer(&self, request: &Request) -> Result<Value, Refusal> {
        match request.command.as_str() {
            Stat::COMMAND => {
                request.parameters::<Stat>()?;
                Ok(self.stat())
            }
            FrontEnds::COMMAND => {
                request.parameters::<FrontEnds>()?;
                Ok(json!({"front_ends": report::front_ends(&self.disks)}))
            }
            Flush::COMMAND => {
                if let Some(name) = request.parameters::<Flush>()?.volume {
                    self.disks.find(&name)?;
                }
                // In one go: there is nothing to watch, and nothing to call off.
                self.engine.flush().map_err(Refusal::failed)?;
                Ok(json!({"flushed": true}))
            }
            SetDelays::COMMAND => {
                self.delays.set(request.parameters::<SetDelays>()?.are_on);
                Ok(json!({"delays": self.delays.to_json()}))
            }
            other => Err(Refusal::new(
                RefusalKind::UnknownCommand,
                format!(
                    "forebay-lab serves the engine {} and knows stat, front-ends, flush and delays, not {other}",
                    self.name
                ),
            )),
        }
    }
}

/// Answers on the control socket while the disk is served.
struct Answers(Weak<Laboratory>);

impl Handler for Answers {
    fn handle(&self, request: &Request, _progress: &mut dyn Progress) -> Result<Value, Refusal> {
        let laboratory = self.0.upgrade();
        let laboratory =
            laboratory.ok_or_else(|| Refusal::new(RefusalKind::Busy, "the daemon is ending"))?;
        laboratory.answer(request)
    }
}
