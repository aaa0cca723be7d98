// Kernels, containers and limits that leave a server less than it would use.

package changing

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"golang.org/x/sys/unix"
)

// forbidEnv names an environment variable with a rule for forbid. With it this process runs forbid,
// and becomes another program.
const forbidEnv = "NFSRDMA_TEST_FORBID"

// forbid makes a system call, "number error", fail with that error in this process and its
// children, and runs a program.
func forbid(rule string, program []string) error {
	var nr, errno uint32
	if _, err := fmt.Sscan(rule, &nr, &errno); err != nil {
		return err
	}
	const load, equal, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	filter := []unix.SockFilter{
		{Code: load, K: 0}, // load the system call's number
		{Code: equal, K: nr, Jt: 0, Jf: 1},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | errno},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	f := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	const all = unix.SECCOMP_FILTER_FLAG_TSYNC
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, all, uintptr(unsafe.Pointer(&f))); errno != 0 {
		return errno
	}
	if err := os.Unsetenv(forbidEnv); err != nil {
		return err
	}
	return unix.Exec(program[0], program, os.Environ())
}

// works makes most kinds of calls in an export, and reports each failure.
func (s *server) works(what, dir string) {
	s.Helper()
	ctx := context.Background()
	content := bytes.Repeat([]byte("content "), 1<<17)
	do := func(name string, err error) {
		s.Helper()
		if err != nil {
			s.Errorf("%s: %s: %v", what, name, err)
		}
	}
	t, err := s.mount(dir)
	if do("MNT", err); err != nil {
		return
	}
	do("write", t.WriteFile(ctx, "f", content, 0o644))
	b, err := t.ReadFile(ctx, "f")
	do("read", err)
	if !bytes.Equal(b, content) {
		s.Errorf("%s: wrong bytes: %d of %d", what, len(b), len(content))
	}
	do("mkdir", t.Mkdir(ctx, "d", 0o755))
	do("rename", t.Rename(ctx, "f", "d/g"))
	do("link", t.Link(ctx, "d/g", "h"))
	do("symlink", t.Symlink(ctx, "h", "l"))
	do("chmod", t.Chmod(ctx, "h", 0o600))
	_, err = t.StatFS(ctx)
	do("statfs", err)
	list, err := t.ReadDir(ctx, ".")
	do("readdir", err)
	if len(list) != 3 {
		s.Errorf("%s: %d names, want 3", what, len(list))
	}
	do("rmtree", t.RemoveTree(ctx, "d", nfsclient.TreeRemoval{}))
	for _, name := range []string{"h", "l"} {
		do("remove", t.Remove(ctx, name))
	}
}

// TestKernelForbids: a server works without each system call that a container's filter forbids or
// that its kernel lacks, or it names the missing call at its start.
func TestKernelForbids(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	for _, c := range []struct {
		name   string
		nr     uint32
		needed bool
	}{
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, false},
		{"cachestat", unix.SYS_CACHESTAT, false},
		{"preadv2", unix.SYS_PREADV2, false},
		{"name_to_handle_at", unix.SYS_NAME_TO_HANDLE_AT, false},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, false},
		{"open_tree", unix.SYS_OPEN_TREE, false},
		{"openat2", unix.SYS_OPENAT2, true},
		{"statx", unix.SYS_STATX, false},
		{"renameat2", unix.SYS_RENAMEAT2, false},
		{"copy_file_range", unix.SYS_COPY_FILE_RANGE, false},
		{"fallocate", unix.SYS_FALLOCATE, false},
		{"recvmmsg", unix.SYS_RECVMMSG, false},
		{"sendmmsg", unix.SYS_SENDMMSG, false},
		{"faccessat2", unix.SYS_FACCESSAT2, true},
		{"fchmodat2", unix.SYS_FCHMODAT2, false},
		{"quotactl_fd", unix.SYS_QUOTACTL_FD, false},
	} {
		for _, errno := range []unix.Errno{unix.EPERM, unix.ENOSYS} {
			t.Run(fmt.Sprintf("%s with %v", c.name, errno), func(t *testing.T) {
				dir := t.TempDir()
				shell := fmt.Sprintf(`%s="%d %d" exec %q "$0" "$@";`, forbidEnv, c.nr, uint32(errno), os.Args[0])
				if c.needed {
					cmd := exec.Command(os.Args[0], program, "serve", "--rdma-port", "0", "--tcp-port", fmt.Sprint(machine.Port(t)), "--rpcbind", "off",
						"--ephemeral-key", "--state-dir", t.TempDir(), "--control", filepath.Join(t.TempDir(), "control"), dir)
					cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", forbidEnv, c.nr, uint32(errno)))
					out, err := cmd.CombinedOutput()
					if err == nil || !strings.Contains(string(out), c.name+" is not available") {
						t.Errorf("the server: %v, %s; want an end for want of %s", err, out, c.name)
					}
					return
				}
				rdma := fmt.Sprint(machine.Port(t))
				s := start(t, shell, t.TempDir(), "--rdma-port", rdma, dir)
				s.works("over TCP", dir)
				provider := nfsclient.RoCE
				if strings.Contains(s.said(), c.name+" is not available") {
					provider = nfsclient.IWARP
				}
				s.connect(nfsclient.Options{Transport: nfsclient.RDMA, Provider: provider}, rdma)
				s.works("over RDMA", dir)
			})
		}
	}
}
