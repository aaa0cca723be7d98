// Mounts made by the client binary, and cleared in any case.

package mount

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// mount mounts an export of the server in a new directory, with further options.
func (s *server) mount(t *testing.T, proto, export string, more ...string) string {
	t.Helper()
	return s.mountBy(t, s.options(proto), export, more...)
}

// mountBy mounts like mount, with other options to reach the server.
func (s *server) mountBy(t *testing.T, options, export string, more ...string) string {
	t.Helper()
	return mountAs(t, nil, "127.0.0.1", options, export, more...)
}

// mountAs mounts an export of a host; the command is an argument of by, if that is given.
func mountAs(t *testing.T, by []string, host, options, export string, more ...string) string {
	t.Helper()
	dir := tempDir(t, "mnt")
	list := strings.Join(append([]string{options}, more...), ",")
	t.Cleanup(func() { unmount(t, dir) }) // a command that failed may have mounted
	line := append(slices.Clone(by), filepath.Join(rig.bin, "nfsrdma"), "mount", "-o", list, host+":"+export, dir)
	if out, code := command(t, "", nil, line[0], line[1:]...); code != 0 || out != "" {
		t.Fatalf("mount -o %s: status %d, %s", list, code, out)
	}
	return dir
}

// heldStatus is the exit status of umount where the kernel has another copy of the mount.
const heldStatus = 64

// unmount unmounts a directory if it is mounted, as a user does. If that fails it ends the mount's
// connection in the kernel, so that nothing is left.
func unmount(t *testing.T, dir string) {
	t.Helper()
	if !isMounted(dir) {
		return
	}
	out, code := nfsrdma(t, "umount", dir)
	if code == heldStatus { // a parallel test, in any package, has made a mount namespace meanwhile
		waitFor(t, "the end of the process", func() bool { return findProcess(dir) == 0 })
		return
	}
	if code == 0 {
		return
	}
	t.Errorf("umount %s: status %d, %s", dir, code, out)
	abort(dir)
	_ = syscall.Unmount(dir, syscall.MNT_DETACH)
}

// mountLine returns a mount point's line in /proc/self/mountinfo, "": none.
func mountLine(dir string) string {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	found := ""
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == dir {
			found = strings.TrimSpace(line)
		}
	}
	return found
}

func isMounted(dir string) bool { return mountLine(dir) != "" }

// abort ends a mount's connection by fusectl: its waiters get an error.
func abort(dir string) {
	f := strings.Fields(mountLine(dir))
	if len(f) < 3 {
		return
	}
	_, minor, _ := strings.Cut(f[2], ":")
	file := filepath.Join("/sys/fs/fuse/connections", minor, "abort")
	if _, err := os.Stat(file); err != nil {
		_ = exec.Command("mount", "-t", "fusectl", "none", "/sys/fs/fuse/connections").Run()
	}
	_ = os.WriteFile(file, []byte("1"), 0)
}

// clearMounts detaches the mounts that the tests have left, and returns their directories: removing
// the suite's files would go into them, and not end if the server is gone.
func clearMounts() (left []string) {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], rig.base+"/") {
			abort(f[4])
			_ = syscall.Unmount(f[4], syscall.MNT_DETACH)
			left = append(left, f[4])
		}
	}
	return left
}

// processOf returns the process that serves a mount.
func processOf(t *testing.T, dir string) int {
	t.Helper()
	pid := findProcess(dir)
	if pid == 0 {
		t.Fatalf("no process serves %s", dir)
	}
	return pid
}

// findProcess returns the process that serves a mount by its arguments; 0: none.
func findProcess(dir string) int {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		args := strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
		if len(args) > 3 && args[1] == "mount" && args[len(args)-1] == dir {
			return pid
		}
	}
	return 0
}

// matrix has each transport with each kind of export.
var matrix = []struct{ proto, export string }{{"rdma", "/export"}, {"tcp", "/export"}, {"rdma", "/memory"}, {"tcp", "/memory"}}

// eachMount runs a test on a mount for each transport and kind of export.
func eachMount(t *testing.T, test func(t *testing.T, s *server, dir, export string), options ...string) {
	t.Helper()
	needMounts(t)
	s := startServer(t)
	for i, m := range matrix {
		if thin && i%3 != 0 { // the first and the last: each transport and each kind of export
			continue
		}
		t.Run(m.proto+m.export, func(t *testing.T) { test(t, s, s.mount(t, m.proto, m.export, options...), m.export) })
	}
}

// onlyOne runs a test on one mount over each transport.
func onlyOne(t *testing.T, test func(t *testing.T, s *server, dir string), options ...string) {
	t.Helper()
	needMounts(t)
	s := startServer(t)
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) { test(t, s, s.mount(t, proto, "/export", options...)) })
	}
}

// inside makes a directory in a mount, by another process: the suite does not touch mounts.
func inside(t *testing.T, dir, name string) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if out, code := command(t, "", nil, "mkdir", "-m", "777", p); code != 0 {
		t.Fatalf("mkdir %s: %s", p, out)
	}
	return p
}

// script runs a shell script in a directory.
func script(t *testing.T, dir, text string) string {
	t.Helper()
	out, code := command(t, dir, nil, "sh", "-euc", text)
	if code != 0 {
		t.Errorf("status %d of\n%s\n%s", code, text, lastLines(out, 40))
	}
	return out
}

// seed returns the seed of a random test, and logs it so that the test can be repeated
// (NFSRDMA_SEED).
func seed(t *testing.T) string {
	t.Helper()
	s := os.Getenv("NFSRDMA_SEED")
	if s == "" {
		s = fmt.Sprint(os.Getpid())
	}
	t.Logf("NFSRDMA_SEED=%s", s)
	return s
}

// credential returns a user whose group has the same number, with supplementary groups.
func credential(uid uint32, groups []uint32) *syscall.Credential {
	return &syscall.Credential{Uid: uid, Gid: uid, Groups: groups}
}
