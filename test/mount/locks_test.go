// Locks by programs on mounts whose machine has a port mapper: servers call the waiters.

package mount

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// A lockRig is a machine with a port mapper, a server that the port mapper does not know, and
// mounts.
type lockRig struct {
	*testing.T
	by     []string // the command prefix for a program there
	srv    *server
	onDisk *os.File // the locked file, beside the mounts
}

// leaveMounts is the start of commands in a separate mount namespace.
var leaveMounts = machine.LeaveMounts(`""`)

func newLockRig(t *testing.T) *lockRig {
	t.Helper()
	needMounts(t)
	need(t, "rpcbind", "rpcinfo", "unshare", "nsenter", "ip", "flock")
	cmd := exec.Command("unshare", "-n", "-m", "sh", "-euc", leaveMounts+`mount -t tmpfs none /run; ip link set lo up; exec rpcbind -f`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	r := &lockRig{T: t, by: []string{"nsenter", "--net=/proc/" + strconv.Itoa(cmd.Process.Pid) + "/ns/net"}}
	waitFor(t, "rpcbind", func() bool { return strings.Contains(r.mapped(), "100000") })
	r.srv = &server{dir: tempDir(t, "served"), by: r.by, extras: []string{"--rpcbind", "off", "--addr", "0.0.0.0"}}
	r.srv.run(t)
	var err error
	if r.onDisk, err = os.Create(filepath.Join(r.srv.dir, "file")); err != nil {
		t.Fatalf("os.Create: %v", err)
	}
	t.Cleanup(func() { r.onDisk.Close() })
	return r
}

// mapped returns the port mapper's list.
func (r *lockRig) mapped() string {
	out, _ := exec.Command(r.by[0], append(r.by[1:], "rpcinfo", "-p", "127.0.0.1")...).CombinedOutput()
	return string(out)
}

// callbacks returns the port where servers find this machine's lock manager, "" where they find
// none.
func (r *lockRig) callbacks() string {
	for line := range strings.Lines(r.mapped()) {
		if f := strings.Fields(line); len(f) > 3 && f[0] == "100021" && f[1] == "4" && f[2] == "tcp" {
			return f[3]
		}
	}
	return ""
}

func (r *lockRig) mount(proto string) string {
	r.Helper()
	return mountAs(r.T, r.by, "127.0.0.1", r.srv.options(proto), "/export")
}

// free reports whether the lock is free.
func (r *lockRig) free() bool {
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	err := unix.FcntlFlock(r.onDisk.Fd(), unix.F_OFD_GETLK, &lock)
	return err == nil && lock.Type == unix.F_UNLCK
}

// hold makes a program hold the lock by a mount until release.
func (r *lockRig) hold(dir string) (release func()) {
	r.Helper()
	// an earlier lock lasts until its program has ended
	waitFor(r.T, "the lock of before to be free", r.free)
	p := r.flock(dir, "sleep", "1000")
	waitFor(r.T, "the first lock", func() bool { return !r.free() })
	return func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	}
}

// flock starts a program that locks the file by a mount, and waits where it must.
func (r *lockRig) flock(dir string, then ...string) *exec.Cmd {
	r.Helper()
	p := exec.Command("flock", append([]string{"--no-fork", filepath.Join(dir, "file")}, then...)...)
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

// ends waits until a program has had the lock.
func (r *lockRig) ends(p *exec.Cmd) {
	r.Helper()
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			r.Errorf("who waited: %v", err)
		}
	case <-time.After(workerLimit):
		r.Fatal("who waits never has the lock")
	}
}

// calls returns how many calls of a procedure a mount has made.
func (r *lockRig) calls(dir, proc string) uint64 {
	r.Helper()
	return figures(r.T, dir).Calls[proc].Count
}

// standsInQueue waits until a mount, whose callbacks the port mapper knows, has asked to be called.
func (r *lockRig) standsInQueue(dir string) {
	r.Helper()
	waitFor(r.T, "the port mapper to know the mount", func() bool { return r.callbacks() != "" })
	before := r.calls(dir, "NLM_LOCK")
	waitFor(r.T, "LOCK that waits", func() bool { return r.calls(dir, "NLM_LOCK") >= before+2 })
}

// TestServerCallsWhoWaits: the server calls a waiter, whose mount does not ask again meanwhile. A
// waiter that gives up leaves the queue. One mount on the machine is called at a time, and none
// that has ended.
func TestServerCallsWhoWaits(t *testing.T) {
	t.Parallel()
	for _, proto := range []string{"tcp", "rdma"} {
		t.Run(proto, func(t *testing.T) {
			r := newLockRig(t)
			a, b := r.mount(proto), r.mount(proto)
			if port := r.callbacks(); port != "" {
				t.Errorf("the port mapper knows port %s although nobody waits", port)
			}
			release := r.hold(a)
			first := r.flock(b, "true")
			r.standsInQueue(b)
			release()
			r.ends(first)
			r.callbackEndsTheWait(a, b)

			release = r.hold(a)
			before := r.calls(b, "NLM_LOCK")
			p := r.flock(b, "true")
			waitFor(t, "LOCK that waits", func() bool { return r.calls(b, "NLM_LOCK") >= before+2 })
			_ = p.Process.Signal(syscall.SIGTERM)
			_ = p.Wait()
			waitFor(t, "CANCEL, and UNLOCK of what may have been granted", func() bool {
				return r.calls(b, "NLM_CANCEL") == 1
			})
			release()
			waitFor(t, "the lock that nobody wants to be free", r.free)

			port := r.callbacks()
			release = r.hold(b)
			other := r.flock(a, "true")
			waitFor(t, "the other mount to ask again", func() bool { return r.calls(a, "NLM_LOCK") >= 5 })
			if now := r.callbacks(); now != port || port == "" {
				t.Errorf("the port mapper knew port %q, and now %q", port, now)
			}
			release()
			r.ends(other)
			unmount(t, b)
			if port := r.callbacks(); port != "" {
				t.Errorf("the port mapper knows port %s of a mount that is gone", port)
			}
			r.killedMount(a, proto)
		})
	}
}

// callbackEndsTheWait makes one program wait by b while another has the lock by a. It repeats this
// until a round shows that the mount relies on the server. The machine's load decides how soon the
// server's first callback works.
func (r *lockRig) callbackEndsTheWait(a, b string) {
	r.Helper()
	for range 20 {
		release := r.hold(a)
		before := r.calls(b, "NLM_LOCK")
		p := r.flock(b, "true")
		waitFor(r.T, "LOCK that waits", func() bool { return r.calls(b, "NLM_LOCK") >= before+2 })
		asked := r.calls(b, "NLM_LOCK")
		time.Sleep(3 * time.Second) // during which a waiter without callbacks asks three times
		quiet := r.calls(b, "NLM_LOCK") == asked
		begun := time.Now()
		release()
		r.ends(p)
		if quiet {
			r.Logf("who waited had the lock %v after its release began", time.Since(begun).Round(time.Millisecond))
			return
		}
	}
	r.Error("the server is never relied on to call")
}

// killedMount kills a mount that the port mapper knows: the next one takes its place there.
func (r *lockRig) killedMount(a, proto string) {
	r.Helper()
	wait := func() (dir, port string) {
		dir = r.mount(proto)
		release := r.hold(a)
		p := r.flock(dir, "true")
		waitFor(r.T, "the port mapper to know another port", func() bool { port = r.callbacks(); return port != "" })
		r.standsInQueue(dir)
		release()
		r.ends(p)
		return dir, r.callbacks()
	}
	c, port := wait()
	if err := syscall.Kill(processOf(r.T, c), syscall.SIGKILL); err != nil {
		r.Fatal(err)
	}
	waitFor(r.T, "the mount to be gone", func() bool { _, code := nfsrdma(r.T, "umount", c); return code == 0 })
	if left := r.callbacks(); left != port {
		r.Errorf("the port mapper knows %q of a killed mount, want %q", left, port)
	}
	d := r.mount(proto)
	release := r.hold(a)
	p := r.flock(d, "true")
	waitFor(r.T, "the next mount to take the place of a killed one", func() bool { now := r.callbacks(); return now != "" && now != port })
	r.standsInQueue(d)
	release()
	r.ends(p)
	unmount(r.T, d)
	if port := r.callbacks(); port != "" {
		r.Errorf("the port mapper knows port %s of a mount that is gone", port)
	}
}

// opened returns a process's open file whose path begins with prefix.
func opened(t *testing.T, pid int, prefix string) string {
	t.Helper()
	links, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	for _, l := range links {
		if path, err := os.Readlink(l); err == nil && strings.HasPrefix(path, prefix) {
			return path
		}
	}
	t.Fatalf("process %d has no file %s*", pid, prefix)
	return ""
}

// TestLocksAfterACrashOfTheMachine: after a crash, which leaves nothing below /run, the next mount
// makes the server free the old locks.
func TestLocksAfterACrashOfTheMachine(t *testing.T) {
	t.Parallel()
	r := newLockRig(t)
	// no other test's mounts have this host: they would count as the next start
	const host = "127.90.1.1"
	mount := func() string { return mountAs(t, r.by, host, r.srv.options("tcp"), "/export") }
	dir := mount()
	release := r.hold(dir)
	pid := processOf(t, dir)
	journal, record := opened(t, pid, "/run/nfsrdma/locks-"), opened(t, pid, "/var/lib/nfsrdma-mount/server-"+host)
	must.Succeed(t, syscall.Kill(pid, syscall.SIGKILL))
	release() // a program with an open file on the mount keeps it there
	waitFor(t, "the mount to be gone", func() bool { _, code := nfsrdma(t, "umount", dir); return code == 0 })
	must.Succeed(t, os.Remove(journal))
	b, err := os.ReadFile(record)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	now, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	earlier := strings.ReplaceAll(string(b), strings.TrimSpace(string(now)), "an-earlier-start")
	if earlier == string(b) {
		t.Fatalf("%s has no start of the machine: %s", record, b)
	}
	must.Succeed(t, os.WriteFile(record, []byte(earlier), 0o600))
	if r.free() {
		t.Fatal("the lock is free before the next mount")
	}
	next := mount()
	waitFor(t, "the locks of before the crash to be free", r.free)
	r.hold(next)()
	unmount(t, next)
	if _, err := os.Stat(record); !os.IsNotExist(err) {
		t.Errorf("%s after the last mount: %v", record, err)
	}
}

// monitorPort returns the port where servers report their restart, "": none.
func (r *lockRig) monitorPort(transport string) string {
	for line := range strings.Lines(r.mapped()) {
		if f := strings.Fields(line); len(f) > 3 && f[0] == "100024" && f[1] == "1" && f[2] == transport {
			return f[3]
		}
	}
	return ""
}

// TestServerTellsTheMount: a mount with locks learns of its server's restart on a machine without a
// status monitor. Debian's sm-notify reports the restart, and the mount reclaims its locks, over a
// connection that goes on.
func TestServerTellsTheMount(t *testing.T) {
	t.Parallel()
	r := newLockRig(t)
	need(t, "sm-notify")
	dir := r.mount("tcp")
	if port := r.monitorPort("tcp"); port != "" {
		t.Errorf("the port mapper knows port %s although there are no locks", port)
	}
	release := r.hold(dir)
	waitFor(t, "the port mapper to know the mount", func() bool { return r.monitorPort("tcp") != "" && r.monitorPort("udp") != "" })
	home := tempDir(t, "nsm")
	script(t, home, "mkdir sm sm.bak")
	// A record of rpc.statd: the lock manager's address, program, version and procedure, a cookie,
	// and the names of both.
	record := "0100007f 000186b5 00000003 00000010 " + strings.Repeat("0", 32) + " 127.0.0.1 localhost\n"
	before := r.calls(dir, "NLM_LOCK")
	waitFor(t, "the mount to reclaim its lock", func() bool {
		must.Succeed(t, os.WriteFile(filepath.Join(home, "sm", "127.0.0.1"), []byte(record), 0o600))
		out, code := command(t, "", nil, r.by[0], append(r.by[1:], "sm-notify", "-f", "-n", "-d", "-m", "1", "-P", home)...)
		if code != 0 {
			t.Fatalf("sm-notify: %s", out)
		}
		return r.calls(dir, "NLM_LOCK") > before
	})
	if r.free() {
		t.Error("the lock is lost")
	}
	release()
	unmount(t, dir)
	if port := r.monitorPort("tcp"); port != "" {
		t.Errorf("the port mapper knows port %s of a mount that is gone", port)
	}
}
