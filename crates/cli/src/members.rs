//! The members of a mirrored pool: found by what a person calls them, taken out, rebuilt. One place for the
//! daemon and for commands on an idle pool.

use std::path::{Path, PathBuf};
use std::time::Instant;

use forebay::{
    Member, MemberState, Pool, RebuildOptions, RebuildProgress, RebuildWatcher, Redundancy, Witness,
};
use forebay_command::{Failure, json_path};
use serde_json::{Value, json};

fn word_of(state: MemberState) -> &'static str {
    match state {
        MemberState::In => "in",
        MemberState::Rebuilding => "rebuilding",
        _ => "out",
    }
}

/// Where a member is; what it was opened by may be relative to this process's working directory.
fn path_of(member: &Member) -> Option<PathBuf> {
    let path = member.path.as_deref()?;
    Some(std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()))
}

/// What a person calls a member, in the middle of a sentence.
pub fn named(member: &Member) -> String {
    match path_of(member) {
        Some(path) => format!("member {} at {}", member.number, path.display()),
        None => format!("member {}", member.number),
    }
}

/// A member, as JSON.
fn report_of(member: &Member) -> Value {
    let mut report = json!({"number": member.number, "state": word_of(member.state)});
    json_path::put(&mut report, "path", path_of(member).as_deref());
    report
}

/// Each member, as JSON.
pub fn reports(members: &[Member]) -> Vec<Value> {
    members.iter().map(report_of).collect()
}

/// What a pool keeps twice, in a word.
pub fn redundancy_word(redundancy: Redundancy) -> &'static str {
    match redundancy {
        Redundancy::Mirror => "mirror",
        Redundancy::Parity => "parity",
        Redundancy::Checksum => "checksum",
        _ => "none",
    }
}

/// How a mirrored pool stands, in one line; none of another pool.
pub fn condition(pool: &Pool, members: &[Member]) -> Option<String> {
    let witness = pool.witness();
    pool.redundancy()
        .is_mirrored()
        .then(|| condition_of(members, witness.as_ref()))
}

/// The witness of a pool, as JSON; null if it has none.
pub fn witness_report(pool: &Pool) -> Value {
    pool.witness().map_or(Value::Null, |witness| {
        let state = if witness.is_there { "there" } else { "missing" };
        json_path::with(json!({"state": state}), "path", &witness.path)
    })
}

/// Gives a pool a witness, or takes it away, unless that is done.
///
/// # Errors
/// As [`Pool::set_witness`].
pub fn set_witness(pool: &Pool, path: Option<&Path>) -> Result<Value, Failure> {
    let before = pool.witness();
    let is_done = match (&before, path) {
        (None, None) => true,
        (Some(before), Some(path)) => before.is_there && before.path == path,
        _ => false,
    };
    if !is_done {
        if before.is_some() {
            pool.set_witness(None).map_err(plainly)?;
        }
        if path.is_some() {
            pool.set_witness(path)
                .map_err(|error| match (plainly(error), before) {
                    (Failure::Arguments(message), Some(_)) => Failure::Arguments(format!(
                        "{message}; the witness that the pool had is given up"
                    )),
                    (failure, _) => failure,
                })?;
        }
    }
    Ok(json!({"witness": witness_report(pool), "changed": !is_done}))
}

fn condition_of(members: &[Member], witness: Option<&Witness>) -> String {
    let lacking = |member: &&Member| member.state != MemberState::In;
    let lacking = members.iter().filter(lacking).map(|member| {
        let how = match member.state {
            MemberState::Rebuilding => "is being rebuilt",
            _ => "is out",
        };
        format!("{} {how}", named(member))
    });
    let missing = witness.filter(|witness| !witness.is_there);
    let missing = missing.map(|witness| {
        let path = witness.path.display();
        format!("the witness {path} is not there: no member can be taken out")
    });
    let lacking: Vec<String> = lacking.chain(missing).collect();
    match lacking.is_empty() {
        true => String::from("whole"),
        false => format!("degraded ({})", lacking.join("; ")),
    }
}

/// The members of a pool that was opened by these paths. One that is out, and was so then, has the path that is no
/// other's.
pub fn of(pool: &Pool, given: &[PathBuf]) -> Vec<Member> {
    let mut members = pool.members();
    let is_nobodys = |path: &&PathBuf| !members.iter().any(|member| is_at(member, path));
    let mut left = given.iter().filter(is_nobodys).cloned();
    if let (Some(path), None) = (left.next(), left.next()) {
        drop(left);
        let mut nameless = members.iter_mut().filter(|member| member.path.is_none());
        if let (Some(member), None) = (nameless.next(), nameless.next()) {
            member.path = Some(path);
        }
    }
    members
}

/// How a pool stands that refuses writes, in a word.
pub const POISONED: &str = "poisoned";

/// The members and how they stand.
pub fn list(pool: &Pool, given: &[PathBuf]) -> Value {
    let members = of(pool, given);
    let mut report =
        json!({"redundancy": redundancy_word(pool.redundancy()), "members": reports(&members)});
    if pool.redundancy().is_mirrored() {
        report["witness"] = witness_report(pool);
    }
    if let Some(condition) = condition(pool, &members) {
        report["pool"] = condition.into();
    }
    if pool.stats().poisoned {
        report["pool"] = format!(
            "{POISONED}: a fence failed, and it takes no more writes; end the daemon, look at the medium, and start it again"
        )
        .into();
    }
    report
}

/// Takes a member out, unless it is.
///
/// # Errors
/// There is no such member, or it is the last one.
pub fn fail(pool: &Pool, given: &[PathBuf], name: &str) -> Result<Value, Failure> {
    let members = of_mirror(pool, given)?;
    let member = find(&members, name).ok_or_else(|| unknown(&members, name))?;
    let is_changed = member.state != MemberState::Out;
    if is_changed {
        pool.fail_member(member.number).map_err(plainly)?;
    }
    Ok(outcome(pool, given, member.number, is_changed))
}

/// A member to rebuild, and where.
#[derive(Debug)]
pub struct Rebuild {
    number: u32,
    /// The file or device.
    pub path: PathBuf,
    is_done: bool,
}

/// How a member is to be rebuilt: over whatever is there with `force`, and at most so many bytes a second.
///
/// # Errors
/// It would never end.
pub fn rebuild_options(force: bool, rate: Option<u64>) -> Result<RebuildOptions, Failure> {
    match rate {
        Some(0) => Err(Failure::Arguments(String::from(
            "a rebuild with a rate of 0 does not end; leave the rate out for no limit",
        ))),
        _ => Ok(RebuildOptions::default().force(force).rate_bytes_s(rate)),
    }
}

/// What is to be done so that a member is in, on `path` or where it was.
///
/// # Errors
/// There is no such member, it is in elsewhere or being rebuilt, or nothing says where it was.
pub fn plan_rebuild(
    pool: &Pool,
    given: &[PathBuf],
    name: &str,
    path: Option<&Path>,
) -> Result<Rebuild, Failure> {
    let members = of_mirror(pool, given)?;
    let found = find(&members, name).or_else(|| only_nameless(&members, name));
    let member = found.ok_or_else(|| unknown(&members, name))?;
    let by_name = name.starts_with('/').then_some(Path::new(name));
    let Some(path) = path.or(member.path.as_deref()).or(by_name) else {
        return Err(Failure::Arguments(format!(
            "member {} was not there when the pool was opened; name its path instead of its number",
            member.number
        )));
    };
    let is_done = match member.state {
        MemberState::Out => false,
        MemberState::In if is_at(member, path) => true,
        MemberState::In => {
            return Err(Failure::InUse(format!(
                "{} is in; take it out first with forebay member fail",
                named(member)
            )));
        }
        _ => {
            return Err(Failure::InUse(format!(
                "{} is being rebuilt already; forebay member list shows when it is in",
                named(member)
            )));
        }
    };
    Ok(Rebuild {
        number: member.number,
        path: path.to_path_buf(),
        is_done,
    })
}

impl Rebuild {
    /// Does it, unless it is done.
    ///
    /// # Errors
    /// As [`Pool::replace_member`]; it was called off.
    pub fn carry_out(
        &self,
        pool: &Pool,
        options: &RebuildOptions,
        watcher: &mut RebuildWatcher<'_>,
    ) -> Result<Value, Failure> {
        if self.is_done {
            return Ok(outcome(pool, &[], self.number, false));
        }
        let (began, mut all_bytes, mut is_called_off) = (Instant::now(), 0, false);
        let mut watched = |progress: RebuildProgress| {
            all_bytes = progress.all_bytes;
            let go_on = watcher(progress);
            is_called_off = go_on.is_break();
            go_on
        };
        let rebuilt = pool.replace_member(self.number, &self.path, options, &mut watched);
        if rebuilt.is_err() && is_called_off {
            return Err(Failure::Cancelled(format!(
                "called off; member {} is out as before",
                self.number
            )));
        }
        rebuilt.map_err(|error| match plainly(error) {
            // It was right when it began.
            Failure::Arguments(message) if all_bytes > 0 => Failure::Failed(message),
            other => other,
        })?;
        let mut report = outcome(pool, &[], self.number, true);
        report["rebuilt_bytes"] = all_bytes.into();
        report["took_ms"] = (began.elapsed().as_millis() as u64).into();
        Ok(report)
    }
}

/// The members of a mirrored pool.
fn of_mirror(pool: &Pool, given: &[PathBuf]) -> Result<Vec<Member>, Failure> {
    match pool.redundancy().is_mirrored() {
        true => Ok(of(pool, given)),
        false => Err(Failure::Arguments(String::from(
            "this pool is no mirror: none of its members can be taken out; forebay create --redundancy mirror makes one",
        ))),
    }
}

/// The member with this number or path.
fn find<'m>(members: &'m [Member], name: &str) -> Option<&'m Member> {
    let mut members = members.iter();
    match name.parse::<u32>() {
        Ok(number) => members.find(|member| member.number == number),
        Err(_) => members.find(|member| is_at(member, Path::new(name))),
    }
}

/// The member that is out and whose path is not known, where there is one such and a path that is no other's.
fn only_nameless<'m>(members: &'m [Member], name: &str) -> Option<&'m Member> {
    let mut nameless = members.iter().filter(|member| member.path.is_none());
    let first = nameless.next();
    first.filter(|_| nameless.next().is_none() && name.starts_with('/'))
}

/// Whether this is the member's file or device.
fn is_at(member: &Member, path: &Path) -> bool {
    let resolved = |path: &Path| {
        let resolved = std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
        resolved.unwrap_or_else(|_| path.to_path_buf())
    };
    let own = member.path.as_deref();
    own.is_some_and(|own| resolved(own) == resolved(path))
}

/// A failure without the library's word for what a command was told.
fn plainly(error: forebay::Error) -> Failure {
    match error.kind() {
        forebay::ErrorKind::Options(message) => Failure::Arguments(message.clone()),
        _ => error.into(),
    }
}

fn unknown(members: &[Member], name: &str) -> Failure {
    let known: Vec<String> = members.iter().map(named).collect();
    Failure::Arguments(format!(
        "the pool has no member {name}; it has {}",
        known.join("; ")
    ))
}

/// How a member stands now, and whether this command did that.
fn outcome(pool: &Pool, given: &[PathBuf], number: u32, is_changed: bool) -> Value {
    let members = of(pool, given);
    let member = members.iter().find(|member| member.number == number);
    let mut report = member.map_or_else(|| json!({"number": number}), report_of);
    report["changed"] = is_changed.into();
    report
}
