//! Lines of every kind, hostile ones, and a replay on an engine.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::engines::{EngineName, EngineOptions, create};
use crate::measure::{perform, wrong_blocks};
use crate::workload::{Action, Scale, WorkloadSpec};

fn read(text: &str, options: &TraceOptions) -> Result<Trace> {
    Trace::read(text.as_bytes(), Path::new("a/disk.txt"), options)
}

fn by_default(text: &str) -> Result<Trace> {
    read(text, &TraceOptions::default())
}

/// Whether it writes, block and blocks.
fn requests(trace: &Trace) -> Vec<(bool, u64, u32)> {
    let requests = trace.requests.iter();
    requests
        .map(|request| (request.is_write, request.block, request.blocks))
        .collect()
}

const BLKPARSE: &str = "
  8,0    3        1     0.000000000   697  A   W 223490 + 8 <- (8,1) 223427
  8,0    3        2     0.000001829   697  Q   W 223490 + 8 [kjournald]
  8,0    3        3     0.000005607   697  G   W 223490 + 8 [kjournald]
  8,0    3        4     0.000007842   697  P   N [kjournald]
  8,0    3        5     0.000010634   697  m   N cfq697 insert_request
  8,0    3        6     0.000012847   697  D   W 223490 + 8 [kjournald]
  8,16   3        1     0.000013000   697  Q   R 0 + 8 [other disk]
  8,0    1        7     0.010000000   812  Q FWFS [flush]
  8,0    1        8     0.010000000   812  Q  DS 223490 + 8000 [fstrim]
  8,0    1        9     0.020000000   812  Q  RA 223488 + 16 [cat with blanks]
  8,0    1       10     0.020000100   812  D  RA 223488 + 16 [cat with blanks]
  8,0    1       11     0.030000000   812  D   R 36 (12 01 00 00 24 00 ..) [scsi]
  8,0    0        1     0.030100000     0  C  RA 223488 + 16 [0]
  8,0    0        2     0.030200000     0  C  WS 400 + 1 [0]
CPU0 (8,0):
 Reads Queued:           1,        8KiB\t Writes Queued:           1,        4KiB
";

#[test]
fn blkparse_prints_are_read_by_the_event_that_counts() {
    let queued = by_default(BLKPARSE).unwrap();
    // 8 sectors from 223490 touch two blocks, as do 16 from 223488.
    assert_eq!(requests(&queued), [(true, 0, 2), (false, 0, 2)]);
    assert_eq!((queued.name(), queued.requests()), ("disk", 2));
    assert_eq!(queued.disk_bytes(), 8192);
    let take = |event| {
        let options = TraceOptions {
            event: Some(event),
            ..TraceOptions::default()
        };
        requests(&read(BLKPARSE, &options).unwrap())
    };
    assert_eq!(take(TraceEvent::Issued), [(true, 0, 2), (false, 0, 2)]);
    // Sector 400 is in block 50; a block apart from it come the others.
    assert_eq!(take(TraceEvent::Completed), [(false, 2, 2), (true, 0, 1)]);
    let other = TraceOptions {
        device: Some("8,16".into()),
        ..TraceOptions::default()
    };
    assert_eq!(requests(&read(BLKPARSE, &other).unwrap()), [(false, 0, 1)]);
    let one = TraceOptions {
        requests_max: 1,
        ..TraceOptions::default()
    };
    assert_eq!(requests(&read(BLKPARSE, &one).unwrap()), [(true, 0, 2)]);
    let issued_only = "8,0 0 1 0.5 7 D W 8 + 8 [x]";
    assert_eq!(requests(&by_default(issued_only).unwrap()), [(true, 0, 1)]);
}

#[test]
fn csv_is_read_with_a_header_in_any_order_and_as_msr_has_it() {
    let plain = "length_bytes, op ,comment,offset_bytes\n4096,write,x,0\n1,R,y,8191\r\n";
    let trace = by_default(plain).unwrap();
    assert_eq!(requests(&trace), [(true, 0, 1), (false, 1, 1)]);
    let msr = "128166372003061629,hm,1,Read,383496192,32768,413\n\
               128166372016382155,hm,0,Write,0,4096,1\n\
               128166372026382245,hm,1,Write,383528960,4096,5\n";
    let expected = [(false, 0, 8), (true, 8, 1)];
    assert_eq!(requests(&by_default(msr).unwrap()), expected);
    let header = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";
    let with_header = by_default(&format!("{header}{msr}")).unwrap();
    assert_eq!(requests(&with_header), expected);
    let other = TraceOptions {
        device: Some("hm,0".into()),
        ..TraceOptions::default()
    };
    assert_eq!(requests(&read(msr, &other).unwrap()), [(true, 0, 1)]);
}

#[test]
fn pieces_that_were_apart_stay_apart() {
    let text =
        "op,offset_bytes,length_bytes\nw,1000000000,8192\nr,0,4096\nw,4096,4096\nr,500000,1\n";
    let trace = by_default(text).unwrap();
    // Blocks 0 and 1, a gap, 122, a gap, 244140 to 244142.
    assert_eq!(
        requests(&trace),
        [(true, 5, 3), (false, 0, 1), (true, 1, 1), (false, 3, 1)]
    );
    assert_eq!(trace.disk_bytes(), 8 * 4096);
}

#[test]
fn what_is_no_trace_is_refused_with_its_line() {
    let header = "op,offset_bytes,length_bytes\n";
    let event = "8,0 0 1 0.5 7 Q W";
    let cases = [
        (String::new(), "no request"),
        ("\n\n".into(), "no request"),
        ("hello\n".into(), "line 1: 1 words"),
        ("8-0 0 1 0.5 7 Q W 1 + 1 [x]".into(), "line 1: a device"),
        (
            "8,x 0 1 0.5 7 Q W 1 + 1 [x]".into(),
            "line 1: its second part",
        ),
        ("8,0 0 1 -1 7 Q W 1 + 1 [x]".into(), "line 1: a time"),
        (
            "8,0 0 1 0.5 7 Q W".into(),
            "line 1: it ends before its sector",
        ),
        (format!("{event} 1 +"), "line 1: it ends before its length"),
        (
            format!("{event} 1 - 1 [x]"),
            "line 1: \"-\" after the sector",
        ),
        (
            format!("\n{event} 1 + 600000 [x]"),
            "line 2: a request of 307200000",
        ),
        (
            format!("{event} 99999999999999999999 + 1 [x]"),
            "line 1: the sector",
        ),
        (
            format!("{event} 18446744073709551615 + 1 [x]"),
            "line 1: an offset of",
        ),
        (
            format!("{event} 36028797018963967 + 1 [x]"),
            "line 1: a request at byte",
        ),
        ("a,b,c\n".into(), "line 1: a header without op"),
        (format!("{header}w,0\n"), "line 2: 2 fields, not 3"),
        (
            format!("{header}trim,0,1\n"),
            "line 2: an operation \"trim\"",
        ),
        (format!("{header}w,-1,1\n"), "line 2: the offset is \"-1\""),
        (format!("{header}w,0,0\n"), "line 2: a request of 0 bytes"),
        (
            format!("{header}{}\n", "x".repeat(5000)),
            "line 2 has 4096 bytes",
        ),
    ];
    for (text, expected) in cases {
        let said = by_default(&text).expect_err(&text).to_string();
        assert!(
            said.contains(expected) && said.contains("disk.txt"),
            "{text:?}: {said}"
        );
    }
    let no_text = Trace::read(&b"\xff\n"[..], Path::new("x"), &TraceOptions::default());
    assert!(
        no_text
            .unwrap_err()
            .to_string()
            .contains("line 1: bytes that")
    );
    let small = TraceOptions {
        disk_bytes_max: 4096,
        ..TraceOptions::default()
    };
    let said = read(BLKPARSE, &small).unwrap_err().to_string();
    assert!(said.contains("touch 2 blocks"), "{said}");
    assert!(Trace::open("/nowhere/at/all", &small).is_err());
}

#[test]
fn a_replay_writes_what_it_says_on_an_engine() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut text = "op,offset_bytes,length_bytes\n".to_string();
    for _ in 0..400 {
        let operation = if random.bool() { "read" } else { "write" };
        let offset = random.u64(..600_000);
        let length = random.u64(1..60_000);
        text += &format!("{operation},{offset},{length}\n");
    }
    let trace = by_default(&text).unwrap();
    let spec = WorkloadSpec::Trace {
        trace: Arc::new(trace),
        transaction_blocks_max: 4,
    };
    for name in EngineName::ALL {
        let mut workload = spec.build(1);
        // Classic's journal is on the disk, too.
        let backing = forebay::Backing::memory(2 * workload.disk_bytes());
        assert!(workload.take_image().iter().all(|byte| *byte == 0));
        let options = EngineOptions {
            background: false,
            ..EngineOptions::default()
        };
        let region = forebay::Region::shadow(400 << 10);
        let engine = create(name, region, backing, &options).unwrap();
        assert!(workload.warm_up_operations(10) < 20);
        assert_eq!(workload.warm_up_operations(1 << 20), 200, "half the trace");
        // Around its end once.
        for _ in 0..500 {
            let mut actions = Vec::new();
            let operation = workload.next(&mut actions);
            let writes = |action: &&Action| matches!(action, Action::Write { .. });
            assert_eq!(
                operation.writes,
                actions.iter().filter(writes).count() as u64
            );
            perform(&*engine, &actions).unwrap();
        }
        assert!(workload.live_blocks().len() > 50);
        assert_eq!(
            wrong_blocks(&*engine, &mut *workload).unwrap(),
            [0; 0],
            "{name}"
        );
    }
    assert!(
        WorkloadSpec::trace(by_default(BLKPARSE).unwrap(), Scale::QUICK)
            .build(1)
            .name()
            == "disk"
    );
}

/// A line that may be one of a trace.
fn line() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        (0u64..100).prop_map(|number| number.to_string()),
        any::<u64>().prop_map(|number| number.to_string()),
        "[-+0-9.x]{0,5}",
    ];
    let word = prop_oneof![Just("+".to_string()), "[a-zA-Z\\[(,]{0,4}", number];
    let words = proptest::collection::vec(word, 0..8);
    let separator = prop_oneof![Just(" "), Just(",")];
    prop_oneof![
        (words, separator).prop_map(|(words, separator)| words.join(separator)),
        (0u64..200, 0u64..40).prop_map(|(at, len)| format!("8,0 0 1 0.5 7 Q W {at} + {len} [x]")),
        (0u64..9000, 0u64..9000).prop_map(|(at, len)| format!("w,{at},{len}")),
        Just("op,offset_bytes,length_bytes".to_string()),
        "[ -~]{0,40}",
    ]
}

proptest! {
    #[test]
    fn any_lines_give_requests_within_the_disk_or_an_error(
        lines in proptest::collection::vec(line(), 0..12),
        requests_max in 0u64..10,
    ) {
        let options = TraceOptions { requests_max, ..TraceOptions::default() };
        if let Ok(trace) = read(&lines.join("\n"), &options) {
            prop_assert!((1..=requests_max).contains(&trace.requests()));
            prop_assert!(trace.disk_bytes() <= options.disk_bytes_max);
            for request in &trace.requests {
                let end = request.block + u64::from(request.blocks);
                prop_assert!(request.blocks > 0 && end <= trace.disk_blocks);
            }
        }
    }

    /// Moved together, requests meet the same requests as before.
    #[test]
    fn requests_overlap_and_touch_as_they_did(
        requests in proptest::collection::vec((0u64..60, 1u64..6), 1..20),
    ) {
        let mut text = "op,offset_bytes,length_bytes".to_string();
        for (block, blocks) in &requests {
            text += &format!("\nw,{},{}", block * 4096, blocks * 4096);
        }
        let trace = by_default(&text).unwrap();
        for (one, moved_one) in requests.iter().zip(&trace.requests) {
            prop_assert_eq!(one.1, u64::from(moved_one.blocks));
            for (other, moved_other) in requests.iter().zip(&trace.requests) {
                let before = one.0 + one.1 >= other.0;
                let moved = moved_one.block + one.1 >= moved_other.block;
                prop_assert_eq!(before, moved, "{:?} and {:?}", one, other);
            }
        }
    }
}
