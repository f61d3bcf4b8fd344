//! Log lines on standard error: for people, or a JSON object a line; colours on a terminal only. A
//! name from outside cannot break out of its line.

use std::fmt::{self, Debug};
use std::io::{self, IsTerminal};

use tracing::Level;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

use super::log_writer::LogWriter;
use crate::config::{LogFormat, LogLevel, Settings};
use crate::plain::plain;

/// Starts logging. Called once; a second call changes nothing.
pub fn start(settings: &Settings) {
    let level = match settings.log_level.unwrap_or(LogLevel::Info) {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
    };
    let format = settings.log_format.unwrap_or(LogFormat::Text);
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
