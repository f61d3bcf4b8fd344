//! How much of the processors processes have used, in their own code and in the kernel's.

use std::ops::Sub;

use crate::Result;

/// Since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessorTime {
    /// In programs and libraries.
    pub user_ns: f64,
    /// In the kernel, on their behalf.
    pub kernel_ns: f64,
}

impl ProcessorTime {
    /// All threads of a process, to a hundredth of a second.
    ///
    /// Errors: there is no such process.
    pub fn of(process: u32) -> Result<ProcessorTime> {
        let path = format!("/proc/{process}/stat");
        let line = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let tick_ns = 1e9 / rustix::param::clock_ticks_per_second() as f64;
        parse(&line, tick_ns).ok_or_else(|| format!("{path} holds no times: {line:?}").into())
    }
}

impl Sub for ProcessorTime {
    type Output = ProcessorTime;

    fn sub(self, before: ProcessorTime) -> ProcessorTime {
        ProcessorTime {
            user_ns: self.user_ns - before.user_ns,
            kernel_ns: self.kernel_ns - before.kernel_ns,
        }
    }
}

/// The 14th and the 15th field; the second is a name in brackets and may hold anything.
fn parse(line: &str, tick_ns: f64) -> Option<ProcessorTime> {
    let mut fields = line.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next_ns = || Some(fields.next()?.parse::<f64>().ok()? * tick_ns);
    Some(ProcessorTime {
        user_ns: next_ns()?,
        kernel_ns: next_ns()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_a_name_of_any_kind() {
        let line = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 30 0 0 20";
        let time = parse(line, 1e7).expect("two times");
        assert_eq!((time.user_ns, time.kernel_ns), (2.5e9, 3e8));
        assert_eq!(parse("7 (a) S 1", 1e7), None);
    }

    #[test]
    fn ones_own_time_can_be_read() {
        ProcessorTime::of(std::process::id()).expect("we run");
    }
}
