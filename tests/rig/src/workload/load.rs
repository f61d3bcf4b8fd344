//! Does the steps, in a guest.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{Change, Step, Stream, TEMPORARY_NAME, file_name, report_path, thread_folder};
use crate::{Failure, Result};

/// What to do.
#[derive(Clone, Debug, clap::Args)]
pub struct Load {
    /// Where, on the file system that is tested.
    #[arg(long)]
    pub folder: PathBuf,
    /// Where it reports what was acknowledged; not there.
    #[arg(long)]
    pub reports: PathBuf,
    /// Decides every step.
    #[arg(long)]
    pub seed: u64,
    /// How many do it at once.
    #[arg(long)]
    pub threads: u32,
    /// Reports without waiting for any fsync: the control, which has to lose data.
    #[arg(long)]
    pub without_fsync: bool,
}

impl Load {
    /// Never ends but by an error, or the power.
    pub fn run(&self) -> Result<()> {
        fs::create_dir_all(&self.folder)?;
        let prepared: Vec<Worker> = (0..self.threads)
            .map(|thread| self.prepare(thread))
            .collect::<Result<_>>()?;
        // No folder may be missing where its first file is not.
        File::open(&self.folder)?.sync_all()?;
        if let Some(parent) = self.folder.parent() {
            File::open(parent)?.sync_all()?;
        }
        let workers = prepared
            .into_iter()
            .map(|worker| std::thread::spawn(move || worker.run()));
        let workers: Vec<_> = workers.collect();
        for worker in workers {
            worker
                .join()
                .map_err(|_| "a thread of the load panicked")??;
        }
        Ok(())
    }

    fn prepare(&self, thread: u32) -> Result<Worker> {
        let folder = thread_folder(&self.folder, thread);
        fs::create_dir(&folder)?;
        Ok(Worker {
            handle: File::open(&folder)?,
            folder,
            report: File::create(report_path(&self.reports, thread))?,
            stream: Stream::new(self.seed, thread),
            is_syncing: !self.without_fsync,
        })
    }
}

struct Worker {
    folder: PathBuf,
    handle: File,
    report: File,
    stream: Stream,
    is_syncing: bool,
}

impl Worker {
    fn run(mut self) -> Result<()> {
        for number in 1u64.. {
            let step = self.stream.next_step();
            let is_data_sync = self.stream.is_data_sync();
            let what = |error: Failure| format!("step {number}, file {}: {error}", step.file);
            self.act(&step, is_data_sync).map_err(what)?;
            self.stream.apply(&step);
            // One write, which is with the host when it returns.
            self.report.write_all(format!("{number}\n").as_bytes())?;
        }
        Ok(())
    }

    fn act(&self, step: &Step, is_data_sync: bool) -> Result<()> {
        let path = self.folder.join(file_name(step.file));
        match &step.change {
            Change::Create(bytes) => {
                let file = File::create_new(&path)?;
                (&file).write_all(bytes)?;
                self.sync(&file, is_data_sync)?;
                self.sync(&self.handle, false)
            }
            Change::Append(bytes) => {
                let file = File::options().append(true).open(&path)?;
                (&file).write_all(bytes)?;
                self.sync(&file, is_data_sync)
            }
            Change::Overwrite(offset, bytes) => {
                let file = File::options().write(true).open(&path)?;
                file.write_all_at(bytes, *offset as u64)?;
                self.sync(&file, is_data_sync)
            }
            Change::Replace(bytes) => self.replace(&path, bytes, is_data_sync),
            Change::Remove => {
                fs::remove_file(&path)?;
                self.sync(&self.handle, false)
            }
        }
    }

    fn replace(&self, path: &Path, bytes: &[u8], is_data_sync: bool) -> Result<()> {
        let temporary = self.folder.join(TEMPORARY_NAME);
        let file = File::create(&temporary)?;
        (&file).write_all(bytes)?;
        self.sync(&file, is_data_sync)?;
        fs::rename(temporary, path)?;
        self.sync(&self.handle, false)
    }

    fn sync(&self, file: &File, is_data_sync: bool) -> Result<()> {
        match (self.is_syncing, is_data_sync) {
            (false, _) => {}
            (true, true) => file.sync_data()?,
            (true, false) => file.sync_all()?,
        }
        Ok(())
    }
}
