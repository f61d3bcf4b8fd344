//! A mirror with a witness: whatever a crash leaves of the three, at most one member goes on without the other unasked, and
//! it has all that was acknowledged.
//!
//! Every change of the roster is made once, and at each flush, fence and sync on its way what a crash would leave is noted: of the
//! members what is durable, or all that was stored; of the witness what was synced, or all that was written. Each of these is
//! opened in every way that it could be.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use forebay::unstable::{MarkWatcher, set_mark_watcher};
use forebay::{
    Backing, ErrorKind, MemberState, MemoryStore, Pool, PoolOptions, Redundancy, Region, Volume,
};
use forebay_pmem::shadow::{FenceFailure, Shadow, ShadowModel};

use crate::small_mirror::{BLOCK, MEMBER_BYTES, go_on, options, runtime, shadow};

const BLOCKS: u64 = 6;

thread_local! {
    static STORE: Arc<MemoryStore> = Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64));
}

/// The backing of this test's pool.
fn store() -> Arc<MemoryStore> {
    STORE.with(Arc::clone)
}

fn put(volume: &Volume, byte: u8) {
    for block in 0..BLOCKS {
        volume.write(block, &[byte; BLOCK]).expect("write");
    }
}

/// Bytes of a member.
type Image = Vec<u8>;

/// What a crash leaves.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Left {
    members: [Image; 2],
    /// `None`: there is no such file.
    witness: Option<Image>,
    /// What was acknowledged in every block,
    acknowledged: u8,
    /// and in so many of them what came next.
    newer: u64,
}

/// The pool that is watched, and what crashes would leave of it.
struct Watched {
    members: Mutex<[Arc<Shadow>; 2]>,
    path: PathBuf,
    synced: Mutex<Option<Image>>,
    newer: Mutex<u64>,
    left: Mutex<Vec<Left>>,
}

impl Watched {
    fn note(&self) {
        let members = self.members.lock().unwrap().clone();
        let mut rng = fastrand::Rng::with_seed(1);
        let images = |shadow: &Arc<Shadow>, rng: &mut fastrand::Rng| {
            let state = shadow.crash_state();
            // With all that was stored, as after a kill, too.
            let view = (0..MEMBER_BYTES).step_by(8).flat_map(|at| {
                // SAFETY: inside the view; no thread stores meanwhile.
                #[allow(unsafe_code, reason = "the view of a shadow is raw memory")]
                unsafe {
                    shadow
                        .view_ptr()
                        .add(at as usize)
                        .cast::<[u8; 8]>()
                        .read_volatile()
                }
            });
            [state.durable().to_vec(), view.collect(), state.sample(rng)]
        };
        let [one, other] = [0, 1].map(|which| images(&members[which], &mut rng));
        let written = std::fs::read(&self.path).ok();
        let witnesses = [self.synced.lock().unwrap().clone(), written];
        let newer = *self.newer.lock().unwrap();
        let mut left = self.left.lock().unwrap();
        for which in 0..9 {
            for witness in &witnesses {
                left.push(Left {
                    members: [one[which / 3].clone(), other[which % 3].clone()],
                    witness: witness.clone(),
                    acknowledged: 1,
                    newer,
                });
            }
        }
    }
    fn hook(self: &Arc<Self>) {
        for shadow in self.members.lock().unwrap().iter() {
            let watched = Arc::clone(self);
            shadow.set_hook(Some(Arc::new(move |_| watched.note())));
        }
    }
    fn unhook(&self) {
        self.members
            .lock()
            .unwrap()
            .iter()
            .for_each(|shadow| shadow.set_hook(None));
    }
}

struct Syncs(Arc<Watched>);

impl MarkWatcher for Syncs {
    fn before_sync(&self) {
        self.0.note();
    }
    fn synced(&self, _: &File) {
        *self.0.synced.lock().unwrap() = std::fs::read(&self.0.path).ok();
        self.0.note();
    }
}

/// A change of the roster, and what else happens around it.
fn changed(before: impl FnOnce(&Pool, &Path), change: impl FnOnce(&Pool, &Watched)) -> Vec<Left> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("witness");
    let members = [shadow(), shadow()];
    let regions = members.iter().cloned().map(Region::on_shadow).collect();
    let pool = Pool::create_on(regions, &options()).expect("create");
    let volume = pool.attach(Backing::from_store(store())).expect("attach");
    put(&volume, 1);
    before(&pool, &path);
    let watched = Arc::new(Watched {
        members: Mutex::new(members),
        synced: Mutex::new(std::fs::read(&path).ok()),
        path,
        newer: Mutex::new(0),
        left: Mutex::default(),
    });
    watched.hook();
    set_mark_watcher(Some(Rc::new(Syncs(Arc::clone(&watched)))));
    change(&pool, &watched);
    for block in 0..BLOCKS {
        volume.write(block, &[2; BLOCK]).expect("write");
        *watched.newer.lock().unwrap() = block + 1;
    }
    watched.note();
    set_mark_watcher(None);
    watched.unhook();
    let all = std::mem::take(&mut *watched.left.lock().unwrap());
    drop((volume, pool));
    let mut seen = HashSet::new();
    let different: Vec<Left> = all
        .into_iter()
        .filter(|left| seen.insert(left.clone()))
        .collect();
    different.iter().for_each(|left| check(left, &watched.path));
    different
}

/// Opens members of what is left, and reads what was acknowledged; what is left then.
fn opened(left: &Left, which: &[usize], path: &Path) -> Result<Left, String> {
    match &left.witness {
        Some(witness) => std::fs::write(path, witness).unwrap(),
        None => drop(std::fs::remove_file(path)),
    }
    private(path);
    let shadows = left
        .members
        .each_ref()
        .map(|image| Arc::new(Shadow::from_image(image, ShadowModel::Lines)));
    let given = which
        .iter()
        .map(|which| Region::on_shadow(shadows[*which].clone()));
    let pool = Pool::open_on(given.collect(), runtime()).map_err(|refused| refused.to_string())?;
    let volume = pool.attach(Backing::from_store(store())).expect("attach");
    let mut out = [0; BLOCK];
    for block in 0..BLOCKS {
        volume.read(block, &mut out).expect("read");
        let least = left.acknowledged + u8::from(block < left.newer);
        let is_right = out == [least; BLOCK] || out == [left.acknowledged + 1; BLOCK];
        assert!(is_right, "block {block}: {out:?}, {least} was acknowledged");
    }
    put(&volume, 7);
    drop((volume, pool));
    Ok(Left {
        members: shadows.map(|shadow| shadow.crash_state().durable().to_vec()),
        witness: std::fs::read(path).ok(),
        acknowledged: 7,
        newer: 0,
    })
}

fn private(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    if path.exists() {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
}

fn check(left: &Left, path: &Path) {
    // With everything there it always opens.
    opened(left, &[0, 1], path).expect("both members are there");
    for first in 0..2 {
        let without = Left {
            witness: None,
            ..left.clone()
        };
        for (state, witness_comes_back) in [(left.clone(), false), (without, true)] {
            let Ok(mut after) = opened(&state, &[first], path) else {
                continue;
            };
            if witness_comes_back {
                after.witness.clone_from(&left.witness);
            }
            let second = opened(&after, &[1 - first], path);
            assert!(
                second.is_err(),
                "{first} went on alone, and the other one, too"
            );
            // Together they know which one counts.
            let both = opened(&after, &[0, 1], path).expect("one of them went on");
            assert_eq!(both.acknowledged, 7);
        }
    }
}

/// The members of which each alone opens.
fn alone(left: &Left, path: &Path) -> Vec<usize> {
    (0..2)
        .filter(|which| opened(left, &[*which], path).is_ok())
        .collect()
}

fn with_witness(pool: &Pool, path: &Path) {
    pool.set_witness(Some(path)).expect("a witness");
    let witness = pool.witness().expect("it has one");
    assert_eq!((witness.path.as_path(), witness.is_there), (path, true));
}

/// A folder for what is opened again, and the last of what was left, whose witness named another.
fn last(all: &[Left]) -> Left {
    all.last().expect("something was left").clone()
}

#[test]
fn a_member_that_is_taken_out_does_not_come_back_by_itself_whatever_a_crash_leaves() {
    for gone in 0..2 {
        let all = changed(with_witness, |pool, _| {
            pool.fail_member(gone).expect("one is left")
        });
        assert!(all.len() > 20, "{}", all.len());
    }
}

#[test]
fn a_member_that_dies_is_out_on_the_witness_before_anything_is_acknowledged_that_it_lacks() {
    for gone in 0..2 {
        let all = changed(with_witness, |_, watched| {
            let members = watched.members.lock().unwrap().clone();
            members[gone].set_fence_failure(FenceFailure::From(0));
        });
        assert!(all.len() > 20, "{}", all.len());
    }
}

#[test]
fn a_witness_comes_and_goes_and_no_crash_lets_both_members_go_on() {
    let all = changed(
        |_, _| (),
        |pool, watched| {
            pool.set_witness(Some(&watched.path)).expect("a witness");
        },
    );
    assert!(all.len() > 20, "{}", all.len());
    let all = changed(with_witness, |pool, _| {
        pool.set_witness(None).expect("none")
    });
    assert!(last(&all).witness.is_none(), "the file goes, too");
}

#[test]
fn a_member_that_is_rebuilt_counts_only_when_the_witness_says_so() {
    for gone in 0..2 {
        let before = |pool: &Pool, path: &Path| {
            with_witness(pool, path);
            pool.fail_member(gone).expect("one is left");
        };
        changed(before, |pool, watched| {
            let blank = shadow();
            watched.members.lock().unwrap()[gone as usize] = blank.clone();
            let region = Region::on_shadow(blank);
            pool.replace_member_on(gone, region, &mut go_on)
                .expect("rebuilt");
        });
    }
}

/// A pool with a witness, which was killed.
fn killed() -> (tempfile::TempDir, PathBuf, Left) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("witness");
    let members = [shadow(), shadow()];
    let regions = members.iter().cloned().map(Region::on_shadow).collect();
    let pool = Pool::create_on(regions, &options()).expect("create");
    let volume = pool.attach(Backing::from_store(store())).expect("attach");
    with_witness(&pool, &path);
    put(&volume, 1);
    drop((volume, pool));
    let left = Left {
        members: members.map(|shadow| shadow.crash_state().durable().to_vec()),
        witness: std::fs::read(&path).ok(),
        acknowledged: 1,
        newer: 0,
    };
    (folder, path, left)
}

#[test]
fn after_a_power_cut_that_took_a_member_the_other_one_opens_with_the_witness_and_not_without() {
    let (_folder, path, left) = killed();
    assert_eq!(alone(&left, &path), [0, 1], "whichever comes first");
    let without = Left {
        witness: None,
        ..left.clone()
    };
    let refused = opened(&without, &[1], &path)
        .err()
        .expect("it is not there");
    assert!(refused.contains("the witness"), "{refused}");
    let forced = runtime().without_missing(true);
    let pool = Pool::open_on(vec![Region::shadow_from(&left.members[1])], forced);
    assert_eq!(pool.expect("the caller's word").witness(), None, "given up");

    // It was the other one that went on.
    let after = opened(&left, &[0], &path).expect("alone");
    let refused = opened(&after, &[1], &path).err().expect("newer");
    assert!(refused.contains("may have gone on alone"), "{refused}");
    let both = opened(&after, &[0, 1], &path).expect("one is out");
    assert_eq!(both.acknowledged, 7);
}

#[test]
fn a_witness_that_is_lost_while_a_member_is_out_is_given_up_on_the_callers_word() {
    let (_folder, path, left) = killed();
    let after = opened(&left, &[0], &path).expect("alone");
    std::fs::remove_file(&path).unwrap();
    let member = Arc::new(Shadow::from_image(&after.members[0], ShadowModel::Lines));
    let open = |runtime| Pool::open_on(vec![Region::on_shadow(member.clone())], runtime);
    let pool = open(runtime()).expect("the other one is out");
    assert!(!pool.witness().expect("it has one").is_there);
    pool.replace_member_on(1, Region::on_shadow(shadow()), &mut go_on)
        .expect_err("it cannot be told");
    drop(pool);
    let pool = open(runtime().without_missing(true)).expect("the caller's word");
    assert_eq!(pool.witness(), None, "given up");
    let given_up = Left {
        members: [
            member.crash_state().durable().to_vec(),
            after.members[1].clone(),
        ],
        ..after
    };
    pool.replace_member_on(1, Region::on_shadow(shadow()), &mut go_on)
        .expect("rebuilt");
    drop(pool);
    // What nobody asks any more does not have the member that is out go on, if it comes back.
    check(&given_up, &path);
    assert_eq!(alone(&given_up, &path), [0]);
}

#[test]
fn a_witness_that_is_an_old_copy_is_not_believed() {
    let (_folder, path, left) = killed();
    // The members change twice, and the witness with them; then it is put back.
    std::fs::write(&path, left.witness.as_ref().unwrap()).unwrap();
    private(&path);
    let shadows = left
        .members
        .each_ref()
        .map(|image| Arc::new(Shadow::from_image(image, ShadowModel::Lines)));
    let given = shadows.iter().cloned().map(Region::on_shadow).collect();
    let pool = Pool::open_on(given, runtime()).expect("open");
    pool.fail_member(1).expect("one is left");
    let blank = shadow();
    let region = Region::on_shadow(blank.clone());
    pool.replace_member_on(1, region, &mut go_on)
        .expect("rebuilt");
    drop(pool);
    let now = Left {
        members: [&shadows[0], &blank].map(|shadow| shadow.crash_state().durable().to_vec()),
        witness: std::fs::read(&path).ok(),
        acknowledged: 1,
        newer: 0,
    };
    assert_eq!(alone(&now, &path), [0, 1]);
    let old = Left {
        witness: left.witness.clone(),
        ..now
    };
    for which in 0..2 {
        let refused = opened(&old, &[which], &path).err().expect("an old copy");
        assert!(refused.contains("old copy"), "{refused}");
    }
    // With both there it learns what it missed.
    let after = opened(&old, &[0, 1], &path).expect("both");
    assert_eq!(alone(&after, &path), [0, 1]);
}

#[test]
fn while_the_witness_is_away_no_member_is_taken_out_and_a_death_ends_all_writes() {
    let (_folder, path, left) = killed();
    std::fs::write(&path, left.witness.as_ref().unwrap()).unwrap();
    private(&path);
    let shadows = left
        .members
        .each_ref()
        .map(|image| Arc::new(Shadow::from_image(image, ShadowModel::Lines)));
    let given = shadows.iter().cloned().map(Region::on_shadow).collect();
    let pool = Pool::open_on(given, runtime()).expect("open");
    let volume = pool.attach(Backing::from_store(store())).expect("attach");
    let away = path.with_extension("away");
    std::fs::rename(&path, &away).unwrap();
    assert!(!pool.witness().expect("it has one").is_there);
    put(&volume, 2);
    let refused = pool.fail_member(1).expect_err("it cannot be told");
    assert!(
        matches!(refused.kind(), ErrorKind::Refused { .. }),
        "{refused}"
    );
    put(&volume, 3);
    // Another file of that name is none.
    std::fs::copy(&away, &path).unwrap();
    pool.fail_member(1).expect_err("it is another file");
    std::fs::rename(&away, &path).unwrap();
    pool.fail_member(1).expect("it is back");
    pool.replace_member_on(1, Region::on_shadow(shadow()), &mut go_on)
        .expect("rebuilt");
    std::fs::remove_file(&path).unwrap();
    shadows[0].set_fence_failure(FenceFailure::From(0));
    volume
        .write(0, &[4; BLOCK])
        .expect_err("a member died, and nothing may know");
    volume.write(0, &[4; BLOCK]).expect_err("for good");
    drop((volume, pool));
    // Given up it ends no writes.
    let given = left.members.iter().map(|image| Region::shadow_from(image));
    let pool = Pool::open_on(given.collect(), runtime()).expect("both are there");
    pool.set_witness(None).expect("none");
    assert_eq!(pool.witness(), None);
    pool.fail_member(0).expect("one is left");
    assert_eq!(pool.members()[0].state, MemberState::Out);
}

#[test]
fn what_is_no_witness_of_the_pool_says_nothing_and_is_left_as_it_is() {
    let (_folder, path, left) = killed();
    let (_other_folder, other, _) = killed();
    let foreign = std::fs::read(&other).unwrap();
    let mut torn = left.witness.clone().unwrap();
    torn.iter_mut().for_each(|byte| *byte ^= 1);
    for planted in [foreign, torn, Vec::new(), b"precious".to_vec()] {
        let state = Left {
            witness: Some(planted.clone()),
            ..left.clone()
        };
        assert!(alone(&state, &path).is_empty());
        assert_eq!(std::fs::read(&path).unwrap(), planted);
    }
    // One that others may write, or that has another name, too.
    use std::os::unix::fs::PermissionsExt;
    let image = || vec![Region::shadow_from(&left.members[0])];
    std::fs::write(&path, left.witness.as_ref().unwrap()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    Pool::open_on(image(), runtime()).expect_err("others may write it");
    private(&path);
    std::fs::hard_link(&path, path.with_extension("too")).unwrap();
    Pool::open_on(image(), runtime()).expect_err("it has two names");
    std::fs::remove_file(path.with_extension("too")).unwrap();
    // Moved, it is there where the caller says.
    let moved = path.with_extension("moved");
    std::fs::rename(&path, &moved).unwrap();
    Pool::open_on(image(), runtime()).expect_err("it is not there");
    let pool = Pool::open_on(image(), runtime().witness(Some(moved.clone()))).expect("moved");
    assert_eq!(pool.witness().unwrap().path, moved);
    // It has one user at a time.
    let second = Pool::open_on(
        vec![Region::shadow_from(&left.members[1])],
        runtime().witness(Some(moved.clone())),
    );
    let refused = second.expect_err("the other one has it").to_string();
    assert!(refused.contains("another process"), "{refused}");
    // As long as that one is open, volumes or not.
    let volume = pool.attach(Backing::from_store(store())).expect("attach");
    pool.close().expect("closed");
    let again = Pool::open_on(
        vec![Region::shadow_from(&left.members[1])],
        runtime().witness(Some(moved)),
    );
    let refused = again.expect_err("the other one went on").to_string();
    assert!(refused.contains("gone on alone"), "{refused}");
    drop(volume);
}

#[test]
fn a_witness_is_refused_where_it_could_be_none() {
    let folder = tempfile::tempdir().unwrap();
    let members = ["one", "other"].map(|name| folder.path().join(name));
    let options = PoolOptions::new(&members[0], 1 << 20)
        .member(&members[1])
        .redundancy(Redundancy::Mirror);
    let pool = Pool::create(&options).expect("create");
    let beside = folder.path().join("witness");
    let refused = pool.set_witness(Some(&beside)).expect_err("one device");
    assert!(refused.to_string().contains("same device"), "{refused}");
    assert!(!beside.exists());
    drop(pool);
    let options = options.force(true).witness(Some(beside.clone()));
    Pool::create(&options).expect_err("one device");
    assert!(!beside.exists() && !members[0].exists());

    let elsewhere = tempfile::tempdir().unwrap();
    let regions = || vec![Region::shadow(MEMBER_BYTES), Region::shadow(MEMBER_BYTES)];
    let mirror = Pool::create_on(regions(), &self::options()).expect("create");
    let taken = elsewhere.path().join("taken");
    std::fs::write(&taken, b"precious").unwrap();
    mirror
        .set_witness(Some(&taken))
        .expect_err("it is there already");
    assert_eq!(std::fs::read(&taken).unwrap(), b"precious");
    let long = elsewhere.path().join("x".repeat(120));
    mirror
        .set_witness(Some(&long))
        .expect_err("no room for its name");
    let path = elsewhere.path().join("witness");
    mirror.set_witness(Some(&path)).expect("a witness");
    mirror
        .set_witness(Some(&elsewhere.path().join("second")))
        .expect_err("it has one");
    assert!(!elsewhere.path().join("second").exists());
    mirror.set_witness(None).expect("none");
    mirror.fail_member(1).expect("one is left");
    mirror
        .set_witness(Some(&path))
        .expect_err("one member is out");
    let none = self::options().redundancy(Redundancy::None);
    let pool = Pool::create_on(regions(), &none).expect("create");
    pool.set_witness(Some(&path)).expect_err("no mirror");
}

/// A device that is full by the time at which a member dies keeps no roster from its witness.
#[test]
fn a_witness_had_no_room_for_its_second_line() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("witness");
    let regions = vec![Region::shadow(MEMBER_BYTES), Region::shadow(MEMBER_BYTES)];
    let pool = Pool::create_on(regions, &options()).expect("create");
    with_witness(&pool, &path);
    let whole = folder.path().join("whole");
    std::fs::write(&whole, vec![1; 8192]).unwrap();
    let room = |path: &Path| std::fs::metadata(path).unwrap().blocks();
    File::open(&whole).unwrap().sync_all().unwrap();
    assert!(room(&path) >= room(&whole));
    pool.fail_member(1).expect("one is left");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 8192);
}
