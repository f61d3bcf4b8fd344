//! What a durable write of a few bytes costs: `append POOL DIRECTORY [BYTES] [COUNT] [THREADS]`. The pool
//! is made; threads append to a private file each. The processor's time is told beside the clock's: what
//! the writers took of it, and what the pool's own threads took meanwhile.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use forebay::{Pool, PoolOptions};
use forebay_files::{BufferedFile, FileBuffer, FileBufferOptions, SyncKind};
use rustix::time::{ClockId, clock_gettime};

const POOL_BYTES: u64 = 512 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [pool, directory, numbers @ ..] = &arguments[..] else {
        return Err("append POOL DIRECTORY [BYTES] [COUNT] [THREADS]".into());
    };
    let number = |at: usize, default| numbers.get(at).map_or(Ok(default), |text| text.parse());
    let (bytes, count, threads) = (number(0, 256)?, number(1, 200_000)?, number(2, 1)?);
    Pool::create(&PoolOptions::new(pool, POOL_BYTES).force(true))?.close()?;
    let side = PathBuf::from(format!("{pool}.files"));
    if side.exists() {
        std::fs::remove_file(side)?;
    }
    let buffer = FileBuffer::open(&FileBufferOptions::new(pool))?;
    let files = (0..threads)
        .map(|thread| {
            open(
                &buffer,
                &Path::new(directory).join(format!("append-{thread}")),
            )
        })
        .collect::<Result<Vec<_>, _>>()?;
    let before = buffer.counters();
    let started = Instant::now();
    let processor_before_ns = processor_ns(ClockId::ProcessCPUTime);
    let barrier = Barrier::new(threads);
    let written: Vec<Written> = std::thread::scope(|scope| {
        let barrier = &barrier;
        let run = |file| scope.spawn(move || append_all(file, bytes, count, barrier));
        let running: Vec<_> = files.iter().map(run).collect();
        let done = running.into_iter();
        done.map(|thread| thread.join().expect("appends work"))
            .collect()
    });
    let elapsed = started.elapsed();
    let processor_ns = processor_ns(ClockId::ProcessCPUTime) - processor_before_ns;
    let writers_ns: u64 = written.iter().map(|one| one.processor_ns).sum();
    let mut times: Vec<u64> = written.into_iter().flat_map(|one| one.times_ns).collect();
    let spent = buffer.counters() - before;
    times.sort_unstable();
    let total = (count * threads) as f64;
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "{bytes} B x {count} x {threads}: median {} ns, p99 {} ns, mean {:.0} ns, {:.2} M/s, \
         {:.2} lines, {:.3} fences; processor: writers {:.0} ns, others {:.0} ns",
        at(0.5),
        at(0.99),
        times.iter().sum::<u64>() as f64 / total,
        total / elapsed.as_secs_f64() / 1e6,
        (spent.lines_flushed + spent.lines_streamed) as f64 / total,
        spent.fences as f64 / total,
        writers_ns as f64 / total,
        (processor_ns - writers_ns) as f64 / total,
    );
    drop(files);
    buffer.close()?;
    Ok(())
}

fn open(buffer: &Arc<FileBuffer>, path: &Path) -> std::io::Result<Arc<BufferedFile>> {
    let file = std::fs::File::create_new(path).or_else(|_| {
        std::fs::remove_file(path)?;
        std::fs::File::create_new(path)
    })?;
    drop(file);
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)?;
    let file = buffer.adopt(file.into())?;
    file.sync(SyncKind::Data)?;
    Ok(file)
}

/// What a thread did.
struct Written {
    times_ns: Vec<u64>,
    processor_ns: u64,
}

fn append_all(file: &Arc<BufferedFile>, bytes: usize, count: usize, barrier: &Barrier) -> Written {
    let data = vec![0x5A; bytes];
    let mut times_ns = Vec::with_capacity(count);
    barrier.wait();
    let before_ns = processor_ns(ClockId::ThreadCPUTime);
    for _ in 0..count {
        let started = Instant::now();
        file.append(&data, false).expect("append");
        file.sync(SyncKind::Data).expect("sync");
        times_ns.push(started.elapsed().as_nanos() as u64);
    }
    let processor_ns = processor_ns(ClockId::ThreadCPUTime) - before_ns;
    Written {
        times_ns,
        processor_ns,
    }
}

fn processor_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
