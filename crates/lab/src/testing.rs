//! What the engines' own tests share: a rig that reopens an engine, random operations against a
//! plain model, and crashes at every event of a script.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::Engine;
use forebay::{Backing, Region, Result};
use forebay_pmem::shadow::{Shadow, ShadowEvent, ShadowModel};

use crate::engines::{EngineName, EngineOptions, create, open};
pub(crate) use forebay_volatile::VolatileDisk;

/// Options of the smallest engines: whatever can fill up does so soon.
pub(crate) fn tiny_options() -> EngineOptions {
    EngineOptions {
        block_bytes: 128,
        ring_elements: Some(16),
        inode_bytes: 64,
        journal_blocks: Some(24),
        set_blocks: 4,
        background: false,
        ..EngineOptions::default()
    }
}

/// A disk that holds `bytes`, durably, in sectors smaller than a block.
pub(crate) fn disk_holding(bytes: &[u8]) -> Arc<VolatileDisk> {
    Arc::new(VolatileDisk::new("disk", bytes, 64))
}

/// Makes all writes and syncs of a disk fail from now on, or none.
pub(crate) fn set_broken(disk: &VolatileDisk, is_broken: bool) {
    let count = if is_broken { u32::MAX } else { 0 };
    disk.fail_next(count, count);
}

/// One engine's kind and size.
#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) name: EngineName,
    pub(crate) options: EngineOptions,
    pub(crate) region_bytes: u64,
    pub(crate) disk_blocks: usize,
}

/// A step of a test's script.
#[derive(Clone, Debug)]
pub(crate) enum TestStep {
    /// A transaction that gives each block the bytes of a seed.
    Commit(Vec<(u64, u64)>),
    /// A transaction that changes a few bytes of a block, as an inode's.
    Update(u64, u64),
    /// A transaction of both: whole blocks, then a few bytes of others.
    Mixed {
        data: Vec<(u64, u64)>,
        inodes: Vec<(u64, u64)>,
    },
    Read(u64),
    Flush,
    /// What the cleaner does at a wakeup.
    Turn,
}

/// Blocks with the seeds of what they get.
type Seeds = Vec<(u64, u64)>;

impl TestStep {
    /// What a transaction writes whole, and of which blocks a few bytes; none of other steps.
    fn changes(&self) -> Option<(Seeds, Seeds)> {
        match self {
            TestStep::Commit(data) => Some((data.clone(), Vec::new())),
            TestStep::Update(block, seed) => Some((Vec::new(), vec![(*block, *seed)])),
            TestStep::Mixed { data, inodes } => Some((data.clone(), inodes.clone())),
            TestStep::Read(_) | TestStep::Flush | TestStep::Turn => None,
        }
    }
}

/// All blocks' contents.
pub(crate) type Content = Vec<Vec<u8>>;

impl Rig {
    pub(crate) fn new(name: EngineName, region_bytes: u64, disk_blocks: usize) -> Rig {
        Rig {
            name,
            options: tiny_options(),
            region_bytes,
            disk_blocks,
        }
    }

    /// A fresh disk, filled with each block's own bytes.
    pub(crate) fn disk(&self) -> Arc<VolatileDisk> {
        let mut bytes = self.first_content().concat();
        bytes.resize(bytes.len() + self.journal_bytes(), 0);
        disk_holding(&bytes)
    }

    /// Bytes at the disk's end that are the engine's own.
    fn journal_bytes(&self) -> usize {
        let blocks = match self.name {
            EngineName::Classic => self.options.journal_blocks.unwrap_or(0),
            _ => 0,
        };
        blocks as usize * self.options.block_bytes
    }

    /// Whether the disk alone, as far as it is not the engine's own, holds this.
    pub(crate) fn disk_holds(&self, disk: &[u8], content: &Content) -> bool {
        disk[..disk.len() - self.journal_bytes()] == content.concat()
    }

    pub(crate) fn first_content(&self) -> Content {
        let blocks = 0..self.disk_blocks as u64;
        blocks.map(|block| self.bytes_of(1000 + block)).collect()
    }

    /// A block's worth of bytes that belong to `seed`.
    pub(crate) fn bytes_of(&self, seed: u64) -> Vec<u8> {
        let mut rng = fastrand::Rng::with_seed(seed);
        (0..self.options.block_bytes).map(|_| rng.u8(..)).collect()
    }

    pub(crate) fn create(&self, disk: &Arc<VolatileDisk>) -> (Arc<Shadow>, Box<dyn Engine>) {
        let shadow = Arc::new(Shadow::new(self.region_bytes, ShadowModel::Lines));
        let backing = Backing::from_store(disk.clone());
        let region = Region::on_shadow(shadow.clone());
        let engine = create(self.name, region, backing, &self.options);
        (shadow, engine.expect("an engine is made"))
    }

    pub(crate) fn open(
        &self,
        image: &[u8],
        disk: &Arc<VolatileDisk>,
    ) -> Result<(Arc<Shadow>, Box<dyn Engine>)> {
        let shadow = Arc::new(Shadow::from_image(image, ShadowModel::Lines));
        let backing = Backing::from_store(disk.clone());
        let region = Region::on_shadow(shadow.clone());
        Ok((shadow, open(self.name, region, backing, &self.options)?))
    }

    /// Everything the engine holds.
    pub(crate) fn content(&self, engine: &dyn Engine) -> Content {
        let mut all = vec![0; self.disk_blocks * self.options.block_bytes];
        engine.read(0, &mut all).expect("read");
        let blocks = all.chunks(self.options.block_bytes);
        blocks.map(<[u8]>::to_vec).collect()
    }

    /// Does a step, which `truth` follows.
    pub(crate) fn act(&self, engine: &dyn Engine, step: &TestStep, truth: &mut Content) {
        self.follow(step, truth);
        if let Some((data, inodes)) = step.changes() {
            let mut transaction = engine.begin();
            for (block, seed) in data {
                let bytes = self.bytes_of(seed);
                transaction.write(block, &bytes).expect("write");
            }
            for (block, seed) in inodes {
                let bytes = &truth[block as usize];
                let changed = self.changed(seed);
                transaction
                    .update(block, bytes, &[changed])
                    .expect("update");
            }
            transaction.commit().expect("commit");
        }
        match step {
            TestStep::Read(block) => {
                let mut out = vec![0; self.options.block_bytes];
                engine.read(*block, &mut out).expect("read");
                assert!(
                    out == truth[*block as usize],
                    "block {block} reads otherwise"
                );
            }
            TestStep::Flush => engine.flush().expect("flush"),
            TestStep::Turn => engine.background_turn().expect("a turn"),
            _ => {}
        }
    }

    fn changed(&self, seed: u64) -> std::ops::Range<usize> {
        let inode_bytes = self.options.inode_bytes;
        let start = seed as usize % (self.options.block_bytes / inode_bytes) * inode_bytes;
        start..start + 1 + seed as usize % inode_bytes
    }

    pub(crate) fn follow(&self, step: &TestStep, truth: &mut Content) {
        let (data, inodes) = step.changes().unwrap_or_default();
        for (block, seed) in data {
            truth[block as usize] = self.bytes_of(seed);
        }
        for (block, seed) in inodes {
            let changed = self.changed(seed);
            let bytes = &self.bytes_of(seed)[changed.clone()];
            truth[block as usize][changed].copy_from_slice(bytes);
        }
    }

    /// A random step; transactions have at most `blocks_max` blocks.
    pub(crate) fn random_step(&self, rng: &mut fastrand::Rng, blocks_max: usize) -> TestStep {
        if self.options.cleaner.is_some() && rng.u8(..6) == 0 {
            return TestStep::Turn;
        }
        let block = rng.u64(..self.disk_blocks as u64);
        match rng.u8(..20) {
            0..=8 => {
                let len = rng.usize(1..=blocks_max.min(self.disk_blocks));
                let mut blocks: Vec<u64> = (0..self.disk_blocks as u64).collect();
                rng.shuffle(&mut blocks);
                let blocks = blocks.into_iter().take(len);
                TestStep::Commit(blocks.map(|block| (block, rng.u64(..))).collect())
            }
            9..=12 => TestStep::Update(block, rng.u64(..)),
            13..=18 => TestStep::Read(block),
            _ => TestStep::Flush,
        }
    }

    /// Random operations against a plain model, with reopening now and then; returns the last
    /// engine and its region for further looks.
    pub(crate) fn run_against_model(
        &self,
        steps: usize,
        blocks_max: usize,
        seed: u64,
    ) -> (Arc<Shadow>, Box<dyn Engine>) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (disk, mut truth) = (self.disk(), self.first_content());
        let (mut shadow, mut engine) = self.create(&disk);
        let blocks_max = blocks_max.min(engine.transaction_blocks_max());
        for number in 0..steps {
            let step = self.random_step(&mut rng, blocks_max);
            self.act(&*engine, &step, &mut truth);
            let stats = engine.stats();
            assert!(stats.cached_blocks <= stats.slots, "{stats:?}");
            assert!(stats.dirty_blocks <= stats.cached_blocks, "{stats:?}");
            match rng.u32(..100) {
                0 => {
                    let image = shadow.crash_state().durable().to_vec();
                    drop(engine);
                    (shadow, engine) = self.open(&image, &disk).expect("open");
                    assert!(
                        self.content(&*engine) == truth,
                        "after reopening at {number}"
                    );
                }
                1 => {
                    engine.flush().expect("flush");
                    assert_eq!(engine.stats().dirty_blocks, 0, "after a flush at {number}");
                    let held = self.disk_holds(&disk.bytes(), &truth);
                    assert!(held, "the disk at {number}");
                }
                _ => {}
            }
        }
        assert!(self.content(&*engine) == truth, "in the end");
        (shadow, engine)
    }

    /// Runs the script, samples crash images at every event, and recovers each: it must hold what
    /// the script had committed before the step in which the crash came, or after it. Returns how
    /// many images there were, or what was wrong with the first bad one.
    pub(crate) fn crash_everywhere(
        &self,
        script: &[TestStep],
        images_per_event: usize,
        seed: u64,
    ) -> std::result::Result<usize, String> {
        let disk = self.disk();
        let (shadow, engine) = self.create(&disk);
        self.crash_within(&shadow, &disk, engine, (images_per_event, seed), script)
    }

    /// As [`Rig::crash_everywhere`], of a process that finds what another one left which was killed
    /// before some event of the step `killed`: all its stores and writes are visible, but what it did
    /// not make durable is not. Every event has its turn.
    pub(crate) fn crash_after_kills(
        &self,
        script: &[TestStep],
        killed: &TestStep,
        next: &[TestStep],
        images_per_event: usize,
    ) -> std::result::Result<usize, String> {
        let mut images = 0;
        for event in 0.. {
            let disk = self.disk();
            let (shadow, engine) = self.create(&disk);
            let mut truth = self.first_content();
            for step in script {
                self.act(&*engine, step, &mut truth);
            }
            if !self.is_killed_at(event, &shadow, engine, killed, &mut truth) {
                break;
            }
            let region = Region::on_shadow(shadow.clone());
            let backing = Backing::from_store(disk.clone());
            let engine = open(self.name, region, backing, &self.options).expect("it recovers");
            let sampling = (images_per_event, event);
            let found = self.crash_within(&shadow, &disk, engine, sampling, next);
            images += found.map_err(|wrong| format!("killed at {event}: {wrong}"))?;
        }
        Ok(images)
    }

    /// Does a step in a thread that dies before an event; false if there are not so many.
    pub(crate) fn is_killed_at(
        &self,
        event: u64,
        shadow: &Arc<Shadow>,
        engine: Box<dyn Engine>,
        step: &TestStep,
        truth: &mut Content,
    ) -> bool {
        let events = AtomicUsize::new(0);
        shadow.set_hook(Some(Arc::new(move |_| {
            if events.fetch_add(1, Ordering::Relaxed) as u64 == event {
                // A panic without the message.
                std::panic::resume_unwind(Box::new("killed"));
            }
        })));
        // A thread of its own: what it has flushed, no fence of another one waits for.
        let is_killed = std::thread::scope(|scope| {
            let process = scope.spawn(move || self.act(&*engine, step, truth));
            process.join().is_err()
        });
        shadow.set_hook(None);
        shadow.end_threads();
        is_killed
    }

    fn crash_within(
        &self,
        shadow: &Arc<Shadow>,
        disk: &Arc<VolatileDisk>,
        engine: Box<dyn Engine>,
        (images_per_event, seed): (usize, u64),
        script: &[TestStep],
    ) -> std::result::Result<usize, String> {
        let crashes: Arc<Mutex<Vec<Crash>>> = Arc::default();
        let done = Arc::new(AtomicUsize::new(0));
        let hook = {
            let (shadow, disk) = (Arc::downgrade(shadow), disk.clone());
            let (crashes, done) = (crashes.clone(), done.clone());
            let rng = Mutex::new(fastrand::Rng::with_seed(seed));
            move |event: ShadowEvent| {
                let Some(shadow) = shadow.upgrade() else {
                    return;
                };
                let state = shadow.crash_state();
                let mut rng = rng.lock().expect("no panic");
                for _ in 0..images_per_event {
                    crashes.lock().expect("no panic").push(Crash {
                        step: done.load(Ordering::Relaxed),
                        event: format!("{event:?}"),
                        medium: state.sample(&mut rng),
                        disk: disk.crash_state().sample_bytes(&mut rng),
                    });
                }
            }
        };
        let mut truths = vec![self.content(&*engine)];
        shadow.set_hook(Some(Arc::new(hook)));
        for step in script {
            let mut truth = truths[truths.len() - 1].clone();
            self.act(&*engine, step, &mut truth);
            truths.push(truth);
            done.fetch_add(1, Ordering::Relaxed);
        }
        shadow.set_hook(None);
        drop(engine);
        let crashes = std::mem::take(&mut *crashes.lock().expect("no panic"));
        for crash in &crashes {
            let legal = [&truths[crash.step], &truths[crash.step + 1]];
            self.verify(crash, legal).map_err(|wrong| {
                format!(
                    "{wrong}: step {} {:?}, {}",
                    crash.step, script[crash.step], crash.event
                )
            })?;
        }
        Ok(crashes.len())
    }

    /// Recovers from a crash, twice, and flushes.
    fn verify(&self, crash: &Crash, legal: [&Content; 2]) -> std::result::Result<(), String> {
        let disk = disk_holding(&crash.disk);
        let (shadow, engine) = self.open(&crash.medium, &disk).map_err(|e| e.to_string())?;
        let mut found = self.content(&*engine);
        if let Some(block) = (0..self.disk_blocks)
            .find(|&block| legal.iter().all(|content| content[block] != found[block]))
        {
            return Err(format!(
                "block {block} holds neither what it did before nor after"
            ));
        }
        if !legal.contains(&&found) {
            return Err("a transaction is there in part".into());
        }
        drop(engine);
        let image = shadow.crash_state().durable().to_vec();
        let (shadow, engine) = self.open(&image, &disk).map_err(|e| e.to_string())?;
        if self.content(&*engine) != found {
            return Err("a second recovery finds something else".into());
        }
        // A commit after the recovery must not bring back what the recovery left out.
        self.act(&*engine, &TestStep::Commit(vec![(0, 1)]), &mut found);
        drop(engine);
        let image = shadow.crash_state().durable().to_vec();
        let (_shadow, engine) = self.open(&image, &disk).map_err(|e| e.to_string())?;
        if self.content(&*engine) != found {
            return Err("a recovery after another commit finds something else".into());
        }
        engine.flush().map_err(|e| e.to_string())?;
        let mut rng = fastrand::Rng::with_seed(0);
        if !self.disk_holds(&disk.crash_state().sample_bytes(&mut rng), &found) {
            return Err("the disk lacks something after a flush".into());
        }
        Ok(())
    }

    /// A script that fills the cache and overwrites.
    pub(crate) fn random_script(
        &self,
        steps: usize,
        blocks_max: usize,
        seed: u64,
    ) -> Vec<TestStep> {
        let mut rng = fastrand::Rng::with_seed(seed);
        (0..steps)
            .map(|_| self.random_step(&mut rng, blocks_max))
            .collect()
    }

    /// Garbage in the region is refused or served, never a panic: a real image with bytes changed.
    pub(crate) fn open_garbage(&self, rounds: u64) {
        let (shadow, engine) = self.run_against_model(50, 3, 7);
        drop(engine);
        let image = shadow.crash_state().durable().to_vec();
        for seed in 0..rounds {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut image = image.clone();
            for _ in 0..rng.usize(1..20) {
                let at = rng.usize(..image.len());
                image[at] = rng.u8(..);
            }
            let disk = self.disk();
            if let Ok((_shadow, engine)) = self.open(&image, &disk) {
                let mut out = vec![0; self.options.block_bytes];
                for block in 0..self.disk_blocks as u64 {
                    drop(engine.read(block, &mut out));
                    drop(engine.write(block, &out));
                }
                drop(engine.flush());
            }
        }
        let zeroes = vec![0; image.len()];
        assert!(
            self.open(&zeroes, &self.disk()).is_err(),
            "zeroes are no engine"
        );
    }
}

/// A crash and how far the script was.
struct Crash {
    step: usize,
    event: String,
    medium: Vec<u8>,
    disk: Vec<u8>,
}
