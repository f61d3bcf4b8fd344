//! QEMU's own client and its firmware's driver: a guest boots from the disk, writes to it through
//! interrupt 0x13, says so on its serial port, and is killed; then the next one.

mod vhost_guest;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use forebay_serve::{BlockDevice, VhostUserOptions};
use vhost_guest::{Rig, wait_until};

const PROGRAM: &str = "qemu-system-x86_64";

/// A boot sector that writes itself to the second sector and prints K, or F where that failed:
/// `xor ax,ax; mov es,ax; mov ax,0301h; mov bx,7c00h; mov cx,2; mov dx,80h; int 13h; mov al,'K';
/// jnc +2; mov al,'F'; mov dx,3f8h; out dx,al; hlt; jmp -3`.
const BOOT_CODE: [u8; 31] = [
    0x31, 0xc0, 0x8e, 0xc0, 0xb8, 0x01, 0x03, 0xbb, 0x00, 0x7c, 0xb9, 0x02, 0x00, 0xba, 0x80, 0x00,
    0xcd, 0x13, 0xb0, 0x4b, 0x73, 0x02, 0xb0, 0x46, 0xba, 0xf8, 0x03, 0xee, 0xf4, 0xeb, 0xfd,
];

/// Killed when a test ends, however it does.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn boot(socket: &Path, serial: &Path) -> Guest {
    let socket = format!("socket,id=disk,path={}", socket.display());
    let serial = format!("file:{}", serial.display());
    let child = Command::new(PROGRAM)
        .args(["-machine", "q35", "-accel", "tcg", "-m", "64"])
        .args([
            "-object",
            "memory-backend-memfd,id=memory,size=64M,share=on",
        ])
        .args(["-numa", "node,memdev=memory", "-chardev", &socket])
        .args([
            "-device",
            "vhost-user-blk-pci,chardev=disk,num-queues=2,bootindex=1",
        ])
        .args([
            "-display",
            "none",
            "-monitor",
            "none",
            "-no-reboot",
            "-serial",
            &serial,
        ])
        .stdin(Stdio::null())
        .spawn();
    Guest(child.unwrap())
}

#[test]
fn guests_of_qemu_boot_write_and_die() {
    let has_qemu = Command::new(PROGRAM)
        .args(["-device", "vhost-user-blk-pci,help"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !has_qemu.is_ok_and(|status| status.success()) {
        let test = "guests_of_qemu_boot_write_and_die";
        let _ = writeln!(
            std::io::stderr(),
            "skipped {test}: no {PROGRAM} with vhost-user-blk"
        );
        return;
    }
    let options = VhostUserOptions {
        queues: 2,
        ..VhostUserOptions::default()
    };
    let rig = Rig::new(8 << 20, options);
    let mut sector = [0; 512];
    sector[..BOOT_CODE.len()].copy_from_slice(&BOOT_CODE);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    rig.device.write_at(0, &sector).unwrap();
    for number in 0..2 {
        rig.device.write_zeroes(512, 512).unwrap();
        let serial = rig.directory.path().join(format!("serial{number}"));
        let guest = boot(&rig.socket(), &serial);
        let said = || {
            let mut text = Vec::new();
            let file = std::fs::File::open(&serial);
            let _ = file.and_then(|mut file| file.read_to_end(&mut text));
            text
        };
        wait_until("the guest says something", || !said().is_empty());
        assert_eq!(said(), b"K");
        assert_eq!(rig.content()[512..1024], sector);
        drop(guest);
        rig.wait_for_no_client();
    }
    let stats = rig.server().stats();
    assert_eq!(
        (stats.writes, stats.errors, stats.protocol_errors),
        (2, 0, 0)
    );
}
