//! The names of the workloads.

use crate::workload::fio::Access;
use crate::workload::stream::Kernel;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// fio, §4.5.
    Fio(Access),
    /// stream, §4.6.
    Stream(Kernel),
}

impl Workload {
    /// All of them, in the paper's order.
    pub fn all() -> Vec<Workload> {
        let fio = Access::ALL.into_iter().map(Workload::Fio);
        fio.chain(Kernel::ALL.into_iter().map(Workload::Stream))
            .collect()
    }

    /// The name, as the command takes it and reports print it.
    pub fn as_str(self) -> &'static str {
        match self {
            Workload::Fio(access) => access.as_str(),
            Workload::Stream(kernel) => kernel.as_str(),
        }
    }

    /// Those that a name means: one, or all of a program.
    ///
    /// # Errors
    /// There is none of it.
    pub fn named(name: &str) -> Result<Vec<Workload>, String> {
        let is_meant = |workload: &Workload| {
            let own = workload.as_str();
            name == "all" || own == name || own.split('-').next() == Some(name)
        };
        let found: Vec<Workload> = Workload::all().into_iter().filter(is_meant).collect();
        if found.is_empty() {
            let names: Vec<&str> = Workload::all().into_iter().map(Workload::as_str).collect();
            let names = names.join(", ");
            return Err(format!(
                "there is no workload {name}; there are all, fio, stream, {names}"
            ));
        }
        Ok(found)
    }
}
