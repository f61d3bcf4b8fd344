//! What both daemons can be asked: the parameters of the commands of their control sockets.

use forebay_serve::control::Parameters;
use serde::{Deserialize, Serialize};

/// How everything stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stat {}

impl Parameters for Stat {
    const COMMAND: &'static str = "stat";
}

/// Where the disks can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrontEnds {}

impl Parameters for FrontEnds {
    const COMMAND: &'static str = "front-ends";
}

/// Everything dirty goes to its backing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flush {
    /// One disk's name; without it all of them.
    pub volume: Option<String>,
}

impl Parameters for Flush {
    const COMMAND: &'static str = "flush";
}
