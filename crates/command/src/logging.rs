//! Log lines on standard error: for people, or a JSON object a line; colours on a terminal only. A
//! name from outside cannot break out of its line.

use std::fmt::{self, Debug};
use std::io::{self, IsTerminal};

use clap::ValueEnum;
use serde::Deserialize;
use tracing::Level;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

use crate::log_writer::LogWriter;
use crate::plain::plain;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// A line for people.
    Text,
    /// A JSON object a line.
    Json,
}

/// Least important events that are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// Failures.
    Error,
    /// And what is about to fail.
    Warn,
    /// And what the daemon does on request.
    Info,
    /// And what it does by itself.
    Debug,
}

/// Starts logging, by default in text what is information and above. Called once; a second call changes
/// nothing.
pub fn start(level: Option<LogLevel>, format: Option<LogFormat>) {
    let level = match level.unwrap_or(LogLevel::Info) {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
    };
    let format = format.unwrap_or(LogFormat::Text);
    let builder = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(LogWriter::new(format == LogFormat::Json))
        // They would be printed in a way that panics where it fails.
        .log_internal_errors(false)
        .with_target(false)
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    let _ = match format {
        LogFormat::Text => builder
            .fmt_fields(debug_fn(write_field).delimited(" "))
            .try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}

fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    let text = format!("{value:?}");
    match field.name() {
        "message" => write!(writer, "{}", plain(&text)),
        name => write!(writer, "{name}={}", plain(&text)),
    }
}
