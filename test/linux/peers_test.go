// Linux against Linux: shows that the guests themselves work, so that a failure elsewhere
// is ours.

package linux

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/wire"
)

// clientSmall lists a mounted directory and reads a small file.
const clientSmall = `ls -la /mnt && cat /mnt/hello.txt && umount /mnt`

// client1MB writes 1 MB, drops what the guest has cached, reads and compares.
const client1MB = `
dd if=/dev/urandom of=/tmp/r bs=64k count=16 2>/dev/null
dd if=/tmp/r of=/mnt/one.bin bs=1M conv=fsync 2>/dev/null || exit 1
drop_caches
cmp /tmp/r /mnt/one.bin || exit 1
rm /tmp/r
umount /mnt`

func TestLinuxMountsLinux(t *testing.T) {
	enter(t, "6.1")
	s := knfsd(t, "6.1", guest.Fixed, wire.Want{})
	g := client(t, "6.1")
	mount := mountCommand("rdma", s.RDMA, s.Mount, "")
	if out := run(t, g, mount+"\n"+clientSmall); !strings.Contains(out, "hello from knfsd") {
		t.Errorf("the guest read %q", out)
	}
	run(t, g, mount+"\n"+client1MB)
	run(t, g, mountCommand("tcp", s.TCP, s.Mount, "")+"\n"+clientSmall)
}

// exportDir is a directory that our server can export, with one known file in it.
func exportDir(t *testing.T) string { return prepareExport(t, t.TempDir()) }

// memoryDir is exportDir in memory, where there is room for it: syncs cost nothing there.
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
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "hello.txt"), []byte("hello from nfsrdmad\n"))
	return dir
}

// What must work before anything else is worth a look. Over RDMA the wire is checked.
func TestLinuxMountsUs(t *testing.T) {
	t.Parallel()
	for _, series := range []string{"6.1", "6.12"} {
		t.Run(series, func(t *testing.T) {
			enter(t, series)
			for _, crc := range []string{"auto", "on"} {
				t.Run("crc-"+crc, func(t *testing.T) {
					s := serve(t, exportDir(t), "--crc", crc)
					g := client(t, series)
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
