// Exports files for directories with mounts inside: hidden, nohide, crossmnt, and mounts with rules
// of their own.

package program

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestExportsOnMounts: a file system mounted in an export is also exported itself. It can be
// entered through the export above if that export has crossmnt, or if its own has nohide. Its own
// rules apply inside. Otherwise the covered directory is visible. The file system's own export name
// always works.
func TestExportsOnMounts(t *testing.T) {
	if !machine.Apart(t) { // the rest needs a mount namespace of its own
		return
	}
	dir := t.TempDir()
	in := filepath.Join(dir, "a", "in")
	must.Succeed(t, os.MkdirAll(in, 0o777))
	put(t, filepath.Join(in, "under"), "")
	must.Succeed(t, syscall.Mount("tmpfs", in, "tmpfs", 0, "size=4m,mode=777"))
	t.Cleanup(func() { _ = syscall.Unmount(in, syscall.MNT_DETACH) })
	put(t, filepath.Join(in, "inside"), "")
	const rules = "%[1]s *(rw,insecure,no_root_squash%[2]s)\n%[1]s/a/in *(ro,insecure,no_root_squash%[3]s)\n"
	file, socket := filepath.Join(t.TempDir(), "exports"), filepath.Join(t.TempDir(), "control")
	put(t, file, fmt.Sprintf(rules, dir, "", ""))
	defer serveArgs(t, "serve", "--addr", "127.0.0.1", "--rdma", "iwarp", "--exports", file, "--control", socket, "--state-dir", filepath.Join(t.TempDir(), "state"), "--rpcbind", "off", "--log-level", "error")()
	awaitPort(t, "127.0.0.1:2049")
	awaitControl(t, socket)
	for _, c := range []struct {
		name, up, down string
		enters         bool
	}{{"hidden", "", "", false}, {"nohide", "", ",nohide", true}, {"crossmnt", ",crossmnt", "", true}, {"hidden again", "", "", false}} {
		t.Run(c.name, func(t *testing.T) {
			put(t, file, fmt.Sprintf(rules, dir, c.up, c.down))
			if out, err := run(t.Context(), "reload", "--control", socket); err != nil {
				t.Fatal(out, err)
			}
			for name, o := range map[string]nfsclient.Options{"tcp": {Transport: nfsclient.TCP}, "rdma": {}} {
				addr := map[string]string{"tcp": "127.0.0.1:2049", "rdma": "127.0.0.1:20049"}[name]
				tree := mounted(t, addr, dir, o)
				has := "under"
				if c.enters {
					has = "inside"
				}
				if list, err := tree.ReadDir(t.Context(), "a/in"); err != nil || len(list) != 1 || list[0].Name() != has {
					t.Errorf("over %s there is %v, %v, not %s", name, list, err, has)
				}
				if err := tree.WriteFile(t.Context(), "a/in/"+has, []byte("data"), 0o644); errors.Is(err, syscall.EROFS) != c.enters || !c.enters && err != nil {
					t.Errorf("over %s, writing: %v", name, err)
				}
				byName := mounted(t, addr, in, o)
				if _, err := byName.Stat(t.Context(), "inside"); err != nil {
					t.Errorf("over %s, by its own name: %v", name, err)
				}
				up, err := tree.Stat(t.Context(), ".")
				if err != nil {
					t.Fatalf("Stat: %v", err)
				}
				down, err := tree.Stat(t.Context(), "a/in")
				if err != nil {
					t.Fatalf("Stat: %v", err)
				}
				if own := up.Attr.Fsid != down.Attr.Fsid; own != c.enters {
					t.Errorf("over %s it has an fsid of its own: %v", name, own)
				}
			}
		})
	}
}
