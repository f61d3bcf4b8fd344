//! Several ways to do a thing, measured in turn in short slices, so that a slow moment of the
//! machine hits all of them alike. A slice ends by the wall clock; its rate is by that clock or, on
//! a machine that others use too, by the time that the thread had a processor.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use forebay_harness::{Result, check_interrupt, median};
use forebay_pmem::Kernel;
use indicatif::ProgressBar;
use rustix::time::{ClockId, clock_gettime};

/// One way. A call of `batch` does some operations and says how many.
pub struct Contender<'a> {
    name: &'static str,
    kernel: Option<Kernel>,
    batch: Box<dyn FnMut() -> Result<u64> + 'a>,
}

impl<'a> Contender<'a> {
    /// A batch is long enough (10 µs and more) for the clock not to matter, and short in a slice.
    pub fn new(name: &'static str, batch: impl FnMut() -> Result<u64> + 'a) -> Contender<'a> {
        Contender {
            name,
            kernel: None,
            batch: Box::new(batch),
        }
    }

    /// The same with a kernel of its own; without, slices run with what the environment asks for,
    /// or the best.
    #[must_use]
    pub fn with_kernel(self, kernel: Kernel) -> Contender<'a> {
        let kernel = Some(kernel);
        Contender { kernel, ..self }
    }

    fn slice(&mut self, pace: Pace) -> Result<Slice> {
        check_interrupt()?;
        // All threads run the same contender at the same time.
        self.kernel.map_or_else(Kernel::chosen, Ok)?.switch_to()?;
        let (start, processor_start) = (Instant::now(), Clock::Processor.now());
        let mut operations = 0;
        loop {
            operations += (self.batch)()?;
            let elapsed = start.elapsed();
            if elapsed >= pace.slice {
                let had = Clock::Processor.now().saturating_sub(processor_start);
                let counted = match pace.clock {
                    Clock::Wall => elapsed,
                    Clock::Processor => had,
                };
                return Ok(Slice {
                    rate: operations as f64 / counted.as_secs_f64(),
                    share: had.as_secs_f64() / elapsed.as_secs_f64(),
                });
            }
        }
    }
}

/// What a slice yielded.
#[derive(Clone, Copy, Debug)]
struct Slice {
    /// Operations per second.
    rate: f64,
    /// Share of the time in which the thread had a processor.
    share: f64,
}

/// A contender's name and slices in one thread.
type Slices = (&'static str, Result<Vec<Slice>>);

/// What rates are by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Clock {
    /// Time as it passes
    Wall,
    /// Time in which the measuring thread had a processor
    Processor,
}

impl Clock {
    /// Its time; of processor time that of the calling thread.
    pub fn now(self) -> Duration {
        let time = clock_gettime(match self {
            Clock::Wall => ClockId::Monotonic,
            Clock::Processor => ClockId::ThreadCPUTime,
        });
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

/// Slices: how long, how many of each contender.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// One slice.
    pub slice: Duration,
    /// Slices of each contender.
    pub rounds: usize,
    /// What rates are by.
    pub clock: Clock,
}

/// What came out: operations per second, by contender and round.
#[derive(Debug)]
pub struct Outcome {
    rates: Vec<(&'static str, Vec<f64>)>,
    /// The median share of its time that a slice had a processor for.
    pub processor_share: f64,
}

impl Outcome {
    fn rates(&self, name: &str) -> Option<&[f64]> {
        let found = self.rates.iter().find(|(contender, _)| *contender == name);
        found.map(|(_, rates)| rates.as_slice())
    }

    /// Every contender with its rate.
    pub fn medians(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let rates = self.rates.iter();
        rates.filter_map(|(name, rates)| Some((*name, median(rates.clone())?)))
    }

    /// The median of a contender's slices, in operations per second; none if it did not take part.
    pub fn rate(&self, name: &str) -> Option<f64> {
        median(self.rates(name)?.to_vec())
    }

    /// The median over the rounds of one contender's rate over another's in the same round.
    pub fn ratio(&self, name: &str, reference: &str) -> Option<f64> {
        let pairs = self.rates(name)?.iter().zip(self.rates(reference)?);
        median(pairs.map(|(ours, theirs)| ours / theirs).collect())
    }

    /// The faster of some contenders, by median.
    pub fn fastest<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        let rated = names
            .iter()
            .filter_map(|name| Some((*name, self.rate(name)?)));
        rated.max_by(|a, b| a.1.total_cmp(&b.1)).map(|best| best.0)
    }
}

/// Runs the contenders that `prepare` makes for each thread, all threads in the same slice at the
/// same time; the rates of threads add up.
pub fn run<'a>(
    threads: usize,
    pace: Pace,
    progress: &ProgressBar,
    prepare: &(dyn Fn(usize) -> Vec<Contender<'a>> + Sync),
) -> Result<Outcome> {
    let barrier = Barrier::new(threads);
    let per_thread: Vec<Vec<Slices>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let barrier = &barrier;
                let progress = (thread == 0).then_some(progress);
                scope.spawn(move || work(prepare(thread), pace, barrier, progress))
            })
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    Kernel::chosen()?.switch_to()?;
    let mut rates: Vec<(&'static str, Vec<f64>)> = Vec::new();
    let mut shares = Vec::new();
    for contenders in per_thread {
        for (number, (name, slices)) in contenders.into_iter().enumerate() {
            let slices = slices?;
            shares.extend(slices.iter().map(|slice| slice.share));
            let thread_rates = slices.iter().map(|slice| slice.rate);
            match rates.get_mut(number) {
                Some((_, sum)) => sum
                    .iter_mut()
                    .zip(thread_rates)
                    .for_each(|(sum, rate)| *sum += rate),
                None => rates.push((name, thread_rates.collect())),
            }
        }
    }
    Ok(Outcome {
        rates,
        processor_share: median(shares).ok_or("no thread took part")?,
    })
}

/// A thread's slices. One that failed goes on meeting the others, which would wait for ever.
fn work(
    mut contenders: Vec<Contender<'_>>,
    pace: Pace,
    barrier: &Barrier,
    progress: Option<&ProgressBar>,
) -> Vec<Slices> {
    let count = contenders.len();
    let mut rates: Vec<Result<Vec<Slice>>> = (0..count).map(|_| Ok(Vec::new())).collect();
    if let Some(progress) = progress {
        progress.set_length((count * pace.rounds) as u64);
        progress.set_position(0);
    }
    // Round 0 warms up and is not counted.
    for round in 0..=pace.rounds {
        for turn in 0..count {
            // Another one comes first each time: no contender always follows the same one.
            let number = (turn + round) % count;
            barrier.wait();
            if let Ok(slices) = &mut rates[number] {
                match contenders[number].slice(pace) {
                    Ok(rate) if round > 0 => slices.push(rate),
                    Ok(_) => {}
                    Err(error) => rates[number] = Err(error),
                }
            }
            if let Some(progress) = progress.filter(|_| round > 0) {
                progress.inc(1);
            }
        }
    }
    let names = contenders.iter().map(|contender| contender.name);
    names.zip(rates).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// The kernel is the process's.
    static ALONE: Mutex<()> = Mutex::new(());

    fn alone() -> MutexGuard<'static, ()> {
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    const SHORT: Pace = Pace {
        slice: Duration::from_millis(1),
        rounds: 3,
        clock: Clock::Wall,
    };

    #[test]
    fn a_kernel_of_a_contender_is_not_that_of_the_others() {
        let _alone = alone();
        let chosen = Kernel::chosen().expect("nothing is forced here");
        let checked = |name, kernel: Option<Kernel>| {
            let contender = Contender::new(name, move || {
                let current = Kernel::current();
                if current != kernel.unwrap_or(chosen) {
                    return Err(format!("{name} runs with {current}").into());
                }
                Ok(1)
            });
            match kernel {
                Some(kernel) => contender.with_kernel(kernel),
                None => contender,
            }
        };
        let prepare = |_| {
            vec![
                checked("own", Some(Kernel::Portable)),
                checked("usual", None),
            ]
        };
        run(2, SHORT, &ProgressBar::hidden(), &prepare).expect("each has its own");
        assert_eq!(Kernel::current(), chosen);
    }

    #[test]
    fn ratios_are_of_slices_in_the_same_round() {
        let outcome = Outcome {
            rates: vec![
                ("ours", vec![1.0, 20.0, 3.0]),
                ("theirs", vec![2.0, 40.0, 3.0]),
            ],
            processor_share: 1.0,
        };
        assert_eq!(outcome.ratio("ours", "theirs"), Some(0.5));
        assert_eq!(outcome.fastest(&["ours", "theirs"]), Some("theirs"));
        assert_eq!(outcome.ratio("ours", "nobody"), None);
    }

    #[test]
    fn a_thread_that_fails_does_not_leave_the_others_waiting() {
        let _alone = alone();
        let prepare = |thread: usize| {
            vec![Contender::new("one", move || {
                if thread == 0 {
                    Err("broken".into())
                } else {
                    Ok(1)
                }
            })]
        };
        let error = run(2, SHORT, &ProgressBar::hidden(), &prepare).expect_err("thread 0 failed");
        assert_eq!(error.to_string(), "broken");
    }
}
