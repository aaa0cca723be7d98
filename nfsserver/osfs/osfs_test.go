// An osfs meets the contract of an FS, on the file systems of this machine, with both kinds of
// handles.

package osfs

import (
	"os"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/fstest"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// me is the user that makes the calls.
var me = nfsserver.Self()

// places returns directories on different file systems.
func places(t *testing.T) map[string]string {
	p := map[string]string{"tmp": os.TempDir()}
	if _, err := os.Stat("/dev/shm"); err == nil {
		p["shm"] = "/dev/shm"
	}
	return p
}

// tempDir returns a new directory on the file system of base.
func tempDir(t *testing.T, base string) string {
	t.Helper()
	dir, err := os.MkdirTemp(base, "osfs-test-")
	must.Succeed(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newFS(t *testing.T, dir string, o Options) *FS {
	t.Helper()
	f, err := New(dir, o)
	must.Succeed(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestFS(t *testing.T) {
	for name, base := range places(t) {
		kinds := map[string]Options{"kernel": {}}
		if name == "shm" || len(places(t)) == 1 {
			kinds["inode"], kinds["small cache"] = Options{noKernelHandles: true}, Options{CacheFiles: 1}
		}
		for kind, o := range kinds {
			t.Run(name+"/"+kind, func(t *testing.T) {
				fstest.Run(t, func(t *testing.T) nfsserver.FS { return newFS(t, tempDir(t, base), o) })
			})
		}
	}
}
