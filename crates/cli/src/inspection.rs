//! What the commands that look at an idle pool print, as texts: so that a test shows them forged pools
//! by the thousand.

use std::path::PathBuf;

use forebay_command::output;
use serde_json::Value;

use crate::arguments::{Opening, PoolArgument, RecoverOptions};
use crate::commands::{check, info, recover};

/// What is asked of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// `forebay info`.
    Info,
    /// `forebay check`.
    Check,
    /// `forebay recover --dry-run`.
    DryRun,
    /// `forebay recover`, which changes the pool.
    Recover,
}

/// What a command has to say.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The result.
    pub report: Option<Value>,
    /// Why the command fails, if it does.
    pub error: Option<String>,
}

/// Asks a pool of these members.
pub fn ask(question: Question, pool: &[PathBuf]) -> Answer {
    let (opening, json) = (Opening::default(), false);
    let pool = pool.to_vec();
    let result = match question {
        Question::Info => info::report(&pool, opening).map(|it| (it, None)),
        Question::Check => check::report(&PoolArgument {
            pool,
            opening,
            json,
        }),
        Question::DryRun | Question::Recover => recover::report(&RecoverOptions {
            pool,
            dry_run: question == Question::DryRun,
            save_lost: false,
            accept_loss: false,
            accept_stale: true,
            opening,
            json,
        })
        .map(|it| (it, None)),
    };
    let (report, failure) = match result {
        Ok((report, failure)) => (Some(report), failure),
        Err(failure) => (None, Some(failure)),
    };
    let error = failure.map(|failure| output::error_line(&failure.to_string()));
    Answer { report, error }
}

/// The lines of a result on a terminal without colours, or as JSON.
pub fn lines(report: &Value, as_json: bool) -> Vec<String> {
    output::object_lines(report, as_json, ("", ""))
}
