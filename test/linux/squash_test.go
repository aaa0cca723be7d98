// Root on a Linux client, at an export that squashes root, as exports do by default.

package linux

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// asSquashedRoot makes objects as the guest's root, and tries operations for root only.
const asSquashedRoot = `
echo text > /mnt/made-PROTO || exit 1
mkdir /mnt/dir-PROTO || exit 1
drop_caches
cat /mnt/secret 2>/dev/null && echo "read what is root's"
chown 1000:1000 /mnt/made-PROTO 2>/dev/null && echo "gave a file away"
chmod 4755 /mnt/hello.txt 2>/dev/null && echo "changed the mode of what is root's"
echo more >> /mnt/hello.txt 2>/dev/null && echo "wrote to what is root's"
rm /mnt/closed/inside 2>/dev/null && echo "removed what is root's"
ls -ln /mnt
umount /mnt`

// TestRootIsSquashed: files from a guest's root belong to the anonymous user, with its rights. The
// server's own processes, and qemu, which makes the guest's calls, run on the same machine as the
// same user.
func TestRootIsSquashed(t *testing.T) {
	t.Parallel()
	for _, series := range []string{"6.1", "6.12"} {
		t.Run(series, func(t *testing.T) { rootIsSquashed(t, series) })
	}
}

func rootIsSquashed(t *testing.T, series string) {
	enter(t, series)
	machine.NeedRoot(t, "a server without privileges acts as its own user for all")
	dir := exportDir(t)
	closed := filepath.Join(dir, "closed")
	must.Succeed(t, os.Mkdir(closed, 0o755))
	write(t, filepath.Join(closed, "inside"), []byte("kept"))
	write(t, filepath.Join(dir, "secret"), []byte("secret"))
	must.Succeed(t, os.Chmod(filepath.Join(dir, "secret"), 0o600))
	g := client(t, series)
	s := serve(t, g, dir, "--crc", "auto", "--no-root-squash=false")
	for _, proto := range []string{"rdma", "tcp"} {
		out := run(t, g, s.mount(proto, "")+strings.ReplaceAll(asSquashedRoot, "PROTO", proto))
		if strings.Contains(out, "root's") || strings.Contains(out, "gave") {
			t.Errorf("over %s:\n%s", proto, out)
		}
		for _, name := range []string{"made-" + proto, "dir-" + proto} {
			info, err := os.Lstat(filepath.Join(dir, name))
			if err != nil {
				t.Fatalf("os.Lstat: %v", err)
			}
			if st := info.Sys().(*syscall.Stat_t); st.Uid != 65534 || st.Gid != 65534 {
				t.Errorf("%s belongs to %d:%d", name, st.Uid, st.Gid)
			}
		}
	}
	sameFile(t, filepath.Join(dir, "hello.txt"), []byte("hello from nfsrdmad\n"))
	sameFile(t, filepath.Join(closed, "inside"), []byte("kept"))
	quiet(t, g)
}
