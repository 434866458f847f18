package containerd

import (
	"encoding/json"
	"runtime"
	"strings"
)

// sandboxCalls are the system calls for a process that holds the namespaces of a pod: to start, in whatever language it
// is written, to wait, to reap and to end. They open no network connections and start no other programs.
const sandboxCalls = `access arch_prctl brk capget capset chdir clock_getres clock_gettime clock_nanosleep clone clone3
close close_range dup dup2 dup3 epoll_create1 epoll_ctl epoll_pwait epoll_wait eventfd2 execve exit exit_group faccessat
faccessat2 fchdir fcntl fstat fstatfs futex getcwd getdents64 getegid geteuid getgid getpgrp getpid getppid getrandom
getrlimit gettid getuid ioctl kill lseek madvise mmap mprotect mremap munmap nanosleep newfstatat open openat openat2
pause pipe2 poll ppoll prctl pread64 prlimit64 read readlink readlinkat restart_syscall rseq rt_sigaction rt_sigprocmask
rt_sigreturn rt_sigsuspend rt_sigtimedwait sched_getaffinity sched_yield set_robust_list set_tid_address setgid setgroups
setuid sigaltstack signalfd4 stat statx tgkill uname wait4 waitid write writev`

// sandboxProfile is a seccomp profile for sandboxes, in the format of runtimes. It is stricter than the runtime's
// default, and much cheaper, because libseccomp's time grows with the rules times the architectures: the default
// profile takes longer than everything else that runc does for a container.
func sandboxProfile() ([]byte, error) {
	architecture := map[string]string{"amd64": "SCMP_ARCH_X86_64", "arm64": "SCMP_ARCH_AARCH64"}[runtime.GOARCH]
	var architectures []string // none means that of the host
	if architecture != "" {
		architectures = []string{architecture}
	}
	type rule struct {
		Names  []string `json:"names"`
		Action string   `json:"action"`
	}
	return json.MarshalIndent(struct {
		DefaultAction   string   `json:"defaultAction"`
		DefaultErrnoRet uint     `json:"defaultErrnoRet"`
		Architectures   []string `json:"architectures,omitempty"`
		Syscalls        []rule   `json:"syscalls"`
	}{"SCMP_ACT_ERRNO", 38 /* ENOSYS */, architectures, []rule{{strings.Fields(sandboxCalls), "SCMP_ACT_ALLOW"}}}, "", "  ")
}
