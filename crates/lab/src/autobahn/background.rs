//! Threads of the stages, which sleep until they are woken (§5.3.1: "the flusher thread is normally inactive").

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::pipeline::Pipeline;
use super::wakeup::Wakeup;

/// The threads of a buffer; they end when it goes.
#[derive(Debug)]
pub(super) struct StageThreads {
    pipeline: Arc<Pipeline>,
    is_ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl StageThreads {
    /// A flusher for each dirty queue, and the reclaimer.
    pub(super) fn start(pipeline: &Arc<Pipeline>) -> io::Result<StageThreads> {
        let mut started = StageThreads {
            pipeline: pipeline.clone(),
            is_ending: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
        };
        for number in 0..pipeline.dirty.len() {
            started.spawn(
                &format!("flusher {number}"),
                move |pipeline| &pipeline.dirty[number].flusher,
                // An error has stopped the buffer; writers hear of it.
                move |pipeline| drop(pipeline.flush(&pipeline.dirty[number])),
            )?;
        }
        started.spawn(
            "reclaimer",
            |pipeline| &pipeline.reclaimer,
            |pipeline| {
                pipeline.reclaim(2 * pipeline.free_low());
            },
        )?;
        Ok(started)
    }

    /// Has a thread do its work whenever it is woken, until the buffer ends.
    fn spawn(
        &mut self,
        name: &str,
        wakeup: impl Fn(&Pipeline) -> &Wakeup + Send + 'static,
        work: impl Fn(&Pipeline) + Send + 'static,
    ) -> io::Result<()> {
        let (pipeline, is_ending) = (self.pipeline.clone(), self.is_ending.clone());
        let run = move || {
            loop {
                wakeup(&pipeline).wait();
                if is_ending.load(Ordering::Acquire) {
                    return;
                }
                if pipeline.check().is_ok() {
                    work(&pipeline);
                }
            }
        };
        let builder = std::thread::Builder::new().name(name.into());
        self.threads.push(builder.spawn(run)?);
        Ok(())
    }
}

impl Drop for StageThreads {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        for dirty in &self.pipeline.dirty {
            dirty.flusher.wake();
        }
        self.pipeline.reclaimer.wake();
        for thread in self.threads.drain(..) {
            // A stage that panicked has told so; nothing is left to do for it.
            let _ = thread.join();
        }
    }
}
