//! `forebay top`: the daemon at a glance, on a terminal or once for a script.
//!
//! The terminal is given back as it was, also when this is interrupted or panics.

mod sample;
mod view;

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use forebay_command::plain::plain_path;
use forebay_command::{Failure, output};
use forebay_serve::Request;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Terminal};
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::arguments::TopOptions;
use crate::control;
use crate::requests::Sample;
use sample::Screen;

/// How long a wait for a key may delay the next sample, or the end.
const KEY_WAIT: Duration = Duration::from_millis(100);

/// How long to wait for a daemon that went away.
const RECONNECT_WAIT: Duration = Duration::from_secs(1);

/// The screen that `--once` prints.
const ONCE_COLUMNS: u16 = 80;
const ONCE_ROWS: u16 = 60;

/// Shows the daemon.
pub fn run(options: &TopOptions) -> Result<(), Failure> {
    if options.json || options.once {
        return once(options);
    }
    if !std::io::stdout().is_terminal() {
        return Err(Failure::Arguments(
            "standard output is no terminal; use --once or --json".into(),
        ));
    }
    // A daemon that is absent at the start is an error, not waited for.
    drop(control::connect(&options.pool)?);
    let mut terminal = ratatui::try_init()?;
    let result = watch(options, &mut terminal);
    ratatui::restore();
    result
}

fn request(options: &TopOptions, count: Option<u64>) -> Request {
    Request::of(&Sample {
        interval_ms: Some((options.interval * 1000.0) as u64),
        count,
    })
}

fn once(options: &TopOptions) -> Result<(), Failure> {
    let mut samples = Vec::new();
    let request = request(options, Some(2));
    control::connect(&options.pool)?.request(&request, |sample| {
        samples.push(sample);
        true
    })?;
    let [before, now] = samples.as_slice() else {
        return Err(Failure::Failed(format!(
            "the daemon sent {} samples instead of 2",
            samples.len()
        )));
    };
    let screen = Screen::between(before, now);
    if options.json {
        output::object(&screen.to_json(now), true);
        return Ok(());
    }
    output::text_of_ours(&text_of(options, &screen));
    Ok(())
}

/// The screen as text, without what is empty at its end.
fn text_of(options: &TopOptions, screen: &Screen) -> String {
    let pool = plain_path(&options.pool);
    let Ok(mut terminal) = Terminal::new(TestBackend::new(ONCE_COLUMNS, ONCE_ROWS));
    let Ok(_) = terminal.draw(|frame| view::draw(frame, &pool, Some(screen), Some("")));
    let content = &terminal.backend().buffer().content;
    let lines = content.chunks(usize::from(ONCE_COLUMNS)).map(|line| {
        let text: String = line.iter().map(|cell| cell.symbol()).collect();
        text.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// What the thread that asks the daemon has to say.
enum News {
    Sample(Box<Value>),
    Gone(String),
}

fn watch(options: &TopOptions, terminal: &mut DefaultTerminal) -> Result<(), Failure> {
    let is_ending = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&is_ending))?;
    }
    let (sender, news) = channel();
    spawn_asker(options, sender)?;
    let pool = plain_path(&options.pool);
    let mut display = Display::default();
    let mut is_stale = true;
    while !is_ending.load(Ordering::SeqCst) {
        if std::mem::take(&mut is_stale) {
            terminal.draw(|frame| {
                view::draw(
                    frame,
                    &pool,
                    display.screen.as_ref(),
                    display.note.as_deref(),
                );
            })?;
        }
        is_stale |= display.hear(&news)?;
        if event::poll(KEY_WAIT)? {
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                        return Ok(());
                    }
                    _ => {}
                },
                Event::Resize(..) => is_stale = true,
                _ => {}
            }
        }
    }
    Ok(())
}

/// What is shown now.
#[derive(Default)]
struct Display {
    last: Option<Value>,
    screen: Option<Screen>,
    note: Option<String>,
}

impl Display {
    /// Takes what has come; returns whether the screen changes.
    fn hear(&mut self, news: &Receiver<News>) -> Result<bool, Failure> {
        match news.recv_timeout(Duration::ZERO) {
            Ok(News::Sample(sample)) => {
                let before = self.last.as_ref().unwrap_or(&sample);
                self.screen = Some(Screen::between(before, &sample));
                self.last = Some(*sample);
                self.note = None;
                Ok(true)
            }
            Ok(News::Gone(reason)) => {
                self.note = Some(format!("{reason}; waiting for a daemon, q quits"));
                Ok(true)
            }
            Err(RecvTimeoutError::Timeout) => Ok(false),
            Err(RecvTimeoutError::Disconnected) => Err(Failure::Failed(
                "the thread that asks the daemon has ended".into(),
            )),
        }
    }
}

/// Asks for samples until the receiver is gone, from one daemon after the other.
fn spawn_asker(options: &TopOptions, sender: Sender<News>) -> Result<(), Failure> {
    let (pool, request) = (options.pool.clone(), request(options, None));
    let ask = move || loop {
        let asked = control::connect(&pool).and_then(|mut client| {
            let on_sample = |sample| sender.send(News::Sample(Box::new(sample))).is_ok();
            Ok(client.request(&request, on_sample)?)
        });
        let reason = asked
            .err()
            .map_or("it stopped".to_owned(), |error| error.to_string());
        if sender.send(News::Gone(reason)).is_err() {
            return;
        }
        std::thread::sleep(RECONNECT_WAIT);
    };
    std::thread::Builder::new()
        .name("asker".into())
        .spawn(ask)?;
    Ok(())
}
