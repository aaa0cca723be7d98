// Mounts inside an export, as Linux clients see them.

package linux

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// eventually tries do until it succeeds.
func eventually(t *testing.T, what string, do func() error) {
	t.Helper()
	err := errors.New("not tried")
	for end := time.Now().Add(commandTime); err != nil && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		err = do()
	}
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// TestMountsInExport: by default a client sees the mount point's own directory. With --crossmnt it
// sees a separate file system, which the client mounts by itself and the host can unmount.
func TestMountsInExport(t *testing.T) {
	t.Parallel()
	for _, series := range []string{"6.1", "6.12"} {
		t.Run(series, func(t *testing.T) { mountsInExport(t, series) })
	}
}

func mountsInExport(t *testing.T, series string) {
	enter(t, series)
	if peerName() != "" {
		mountsAtForeign(t, series)
		return
	}
	g := client(t, series)
	dir := exportDir(t)
	inner := filepath.Join(dir, "inner")
	must.Succeed(t, os.Mkdir(inner, 0o777))
	if err := syscall.Mount("tmpfs", inner, "tmpfs", 0, "size=4m,mode=777"); err != nil {
		machine.Skip(t, "a file system cannot be mounted in the export: "+err.Error())
	}
	t.Cleanup(func() { syscall.Unmount(inner, syscall.MNT_DETACH) })
	write(t, filepath.Join(inner, "file"), []byte("content"))

	s := serve(t, g, dir)
	run(t, g, s.mount("rdma", ""))
	if out := run(t, g, "ls /mnt/inner"); out != "" {
		t.Errorf("under the mount point: %q", out)
	}
	run(t, g, unmount)

	s = serve(t, g, dir, "--crossmnt", "--no-root-squash")
	run(t, g, s.mount("rdma", ""))
	out := run(t, g, "cat /mnt/inner/file; df -k /mnt/inner | tail -n 1; stat -c %d /mnt /mnt/inner | sort -u | wc -l")
	if !strings.HasPrefix(out, "content") || !strings.Contains(out, " 4096 ") || !strings.HasSuffix(strings.TrimSpace(out), "2") {
		t.Errorf("in the mounted file system: %q", out)
	}
	run(t, g, "echo moved > /mnt/from && mv /mnt/from /mnt/inner/to && cmp /mnt/inner/to - <<E\nmoved\nE\nls -la /mnt /mnt/inner && cd /mnt/inner && cd .. && [ -e hello.txt ]")
	// A program uploaded by the guest runs on the host while the guest still caches it.
	run(t, g, "printf '#!/bin/sh\\nexit 0\\n' > /mnt/prog && chmod 755 /mnt/prog && cat /mnt/prog > /dev/null")
	eventually(t, "running what was uploaded", func() error { return exec.Command(filepath.Join(dir, "prog")).Run() })
	mountsComeAndGo(t, g, inner)
	eventually(t, "unmounting what is mounted in the export", func() error { return syscall.Unmount(inner, 0) })
	run(t, g, "! cat /mnt/inner/file 2> /dev/null; umount /mnt/inner 2> /dev/null; "+unmount)
	quiet(t, g)
}

// mountsComeAndGo mounts a file system inside the mount in the export, while the guest uses that
// mount. Then it removes the inner one and mounts another in its place. The guest has each as a
// separate mount and device.
func mountsComeAndGo(t *testing.T, g *guest.Guest, inner string) {
	t.Helper()
	deep := filepath.Join(inner, "deep")
	must.Succeed(t, os.Mkdir(deep, 0o777))
	write(t, filepath.Join(deep, "under"), []byte("under"))
	run(t, g, "cat /mnt/inner/deep/under > /dev/null")
	for _, content := range []string{"first", "second"} {
		must.Succeed(t, syscall.Mount("tmpfs", deep, "tmpfs", 0, "size=4m,mode=777"))
		t.Cleanup(func() { syscall.Unmount(deep, syscall.MNT_DETACH) })
		write(t, filepath.Join(deep, "file"), []byte(content))
		// The guest has the covered directory in its cache, and looks up the name again only
		// without that entry.
		out := run(t, g, `n=0; until drop_caches; grep -qs `+content+` /mnt/inner/deep/file; do n=$((n + 1)); [ $n -lt 3000 ] || { ls -la /mnt/inner/deep; exit 1; }; sleep 0.2; done
stat -c %d /mnt /mnt/inner /mnt/inner/deep | sort -u | wc -l; grep -c " /mnt/inner/deep nfs " /proc/mounts; echo written > /mnt/inner/deep/of-guest && sync`)
		if strings.Join(strings.Fields(out), " ") != "3 1" {
			t.Errorf("%s: devices and mounts of the guest: %q", content, out)
		}
		sameFile(t, filepath.Join(deep, "of-guest"), []byte("written\n"))
		// a file that was open is no obstacle
		run(t, g, "exec 5< /mnt/inner/deep/file; read line <&5; echo > /dev/null")
		eventually(t, "unmounting what is mounted in it", func() error { return syscall.Unmount(deep, 0) })
		run(t, g, `n=0; until ls /mnt/inner/deep 2>&1 | grep -q -e "Stale file handle" -e under; do n=$((n + 1)); [ $n -lt 3000 ] || { ls -la /mnt/inner/deep; exit 1; }; sleep 0.2; done
umount /mnt/inner/deep 2> /dev/null; n=0; until drop_caches; [ -e /mnt/inner/deep/under ]; do n=$((n + 1)); [ $n -lt 3000 ] || { ls -la /mnt/inner/deep; exit 1; }; sleep 0.2; done`)
	}
}
