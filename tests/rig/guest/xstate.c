// Lets User Mode Linux run where the processor has more state than it knows of (AMX, for one).
//
// Linux takes a process's extended registers only whole (PTRACE_SETREGSET answers EFAULT for less), and
// User Mode Linux 6.1 hands over the 2,696 bytes that it has room for: on such a processor its first
// process dies with "ptrace set fp regs failed, errno = 14". Preloaded into it, this completes what is
// handed over with zeroes: state in its initial configuration, which is what a guest that never saw
// those registers has.
//
//   cc -O2 -shared -fPIC -o xstate.so xstate.c && LD_PRELOAD=./xstate.so linux.uml ...
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { STATE_BYTES_MAX = 64 * 1024 };

// User Mode Linux has one thread that traces.
static char state[STATE_BYTES_MAX];
static size_t state_bytes;

static long set_whole_state(pid_t pid, const struct iovec *given) {
    if (state_bytes == 0) {
        struct iovec probe = {state, sizeof state};
        if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, NT_X86_XSTATE, &probe) < 0)
            return -1;
        state_bytes = probe.iov_len;
    }
    size_t given_bytes = given->iov_len < state_bytes ? given->iov_len : state_bytes;
    memcpy(state, given->iov_base, given_bytes);
    memset(state + given_bytes, 0, state_bytes - given_bytes);
    struct iovec whole = {state, state_bytes};
    return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, NT_X86_XSTATE, &whole);
}

// The C library's ptrace, which the program would have called.
long ptrace(enum __ptrace_request request, ...) {
    va_list list;
    va_start(list, request);
    pid_t pid = va_arg(list, pid_t);
    void *address = va_arg(list, void *);
    void *data = va_arg(list, void *);
    va_end(list);
    if (request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE)
        return set_whole_state(pid, data);
    if (request != PTRACE_PEEKTEXT && request != PTRACE_PEEKDATA && request != PTRACE_PEEKUSER)
        return syscall(SYS_ptrace, request, pid, address, data);
    // The system call stores the word that the C library returns.
    long word = 0;
    long result = syscall(SYS_ptrace, request, pid, address, &word);
    if (result < 0)
        return result;
    errno = 0;
    return word;
}
