// Signals during system calls.

package osfs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/fstest"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// Names of system calls that wait for the program of a FUSE mount. The loader of a new process also
// makes those in loaders.
const (
	loaders       = "openat,newfstatat,fstat,pread64"
	interruptible = "openat2,open_by_handle_at,mkdirat,mknodat,symlinkat,linkat,unlinkat,renameat,fchownat,fchmodat,utimensat," +
		"ftruncate,fsync,fdatasync,statx,fstatfs,faccessat2,readlinkat,getdents64,pwrite64,getxattr"
)

// TestInterruptedCalls: a signal interrupts every second system call of a thread. An FS still does
// everything that it does without signals.
func TestInterruptedCalls(t *testing.T) {
	const name = "NFSRDMA_INTERRUPTED_DIR"
	if dir := os.Getenv(name); dir != "" {
		unix.Umask(0o077) // makes osfs query default ACLs
		owners(t, newFS(t, tempDir(t, dir), Options{}))
		numbers(t, newFS(t, tempDir(t, dir), Options{}))
		for kind, o := range map[string]Options{"kernel": {}, "inode": {noKernelHandles: true}} {
			t.Run(kind, func(t *testing.T) {
				fstest.Run(t, func(t *testing.T) nfsserver.FS { return newFS(t, tempDir(t, dir), o) })
			})
		}
		return
	}
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root", "strace")
	log := filepath.Join(t.TempDir(), "log")
	cmd := exec.Command("strace", "-f", "-qq", "-o", log, "-e", "trace="+loaders+","+interruptible, "-e", "signal=none",
		"-e", "inject="+loaders+":error=EINTR:when=30+2", "-e", "inject="+interruptible+":error=EINTR:when=2+2", os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), name+"="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	b, err := os.ReadFile(log)
	must.Succeed(t, err)
	count := map[string]int{}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "(INJECTED)") {
			call, _, _ := strings.Cut(line, "(")
			count[call[strings.LastIndexByte(call, ' ')+1:]]++
		}
	}
	for call := range strings.SplitSeq(loaders+","+interruptible, ",") {
		if count[call] == 0 {
			t.Errorf("%s was never interrupted", call)
		}
	}
}

// owners changes the owners of files, which the conformance list leaves out.
func owners(t *testing.T, f *FS) {
	for i := range 4 {
		s := nfsserver.SetAttr{Mask: nfsserver.SetUID | nfsserver.SetGID, UID: 1000, GID: 2000}
		_, a, err := f.Create(me, f.Root(), fmt.Sprint("made", i), &s)
		must.Succeed(t, err)
		r := createFile(t, f, f.Root(), fmt.Sprint("given", i), "")
		must.Succeed(t, f.Setattr(me, r, &s))
		b, err := f.Getattr(r)
		must.Succeed(t, err)
		want := [2]uint32{1000, 2000}
		must.Equal(t, "user and group of a new file", [2]uint32{a.UID, a.GID}, want)
		must.Equal(t, "user and group of a file after Setattr", [2]uint32{b.UID, b.GID}, want)
	}
}

// numbers queries an inode number so often that some calls are interrupted.
func numbers(t *testing.T, f *FS) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range 60 {
		if ino := inoOf(f.tree.root, ".", 0); ino != f.top.ino {
			t.Errorf("inode %d, want %d", ino, f.top.ino)
		}
	}
}
