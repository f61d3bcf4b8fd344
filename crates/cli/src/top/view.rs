//! The screen of `forebay top`, drawn into whatever room there is; 80 x 24 shows everything.

use forebay_command::size;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::sample::{Disk, Kind, Screen};

const LABEL: Style = Style::new().fg(Color::Cyan);
const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const FAINT: Style = Style::new().add_modifier(Modifier::DIM);

/// Lanes that are shown.
const LANES_MAX: usize = 8;

/// Columns that a label takes.
const LABEL_COLUMNS: usize = 10;

/// Draws what is known, or why nothing is.
pub fn draw(frame: &mut Frame, pool: &str, screen: Option<&Screen>, note: Option<&str>) {
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .split(frame.area());
    let uptime = screen.map_or(String::new(), |screen| {
        format!("  up {}", shown_seconds(screen.uptime_s))
    });
    let title = vec![
        Span::styled(format!("forebay {pool}"), STRONG),
        Span::styled(uptime, FAINT),
    ];
    frame.render_widget(Line::from(title), rows[0]);
    if let Some(screen) = screen {
        draw_body(frame, rows[1], screen);
    }
    let foot = match note {
        Some(note) => Line::styled(note.to_owned(), BAD),
        None => Line::styled("q quit", FAINT),
    };
    frame.render_widget(foot, rows[2]);
}

fn draw_body(frame: &mut Frame, area: Rect, screen: &Screen) {
    let columns = usize::from(area.width);
    let mut lines = vec![Line::default()];
    lines.extend(condition_line(screen));
    lines.extend(pool_lines(screen, columns));
    lines.push(Line::default());
    lines.extend(pipeline_lines(screen));
    lines.extend(journal_line(screen));
    lines.push(errors_line(screen));
    lines.push(Line::default());
    lines.extend(disk_lines(&screen.disks));
    lines.push(Line::default());
    lines.push(Line::styled("front ends", LABEL));
    for front_end in &screen.front_ends {
        let address = shortened(&front_end.address, 28);
        let address = Span::raw(format!("  {:<5}{address:<29}", front_end.kind));
        lines.push(Line::from(vec![
            address,
            Span::styled(front_end.activity.clone(), FAINT),
        ]));
    }
    // What has no room is said, not silently cut.
    let room = usize::from(area.height);
    if lines.len() > room && room > 0 {
        let hidden = lines.len() - room + 1;
        lines.truncate(room - 1);
        lines.push(Line::styled(
            format!("… {hidden} more lines; enlarge the window"),
            FAINT,
        ));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn labelled(label: &str, rest: Vec<Span<'static>>) -> Line<'static> {
    let mut spans = vec![Span::styled(format!("{label:<LABEL_COLUMNS$}"), LABEL)];
    spans.extend(rest);
    Line::from(spans)
}

/// How the pool stands, where a member of it may die.
fn condition_line(screen: &Screen) -> Option<Line<'static>> {
    let style = match screen.condition.as_str() {
        "" => return None,
        "whole" => Style::new(),
        _ => BAD,
    };
    let text = format!("{}, {}", screen.redundancy, screen.condition);
    Some(labelled("pool", vec![Span::styled(text, style)]))
}

fn pool_lines(screen: &Screen, columns: usize) -> Vec<Line<'static>> {
    let slots = screen.slots.max(1);
    let per_mille = |blocks: u64| blocks * 1000 / slots;
    let dirty = per_mille(screen.dirty_blocks);
    let used = screen.slots.saturating_sub(screen.free_slots);
    let bytes = |blocks: u64| size::shown(blocks * screen.block_bytes);
    let width = columns.saturating_sub(LABEL_COLUMNS + 36).clamp(10, 60);
    let style = if dirty >= screen.dirty_high_per_mille {
        BAD
    } else if dirty >= screen.dirty_low_per_mille {
        Style::new().fg(Color::Yellow)
    } else {
        Style::new().fg(Color::Green)
    };
    let marks = [screen.dirty_low_per_mille, screen.dirty_high_per_mille];
    vec![
        labelled(
            "dirty",
            vec![
                Span::styled(bar(dirty, width, &marks), style),
                Span::raw(format!(
                    " {:>5.1} % {:>10}  | {} | {} %",
                    dirty as f64 / 10.0,
                    bytes(screen.dirty_blocks),
                    screen.dirty_low_per_mille / 10,
                    screen.dirty_high_per_mille / 10
                )),
            ],
        ),
        labelled(
            "cached",
            vec![
                Span::raw(bar(per_mille(used), width, &[])),
                Span::raw(format!(
                    " {:>5.1} % {:>10}  of {}",
                    per_mille(used) as f64 / 10.0,
                    bytes(used),
                    bytes(screen.slots)
                )),
            ],
        ),
        labelled("log", log_spans(screen, width)),
    ]
}

/// Their pace, or what a ring has to keep although it needs the room.
fn what_holds_them_up(screen: &Screen) -> String {
    match &screen.ring {
        Some(ring) => format!("{}/s blocks carried on", shown_number(ring.carried_per_s)),
        None => format!(
            "{}/s slowed by {}",
            shown_number(screen.paced_per_s),
            shown_latency(screen.paced_mean_ns)
        ),
    }
}

fn log_spans(screen: &Screen, width: usize) -> Vec<Span<'static>> {
    let (used, text) = match &screen.ring {
        None => (
            screen.log_used_per_mille,
            format!(
                "{:.1} checkpoints/s  {}",
                screen.checkpoints_per_s,
                lane_digits(&screen.lanes_used_per_mille)
            ),
        ),
        Some(ring) => (
            1000 - ring.free_segments.min(ring.segments) * 1000 / ring.segments.max(1),
            format!("{}/{} segments free", ring.free_segments, ring.segments),
        ),
    };
    let used_percent = used as f64 / 10.0;
    vec![
        Span::raw(bar(used, width, &[])),
        Span::raw(format!(" {used_percent:>5.1} %  {text}")),
    ]
}

/// Each lane as a digit from 0 to 9, as many as there is room for.
fn lane_digits(lanes: &[u64]) -> String {
    let digit = |lane: &u64| char::from(b'0' + (lane / 100).min(9) as u8);
    lanes.iter().take(LANES_MAX).map(digit).collect()
}

/// A bar of `width` columns, filled to `per_mille`, with a line at each mark.
fn bar(per_mille: u64, width: usize, marks: &[u64]) -> String {
    let column = |per_mille: u64| (per_mille as usize * width).div_ceil(1000).min(width);
    let filled = column(per_mille);
    let cell = |at: usize| {
        if marks.iter().any(|mark| column(*mark).max(1) - 1 == at) {
            '|'
        } else if at < filled {
            '='
        } else {
            '.'
        }
    };
    format!("[{}]", (0..width).map(cell).collect::<String>())
}

fn pipeline_lines(screen: &Screen) -> Vec<Line<'static>> {
    let per_s = |number: f64| format!("{:>7}/s", shown_number(number));
    let hits = screen
        .hit_ratio
        .map_or("-".to_owned(), |ratio| format!("{:.1} %", ratio * 100.0));
    let blocks_per_run = match screen.runs_per_s {
        0.0 => "-".to_owned(),
        runs => format!("{:.1}", screen.write_backs_per_s / runs),
    };
    let (ordering, ordering_per_s) = match &screen.ring {
        Some(ring) => ("flushes", ring.flushes_per_s),
        None => ("fences", screen.fences_per_s),
    };
    vec![
        labelled(
            "commits",
            vec![Span::raw(format!(
                "{}   {} {}   hits {hits}   fills {}",
                per_s(screen.commits_per_s),
                ordering,
                per_s(ordering_per_s),
                per_s(screen.fills_per_s)
            ))],
        ),
        labelled(
            "writeback",
            vec![Span::raw(format!(
                "{}   under way {}   blocks/run {blocks_per_run}   evictions {}",
                per_s(screen.write_backs_per_s),
                screen.writing_blocks,
                per_s(screen.evictions_per_s)
            ))],
        ),
        labelled(
            "writers",
            vec![Span::raw(format!(
                "{} waiting for room now, {}/s had to; {}",
                screen.waiting_writers,
                shown_number(screen.throttled_per_s),
                what_holds_them_up(screen)
            ))],
        ),
    ]
}

/// The journals, where there are any.
fn journal_line(screen: &Screen) -> Option<Line<'static>> {
    let text = format!(
        "{} of {} blocks held back; {}/s overwritten, {}/s written",
        screen.journal_deferred_blocks,
        screen.journal_blocks,
        shown_number(screen.journal_overwritten_per_s),
        shown_number(screen.journal_written_per_s)
    );
    (screen.journal_blocks > 0).then(|| labelled("journals", vec![Span::raw(text)]))
}

fn errors_line(screen: &Screen) -> Line<'static> {
    let number = |count: u64, what: &str| {
        let style = if count > 0 { BAD } else { Style::new() };
        Span::styled(format!("{count} {what}"), style)
    };
    let comma = || Span::raw(", ");
    let mut spans = Vec::new();
    // First, where no narrow screen cuts it off.
    if screen.is_poisoned {
        let failed = match &screen.ring {
            Some(_) => "POISONED: a write failed",
            None => "POISONED: a fence failed",
        };
        spans.extend([Span::styled(failed, BAD), comma()]);
    }
    spans.extend([
        number(screen.write_back_errors, "of backings"),
        comma(),
        number(screen.healed, "copies healed"),
        comma(),
        number(screen.corrupt, "reads refused"),
    ]);
    for (count, what) in [
        (screen.repaired, "repaired"),
        (screen.unrepaired, "not repaired"),
        (screen.media_errors, "pages lost"),
        (screen.retired_slots, "slots retired"),
    ] {
        if count > 0 {
            spans.extend([comma(), number(count, what)]);
        }
    }
    labelled("errors", spans)
}

fn disk_lines(disks: &[Disk]) -> Vec<Line<'static>> {
    let heading = format!(
        "{:<22}{:<6}{:>8}{:>11}{:>9}{:>9}{:>9}",
        "disks", "", "/s", "bytes/s", "p50", "p99", "p99.9"
    );
    let mut lines = vec![Line::styled(heading, LABEL)];
    for disk in disks {
        lines.push(kind_line(&shortened(&disk.name, 20), "read", &disk.read));
        lines.push(kind_line("", "write", &disk.write));
        if disk.is_degraded {
            let error = format!("  degraded: {}", disk.last_error);
            lines.push(Line::styled(error, BAD));
        }
        if !disk.waiting.is_empty() {
            let waiting = format!("  no answer from its backing yet: {}", disk.waiting);
            lines.push(Line::styled(waiting, BAD));
        }
    }
    lines
}

fn kind_line(name: &str, kind: &str, numbers: &Kind) -> Line<'static> {
    let text = format!(
        "  {name:<20}{kind:<6}{:>8}{:>11}{:>9}{:>9}{:>9}",
        shown_number(numbers.per_s),
        size::shown(numbers.bytes_per_s as u64),
        shown_latency(numbers.p50_ns),
        shown_latency(numbers.p99_ns),
        shown_latency(numbers.p999_ns)
    );
    let mut spans = vec![Span::raw(text)];
    if numbers.errors > 0 {
        spans.push(Span::styled(format!(" {} errors", numbers.errors), BAD));
    }
    Line::from(spans)
}

/// The end of a text tells more than its start: it is often a path.
fn shortened(text: &str, letters_max: usize) -> String {
    let letters = text.chars().count();
    if letters <= letters_max {
        return text.to_owned();
    }
    let end: String = text.chars().skip(letters - letters_max + 1).collect();
    format!("…{end}")
}

/// Four significant places at most.
fn shown_number(number: f64) -> String {
    match number {
        number if number >= 1e6 => format!("{:.1} M", number / 1e6),
        number if number >= 1e4 => format!("{:.1} k", number / 1e3),
        number if number >= 10.0 || number == 0.0 => format!("{number:.0}"),
        number => format!("{number:.1}"),
    }
}

fn shown_latency(latency_ns: u64) -> String {
    match latency_ns {
        0 => "-".to_owned(),
        ns if ns < 1_000 => format!("{ns} ns"),
        ns if ns < 1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        ns if ns < 1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        ns => format!("{:.1} s", ns as f64 / 1e9),
    }
}

fn shown_seconds(seconds: u64) -> String {
    let (days, seconds) = (seconds / 86_400, seconds % 86_400);
    let clock = format!(
        "{}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    if days > 0 {
        format!("{days} d {clock}")
    } else {
        clock
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::sample::tests::samples;
    use super::*;

    fn rendered(columns: u16, rows: u16, screen: Option<&Screen>, note: Option<&str>) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal
            .draw(|frame| draw(frame, "/dev/shm/pool", screen, note))
            .unwrap();
        let buffer = terminal.backend().buffer().clone();
        let lines = buffer.content.chunks(usize::from(columns)).map(|line| {
            let text: String = line.iter().map(|cell| cell.symbol()).collect();
            text.trim_end().to_owned()
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn eighty_by_twenty_four_shows_everything() {
        let (before, now) = samples();
        let screen = Screen::between(&before, &now);
        let found = rendered(80, 24, Some(&screen), None);
        let expected = include_str!("screen-80x24.txt");
        assert!(found == expected.trim_end(), "found:\n{found}\n");
    }

    #[test]
    fn a_pool_with_copies_says_how_it_stands() {
        let (before, mut now) = samples();
        for condition in ["whole", "degraded (member 1 at /mnt/b is out)"] {
            now["pool"] = condition.into();
            now["redundancy"] = "parity".into();
            let screen = Screen::between(&before, &now);
            let text = rendered(80, 30, Some(&screen), None);
            let line = format!("pool      parity, {condition}\n");
            assert!(text.contains(&line), "{text}");
        }
    }

    #[test]
    fn a_pool_on_an_ssd_shows_its_ring() {
        let (mut before, mut now) = samples();
        for (sample, number) in [(&mut before, 0), (&mut now, 1)] {
            sample["ssd"] = serde_json::json!({"segments": 64, "free_segments": 16,
                "carried_blocks": 30 * number, "flushes": 900 * number});
        }
        let text = rendered(80, 24, Some(&Screen::between(&before, &now)), None);
        for part in [
            " 75.0 %  16/64 segments free\n",
            "flushes     900/s",
            "had to; 30/s blocks carried on\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("fences") && !text.contains("checkpoints"));
    }

    #[test]
    fn any_size_is_drawn_without_a_panic_and_says_what_it_hides() {
        let (before, now) = samples();
        let screen = Screen::between(&before, &now);
        for (columns, rows) in [(1, 1), (20, 3), (40, 10), (80, 12), (200, 60)] {
            let text = rendered(columns, rows, Some(&screen), Some("no daemon"));
            if rows == 12 {
                assert!(text.contains("more lines"), "{text}");
            }
        }
        let nothing = rendered(80, 24, None, Some("no daemon serves it"));
        assert!(nothing.contains("no daemon serves it"));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(shown_number(12_345.0), "12.3 k");
        assert_eq!(shown_number(0.25), "0.2");
        assert_eq!(shown_latency(4_100), "4.1 µs");
        assert_eq!(shown_latency(0), "-");
        assert_eq!(shown_seconds(90_061), "1 d 1:01:01");
        assert_eq!(shortened("/a/long/path", 5), "…path");
    }
}
