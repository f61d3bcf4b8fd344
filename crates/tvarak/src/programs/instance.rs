//! An instance of a program on a core: its operations, and the map that says what it must hold.

use std::collections::BTreeMap;

use crate::controller::state::Loss;
use crate::machine::state::Machine;
use crate::mix::mix;
use crate::programs::core::{CoreMemory, Software};
use crate::programs::heap::{Heap, HeapCosts};
use crate::programs::media::MediaMemory;
use crate::programs::memory::{Halt, Memory};
use crate::programs::store::{Store, StoreKind};
use crate::programs::vector::VectorMemory;
use crate::workload::behind::Behind;
use crate::workload::library::Library;
use crate::workload::program::Program;

/// What an instance does.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Which program it is.
    pub kind: StoreKind,
    /// What its heap takes.
    pub heap: HeapCosts,
    /// Keys that it has when the operations begin.
    pub keys: u64,
    /// Writes are of new keys.
    pub is_insert: bool,
    /// Of a hundred operations, how many write.
    pub writes_percent: u64,
    /// Of a hundred operations, how many are of the keys that are hot; of a hundred keys, how many are.
    pub hot: Option<(u64, u64)>,
    /// Operations that were done before, when the region was filled.
    pub aged_operations: u64,
    /// Operations.
    pub operations: u64,
    /// Bytes of a value that are kept, if fewer than eight.
    pub value_bytes: u64,
    /// Bytes of its region.
    pub region_bytes: u64,
    /// All follows from it.
    pub seed: u64,
}

/// An instance.
#[derive(Debug)]
pub struct Instance {
    plan: Plan,
    store: Store,
    heap: Heap,
    region: u64,
    software: Option<Software>,
    behind: Option<Behind>,
    random: fastrand::Rng,
    keys: u64,
    /// Operations that may be done until it is asked for more, and those that were.
    allowed: u64,
    done: u64,
    /// What differs from what was there when the operations began, by key and field.
    written: BTreeMap<(u64, u64), u64>,
    values: Vec<u64>,
    wrong_reads: u64,
}

/// Of the keys that were not written, one in so many is looked at in the end, so that it takes no longer than the run.
const LOOKED_AT: u64 = 16;

impl Plan {
    /// The key of a number: of a tree 64 bits at random, no two alike; of the others the number.
    fn key(&self, number: u64) -> u64 {
        match self.kind {
            StoreKind::Tree(..) => mix(self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ number),
            StoreKind::Redis(_) | StoreKind::NStore(_) => number,
        }
    }

    fn kept(&self, value: u64) -> u64 {
        match self.value_bytes {
            8.. => value,
            bytes => value & ((1 << (8 * bytes)) - 1),
        }
    }

    /// The value with which a field begins.
    fn first_value(&self, number: u64, field: u64) -> u64 {
        self.kept(mix(self.seed ^ number << 8 ^ field))
    }
}

/// A region that has all keys, in plain memory, and what an instance knows of it.
#[derive(Debug)]
pub struct Filled {
    plan: Plan,
    store: Store,
    heap: Heap,
    keys: u64,
    /// Of the operations that are to come.
    seed: u64,
    written: BTreeMap<(u64, u64), u64>,
    /// Its words.
    pub words: Vec<u64>,
}

impl Filled {
    /// Fills one.
    ///
    /// # Errors
    /// The region is too small.
    pub fn new(plan: Plan) -> Result<Filled, Halt> {
        let mut memory = VectorMemory::new(plan.region_bytes);
        let mut heap = Heap::format(&mut memory, plan.region_bytes, plan.heap)?;
        let store = Store::create(&mut memory, &mut heap, &plan.kind)?;
        for number in 0..plan.keys {
            let value = |field| plan.first_value(number, field);
            store.add(&mut memory, &mut heap, plan.key(number), value)?;
        }
        let mut instance = Instance::new(plan, store, heap);
        for _ in 0..plan.aged_operations {
            instance.operate(&mut memory)?;
        }
        assert_eq!(
            instance.wrong_reads, 0,
            "plain memory keeps what it is given"
        );
        Ok(Filled {
            plan,
            seed: instance.random.get_seed(),
            store: instance.store,
            heap: instance.heap,
            keys: instance.keys,
            written: instance.written,
            words: memory.words,
        })
    }
}

impl Instance {
    /// One whose region is a copy of that one.
    pub fn of(filled: &Filled) -> Instance {
        Instance {
            random: fastrand::Rng::with_seed(filled.seed),
            keys: filled.keys,
            written: filled.written.clone(),
            ..Instance::new(filled.plan, filled.store.clone(), filled.heap.clone())
        }
    }

    fn new(plan: Plan, store: Store, heap: Heap) -> Instance {
        Instance {
            plan,
            store,
            heap,
            region: 0,
            software: None,
            behind: None,
            random: fastrand::Rng::with_seed(plan.seed),
            keys: plan.keys,
            allowed: 0,
            done: 0,
            written: BTreeMap::new(),
            values: Vec::new(),
            wrong_reads: 0,
        }
    }

    /// Where its region begins, and what keeps redundancy if that is software: at the end of transactions, or behind.
    pub fn place(&mut self, region: u64, library: Option<Library>, behind: Option<Behind>) {
        self.region = region;
        self.software = library.map(Software::new);
        self.behind = behind;
    }

    /// Allows so many operations more.
    pub fn allow(&mut self, operations: u64) {
        self.allowed += operations;
    }

    /// The number of a key that is there.
    fn number(&mut self) -> u64 {
        let Some((operations_percent, keys_percent)) = self.plan.hot else {
            return self.random.u64(0..self.keys);
        };
        let hot = (self.keys * keys_percent / 100).max(1);
        match self.random.u64(0..100) < operations_percent || hot == self.keys {
            // Hot keys lie anywhere: every so manieth.
            true => self.random.u64(0..hot) * (self.keys / hot),
            false => self.random.u64(0..self.keys),
        }
    }

    fn expected(&self, number: u64, field: u64) -> u64 {
        let written = self.written.get(&(number, field)).copied();
        written.unwrap_or_else(|| self.plan.first_value(number, field))
    }

    /// How many of a key's bytes are not those that were written: of `self.values`.
    fn wrong_values(&self, number: u64, values: &[u64]) -> u64 {
        let fields = self.plan.kind.fields();
        let is_wrong = |field: &u64| {
            let found = values.get(*field as usize);
            found != Some(&self.expected(number, *field))
        };
        8 * (0..fields).filter(is_wrong).count() as u64
    }

    fn operate(&mut self, memory: &mut impl Memory) -> Result<(), Halt> {
        let is_write = self.random.u64(0..100) < self.plan.writes_percent;
        if !is_write {
            let number = self.number();
            let mut values = std::mem::take(&mut self.values);
            let key = self.plan.key(number);
            self.store.read(memory, &mut self.heap, key, &mut values)?;
            self.wrong_reads += self.wrong_values(number, &values);
            self.values = values;
            return Ok(());
        }
        let number = match self.plan.is_insert {
            true => self.keys,
            false => self.number(),
        };
        self.keys += u64::from(self.plan.is_insert);
        let field = self.random.u64(0..self.plan.kind.fields());
        let value = self.plan.kept(self.random.u64(..));
        let place = (self.plan.key(number), field);
        self.store.write(memory, &mut self.heap, place, value)?;
        self.written.insert((number, field), value);
        Ok(())
    }
}

impl Program for Instance {
    fn step(&mut self, machine: &mut Machine, core: usize) -> Result<bool, Loss> {
        if self.done == self.allowed {
            return Ok(false);
        }
        if let Some(behind) = &self.behind
            && behind.step(machine, core)?
        {
            return Ok(true);
        }
        let behind = self.behind.take();
        let mut software = self.software.take();
        let mut memory = CoreMemory {
            machine,
            core,
            region: self.region,
            software: software.as_mut(),
            behind: behind.as_ref(),
        };
        let operated = self.operate(&mut memory);
        self.software = software;
        self.behind = behind;
        self.done += 1;
        match operated {
            Ok(()) => Ok(true),
            Err(Halt::Lost(loss)) => Err(loss),
            Err(other) => panic!("regions are made large enough, and are heaps: {other}"),
        }
    }

    fn settle(&mut self, machine: &mut Machine) -> Result<(), Loss> {
        (self.behind.iter()).try_for_each(|behind| behind.settle(machine))
    }

    fn wrong_bytes(&self, machine: &mut Machine) -> Result<u64, Loss> {
        let mut memory = MediaMemory::new(machine, self.region);
        let mut heap = Heap::closed_like(&self.heap);
        let mut wrong = self.wrong_reads;
        let mut values = Vec::new();
        let written = self.written.keys().map(|(number, _)| *number);
        let others =
            (0..self.keys).filter(|number| number % LOOKED_AT == self.plan.seed % LOOKED_AT);
        for number in written.chain(others) {
            let key = self.plan.key(number);
            let read = self.store.read(&mut memory, &mut heap, key, &mut values);
            read.expect("the media are looked at as they are");
            wrong += self.wrong_values(number, &values);
        }
        let keys = self.store.keys(&mut memory);
        let keys = keys.expect("the media are looked at as they are");
        // One that is missing or too many is a wrong word at least.
        wrong += keys.map_or(0, |keys| 8 * keys.abs_diff(self.keys));
        Ok(wrong)
    }
}
