// Linux against Linux: shows that the guests themselves work, so that a failure elsewhere
// is ours.

package linux

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/test/wire"
)

// clientSmall lists a mounted directory and reads a small file.
const clientSmall = `ls -la /mnt && cat /mnt/hello.txt && umount /mnt`

// client1MB writes 1 MB, drops the guest's cache, reads and compares.
const client1MB = `
dd if=/dev/urandom of=/tmp/r bs=64k count=16 2>/dev/null
dd if=/tmp/r of=/mnt/one.bin bs=1M conv=fsync 2>/dev/null || exit 1
drop_caches
cmp /tmp/r /mnt/one.bin || exit 1
rm /tmp/r
umount /mnt`

func TestLinuxMountsLinux(t *testing.T) {
	enter(t, "6.1")
	g := client(t, "6.1")
	s := knfsd(t, "6.1", guest.Fixed, g, wire.Want{})
	mount := s.mount("rdma", "")
	if out := run(t, g, mount+"\n"+clientSmall); !strings.Contains(out, "hello from knfsd") {
		t.Errorf("the guest read %q", out)
	}
	run(t, g, mount+"\n"+client1MB)
	run(t, g, s.mount("tcp", "")+"\n"+clientSmall)
	if err := guest.Direct(); err == nil {
		cannotReachUs(t, s.Guest)
	}
}

// cannotReachUs checks that connections from an isolated guest get no answer. A connection from
// this machine to the same port does.
func cannotReachUs(t *testing.T, g *guest.Guest) {
	ln, err := net.Listen("tcp4", net.JoinHostPort(g.Listen, "0"))
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "a secret\n")
			c.Close()
		}
	}()
	c, err := net.Dial("tcp4", ln.Addr().String())
	if err != nil {
		t.Fatalf("net.Dial: %v", err)
	}
	defer c.Close()
	if said, err := io.ReadAll(c); string(said) != "a secret\n" {
		t.Fatalf("the host reads %q, %v", said, err)
	}
	if said := run(t, g, fmt.Sprintf("nc -w 3 %s %d < /dev/null 2>&1 || echo refused", g.Host, ln.Addr().(*net.TCPAddr).Port)); !strings.HasSuffix(said, "refused\n") || strings.Contains(said, "secret") {
		t.Errorf("an isolated guest reads %q", said)
	}
}

// exportDir returns a directory that our server can export, with one known file in it.
func exportDir(t *testing.T) string { return prepareExport(t, t.TempDir()) }

// memoryDir returns a directory like exportDir's, but in memory if there is room: syncs cost
// nothing there.
func memoryDir(t *testing.T) string {
	t.Helper()
	const shm = "/dev/shm"
	var st syscall.Statfs_t
	if err := syscall.Statfs(shm, &st); err != nil || st.Bavail*uint64(st.Bsize) < 256<<20 {
		return exportDir(t)
	}
	dir, err := os.MkdirTemp(shm, "nfsrdma-export-")
	if err != nil {
		return exportDir(t)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return prepareExport(t, dir)
}

func prepareExport(t *testing.T, dir string) string {
	t.Helper()
	must.Succeed(t, os.Chmod(dir, 0o777))
	write(t, filepath.Join(dir, "hello.txt"), []byte("hello from nfsrdmad\n"))
	return dir
}

// TestLinuxMountsUs: Linux mounts our server and reads and writes, as the basis for all other
// tests. Over RDMA the wire is checked.
func TestLinuxMountsUs(t *testing.T) {
	t.Parallel()
	for _, series := range []string{"6.1", "6.12"} {
		t.Run(series, func(t *testing.T) {
			enter(t, series)
			for _, crc := range []string{"auto", "on"} {
				t.Run("crc-"+crc, func(t *testing.T) {
					g := client(t, series)
					s := serve(t, g, exportDir(t), "--crc", crc)
					for _, proto := range []string{"rdma", "tcp"} {
						mount := s.mount(proto, "")
						t.Run("client-small-"+proto, func(t *testing.T) {
							if out := run(t, g, mount+"\n"+clientSmall); !strings.Contains(out, "hello from nfsrdmad") {
								t.Errorf("the guest read %q", out)
							}
						})
						t.Run("client-1mb-"+proto, func(t *testing.T) { run(t, g, mount+"\n"+client1MB) })
					}
					quiet(t, g)
				})
			}
		})
	}
}
