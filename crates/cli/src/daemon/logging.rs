//! Log lines on standard error: for people, or a JSON object a line; colours on a terminal only.

use std::io::{self, IsTerminal};

use tracing::Level;

use crate::config::{LogFormat, LogLevel, Settings};

/// Starts logging. Called once; a second call changes nothing.
pub fn start(settings: &Settings) {
    let level = match settings.log_level.unwrap_or(LogLevel::Info) {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
    };
    let builder = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    let _ = match settings.log_format.unwrap_or(LogFormat::Text) {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
