//! A contender's turn: warmed up, measured with each number of users, and checked.

use std::fs::File;
use std::path::Path;

use forebay_harness::Result;

use crate::tpcc::consistency::Books;
use crate::tpcc::contender::Contender;
use crate::tpcc::drive::{Done, drive};
use crate::tpcc::medium::Medium;
use crate::tpcc::pace::Pace;
use crate::tpcc::results::Measured;
use crate::tpcc::schema::DATABASE;
use crate::tpcc::server::Server;
use crate::tpcc::stack::{Site, Stack};
use crate::tpcc::terminal::Terminal;

/// Users while it warms up.
const WARMING_USERS: u32 = 20;
/// From here on a cache lets blocks go as fast as it takes others in: some keep a few slots free.
const FULL_PER_MILLE: u64 = 900;
/// A cache that isn't full after so many warm-ups holds all there is.
const WARM_UPS_MAX: u64 = 5;

/// Whose turn it is.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    pub contender: Contender,
    /// As slow as that while it is measured; none as it is.
    pub medium: Option<Medium>,
    pub round: usize,
}

impl Subject {
    /// For progress and for what went wrong.
    pub fn title(&self) -> String {
        let contender = self.contender.title();
        match self.medium {
            None => contender.to_owned(),
            Some(medium) => format!("{contender} on {}", medium.title()),
        }
    }
}

/// What came out.
#[derive(Debug)]
pub struct Turn {
    pub measured: Vec<Measured>,
    /// What is wrong in the database, a sentence each.
    pub violations: Vec<String>,
}

/// # Errors
/// Whatever failed; or a signal came. Nothing is left of it then either.
pub fn run(site: &Site, pace: &Pace, image: &Path, subject: Subject) -> Result<Turn> {
    let Subject {
        contender,
        medium,
        round,
    } = subject;
    // Dropped last: the server's files are on it.
    let mut stack = Stack::open(site, (contender, medium), image)?;
    // Only what is measured has to be waited for.
    stack.set_delays(false)?;
    // Reads bring the database into the kernel's pages, and into the cache what fits.
    read_all(&stack.data())?;
    let server = Server::start(&stack.env, &stack.data(), pace.buffer_pool_bytes())?;
    let seed = |what: u64| (round as u64) << 32 | what << 16;
    let mut all = Done::default();
    for warm_up in 1..=WARM_UPS_MAX {
        let terminals = terminals(&server, pace, WARMING_USERS, seed(1000 + warm_up))?;
        all += drive(terminals, pace.goal)?.0;
        if stack.full_per_mille()? >= FULL_PER_MILLE {
            break;
        }
    }
    let mut measured = Vec::new();
    for users in pace.users.iter().copied() {
        let terminals = terminals(&server, pace, users, seed(u64::from(users)))?;
        // Nobody does anything when the counters are read: what is counted is of these transactions, and of what the
        // server and the kernel do in the meantime.
        // Both looks are at slow media, or what happens between a look and its change would go at full speed, and count.
        stack.set_delays(true)?;
        let before = stack.counters()?;
        let (done, elapsed) = drive(terminals, pace.goal)?;
        let counted = stack.counters()? - before;
        stack.set_delays(false)?;
        all += done;
        measured.push(Measured {
            contender,
            medium,
            users,
            round,
            done,
            elapsed,
            counted,
        });
    }
    server.kill()?;
    stack.remount()?;
    let server = Server::start(&stack.env, &stack.data(), pace.buffer_pool_bytes())?;
    let books = Books::read(&mut server.connect(None)?)?;
    server.end()?;
    stack.close()?;
    Ok(Turn {
        measured,
        violations: books.violations(&pace.scale(), &all),
    })
}

/// Connected users, spread over the warehouses.
fn terminals(server: &Server, pace: &Pace, users: u32, seed: u64) -> Result<Vec<Terminal>> {
    let scale = pace.scale();
    let terminal = |user: u32| {
        // Far from each other, as rows of neighbours share pages.
        let home = user * scale.warehouses / users + 1;
        let connection = server.connect(Some(DATABASE))?;
        Ok(Terminal::new(
            connection,
            scale,
            home,
            seed + u64::from(user),
        ))
    };
    (0..users).map(terminal).collect()
}

/// Reads every file below a folder.
fn read_all(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => read_all(&path)?,
            false => drop(std::io::copy(
                &mut File::open(&path)?,
                &mut std::io::sink(),
            )?),
        }
    }
    Ok(())
}
