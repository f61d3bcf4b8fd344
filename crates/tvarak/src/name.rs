//! The names of the workloads.

use crate::programs::application::Application;
use crate::workload::fio::Access;
use crate::workload::stream::Kernel;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// fio, §4.5.
    Fio(Access),
    /// stream, §4.6.
    Stream(Kernel),
    /// A program with data structures, §4.2 to §4.4.
    Program(Application),
}

impl Workload {
    /// All of them, in the paper's order.
    pub fn all() -> Vec<Workload> {
        let fio = Access::ALL.into_iter().map(Workload::Fio);
        let programs = Application::all().into_iter().map(Workload::Program);
        programs
            .chain(fio)
            .chain(Kernel::ALL.into_iter().map(Workload::Stream))
            .collect()
    }

    /// The name, as the command takes it and reports print it.
    pub fn as_str(self) -> &'static str {
        match self {
            Workload::Fio(access) => access.as_str(),
            Workload::Stream(kernel) => kernel.as_str(),
            Workload::Program(application) => application.as_str(),
        }
    }

    /// Those that a name means: one, or all of a program.
    ///
    /// # Errors
    /// There is none of it.
    pub fn named(name: &str) -> Result<Vec<Workload>, String> {
        let is_meant = |workload: &Workload| {
            let own = workload.as_str();
            // Of the three trees, what they have in common as well: tree, tree-insert.
            let of_trees = own.trim_start_matches(['r', 'b', 'c']);
            let names = match of_trees.starts_with("tree") {
                true => [own, of_trees],
                false => [own, own],
            };
            name == "all"
                || names.contains(&name)
                || names.map(|own| own.split('-').next()).contains(&Some(name))
        };
        let found: Vec<Workload> = Workload::all().into_iter().filter(is_meant).collect();
        if found.is_empty() {
            let names: Vec<&str> = Workload::all().into_iter().map(Workload::as_str).collect();
            let names = names.join(", ");
            return Err(format!(
                "there is no workload {name}; there are all, redis, tree, nstore, fio, stream, {names}"
            ));
        }
        Ok(found)
    }
}
