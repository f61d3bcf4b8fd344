//! Functions with lists of arguments: ours look, and jump to the real one with everything as it was.

/// The body of a naked function: calls `find`, which sees the first arguments, and jumps to what it
/// returned, with every argument as it was, in registers and on the stack.
#[cfg(target_arch = "x86_64")]
macro_rules! jump_to_found {
    ($find:path) => {
        std::arch::naked_asm!(
            "push rdi",
            "push rsi",
            "push rdx",
            "push rcx",
            "push r8",
            "push r9",
            "push rax",
            // Numbers with a fraction; the stack is even again with these.
            "sub rsp, 128",
            "movups [rsp], xmm0",
            "movups [rsp + 16], xmm1",
            "movups [rsp + 32], xmm2",
            "movups [rsp + 48], xmm3",
            "movups [rsp + 64], xmm4",
            "movups [rsp + 80], xmm5",
            "movups [rsp + 96], xmm6",
            "movups [rsp + 112], xmm7",
            "call {find}",
            "mov r11, rax",
            "movups xmm0, [rsp]",
            "movups xmm1, [rsp + 16]",
            "movups xmm2, [rsp + 32]",
            "movups xmm3, [rsp + 48]",
            "movups xmm4, [rsp + 64]",
            "movups xmm5, [rsp + 80]",
            "movups xmm6, [rsp + 96]",
            "movups xmm7, [rsp + 112]",
            "add rsp, 128",
            "pop rax",
            "pop r9",
            "pop r8",
            "pop rcx",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "jmp r11",
            find = sym $find,
        )
    };
}

/// Naked functions that jump to what another one finds.
#[cfg(target_arch = "x86_64")]
macro_rules! jumps {
    ($($name:ident, $find:ident;)*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            jump_to_found!($find)
        }
    )* };
}
