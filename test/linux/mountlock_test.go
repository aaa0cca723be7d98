// Locks of a guest, of a mount of ours, and of a program here, on one file.

package linux

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestGuestAndMountLock: three kinds of programs exclude one another. Some run in a guest that
// mounts without nolock, some on nfsrdma mount, and one locks the served file itself. Each kind of
// lock is tried beside each other kind, on overlapping and separate bytes. Waiters get the lock
// when its process releases it, or ends.
func TestGuestAndMountLock(t *testing.T) {
	t.Parallel()
	for guests, ours := range map[string]string{"rdma": "tcp", "tcp": "rdma"} {
		t.Run("linux-"+guests+"-ours-"+ours, func(t *testing.T) { guestAndMountLock(t, guests, ours) })
	}
}

func guestAndMountLock(t *testing.T, guests, ours string) {
	const series = "6.12"
	enter(t, series)
	if err := guest.Direct(); err != nil {
		machine.Skip(t, err.Error())
	}
	needMounts(t)
	g := client(t, series)
	dir := exportDir(t)
	path := filepath.Join(dir, "lock")
	f, err := os.Create(path)
	if err != nil {
		t.Fatalf("os.Create: %v", err)
	}
	defer f.Close()
	s := &server{t: t, g: g, dir: dir, behind: 20049, rdma: 20049, tcp: 2049, args: []string{"--crc", "auto", "--rdma", "iwarp", "--rpcbind", "serve"}}
	s.start()
	t.Cleanup(s.stop)
	lockUp(t, g)
	endLocks(t, g)
	run(t, g, "mount -t nfs -o vers=3,proto="+guests+" "+g.Host+":/export /mnt")
	tool, count := program(t, "test/linux/cmd/locker"), new(int)
	l := &lockingAll{t, fileLock{t, f}, []*locking{
		{t: t, path: path, command: tool, count: count},
		{t: t, g: g, path: "/mnt/lock", command: intoGuest(t, g, tool), count: count},
		{t: t, mounted: true, path: filepath.Join(mountOurs(t, ours, g.Listen), "lock"), command: tool, count: count},
	}}
	l.kinds()
	l.waiters()
	l.releases()
	unmountLocked(t, g)
}

// heldStatus is the exit status of umount where another mount namespace has the mount too, such as
// a namespace that another test made meanwhile. The mount is unmounted here, and its process ends
// with the last namespace.
const heldStatus = 64

// needMounts skips a test where we cannot mount for all users.
func needMounts(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Geteuid() != 0 {
		machine.Skip(t, "a mount of ours for all users wants root and /dev/fuse")
	}
}

// mountOurs mounts /export of a server here, until the test ends.
func mountOurs(t *testing.T, proto, host string) string {
	t.Helper()
	dir, nfsrdma := t.TempDir(), program(t, "cmd/nfsrdma")
	t.Cleanup(func() { unmountOurs(t, nfsrdma, dir) })
	if out, err := exec.Command(nfsrdma, "mount", "-o", "proto="+proto, host+":/export", dir).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v, %s", err, out)
	}
	return dir
}

// unmountOurs unmounts our mounts, in any case.
func unmountOurs(t *testing.T, nfsrdma, dir string) {
	t.Helper()
	out, err := exec.Command(nfsrdma, "umount", dir).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == heldStatus {
		t.Logf("%s", out)
	} else if err != nil {
		t.Errorf("umount: %v, %s", err, out)
		_ = exec.Command("umount", "-l", dir).Run()
	}
}

// releases makes each machine wait for each other machine's lock. The process with the lock then
// releases it and keeps running. Locks by flock(2) are among them.
func (l *lockingAll) releases() {
	for _, holder := range l.all {
		for _, waiter := range l.all {
			for _, kinds := range [][3]string{{"w 0 0", "u 5 1", "w 5 1"}, {"r 0 10", "u 0 10", "w 5 1"}, {"W 0 0", "U 0 0", "W 0 0"}, {"W 0 0", "U 0 0", "R 0 0"}} {
				if waiter == holder || kinds[0] == "W 0 0" && (holder.onServer() || waiter.onServer()) {
					continue
				}
				what := fmt.Sprintf("%s has %s beside %s of %s", waiter.name(), kinds[2], kinds[0], holder.name())
				has, goes := holder.mark("has"), holder.mark("go")
				first := holder.start(kinds[0] + " says " + has + " await " + goes + " " + kinds[1])
				comes(l.t, "the first lock", func() bool { return first.marks(has) })
				second := waiter.start(kinds[2])
				// it must wait; without waiting, the lock would arrive at once
				time.Sleep(time.Second)
				if second.has() {
					l.t.Errorf("before it is released %s", what)
				}
				must.Succeed(l.t, os.WriteFile(first.here(goes), nil, 0o644))
				comes(l.t, what, second.has)
				if first.told() != "" {
					l.t.Errorf("%s: who has released it is told %s", what, first.told())
				}
				first.end()
				second.end()
				l.free()
			}
		}
	}
}
