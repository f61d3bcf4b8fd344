//! Which pool some files belong to, by their superblocks, also while another process has it.

use std::path::PathBuf;

use forebay::{ErrorKind, Pool, PoolOptions, Redundancy, RegionOptions};

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn mirror(&self, names: [&str; 3]) -> Pool {
        let [first, rest @ ..] = names.map(|name| self.path(name));
        let options = PoolOptions::new(first, 8 << 20).members(&rest);
        Pool::create(&options.redundancy(Redundancy::Mirror)).unwrap()
    }
}

fn identity(paths: &[PathBuf]) -> forebay::Result<([u8; 16], Vec<PathBuf>)> {
    Pool::identity(paths, &RegionOptions::default())
}

#[test]
fn members_are_put_in_order_and_one_that_is_gone_gets_the_place_that_is_left() {
    let files = Files::new();
    let pool = files.mirror(["a", "b", "c"]);
    let [a, b, c] = ["a", "b", "c"].map(|name| files.path(name));
    let expected = (pool.uuid(), vec![a.clone(), b.clone(), c.clone()]);
    let all = [c.clone(), a.clone(), b.clone()];
    assert_eq!(identity(&all).unwrap(), expected, "while it is open");
    pool.close().unwrap();
    std::fs::remove_file(&b).unwrap();
    assert_eq!(identity(&all).unwrap(), expected);
    let error = identity(&[a.clone(), c]).unwrap_err().to_string();
    assert!(error.contains("name every one"), "{error}");
    identity(&[a.clone(), b, files.path("nothing")]).unwrap_err();
}

#[test]
fn what_is_no_pool_or_two_is_refused_by_name() {
    let files = Files::new();
    files.mirror(["a", "b", "c"]).close().unwrap();
    files.mirror(["d", "e", "f"]).close().unwrap();
    std::fs::write(files.path("text"), vec![b'x'; 8192]).unwrap();
    for (names, bad) in [
        (&["a", "b", "f"][..], "f"),
        (&["a", "b", "c", "a"], "a"),
        (&["a", "text"], "text"),
        (&["nothing"], "nothing"),
    ] {
        let paths: Vec<PathBuf> = names.iter().map(|name| files.path(name)).collect();
        let error = identity(&paths).unwrap_err();
        let ErrorKind::Refused { path, .. } = error.kind() else {
            panic!("{error}");
        };
        assert_eq!(*path, files.path(bad), "{error}");
    }
}
