// Linux against Linux: shows that the guests themselves work, so that a failure elsewhere
// is ours.

package linux

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
)

// smallScript mounts nothing itself: it lists, reads, and unmounts.
const smallScript = `ls -la /mnt && cat /mnt/hello.txt && umount /mnt`

// megabyteScript writes 1 MB, drops what the guest has cached, reads and compares.
const megabyteScript = `
dd if=/dev/urandom of=/tmp/r bs=64k count=16 2>/dev/null
dd if=/tmp/r of=/mnt/one.bin bs=1M conv=fsync 2>/dev/null || exit 1
drop_caches
cmp /tmp/r /mnt/one.bin || exit 1
rm /tmp/r
umount /mnt`

func TestLinuxMountsLinux(t *testing.T) {
	s := knfsd(t, "6.1", guest.Fixed)
	g := client(t, "6.1")
	mount := mountCommand("rdma", s.RDMA, s.Mount, "")
	if out := run(t, g, mount+"\n"+smallScript); !strings.Contains(out, "hello from knfsd") {
		t.Errorf("the guest read %q", out)
	}
	run(t, g, mount+"\n"+megabyteScript)
	run(t, g, mountCommand("tcp", s.TCP, s.Mount, "")+"\n"+smallScript)
}

// exportDir is a directory that our server can export, with one known file in it.
func exportDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "hello.txt"), []byte("hello from nfsrdmad\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLinuxMountsUs(t *testing.T) {
	for _, series := range []string{"6.1", "6.12"} {
		t.Run(series, func(t *testing.T) {
			kernel(t, series)
			for _, crc := range []string{"auto", "on"} {
				t.Run("crc-"+crc, func(t *testing.T) {
					s := serve(t, exportDir(t), "--crc", crc)
					g := client(t, series)
					for _, proto := range []string{"rdma", "tcp"} {
						mount := s.mount(proto, "")
						if out := run(t, g, mount+"\n"+smallScript); !strings.Contains(out, "hello from nfsrdmad") {
							t.Errorf("over %s the guest read %q", proto, out)
						}
						run(t, g, mount+"\n"+megabyteScript)
					}
					quiet(t, g)
				})
			}
		})
	}
}
