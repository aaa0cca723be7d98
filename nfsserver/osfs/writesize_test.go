// How many bytes one system call writes.

package osfs

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

// On a local file system one call writes a piece. If each call waits for the disk, or the file
// system may be on a network, one call writes everything.
func TestMostAtOnce(t *testing.T) {
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root", "mount")
	for options, want := range map[string]int{"rw": writePiece, "sync": math.MaxInt} {
		dir := filepath.Join(t.TempDir(), "m")
		mountOn(t, dir, "-t", "tmpfs", "-o", options, "tmpfs")
		f := newFS(t, dir, Options{})
		if !f.info.Quick {
			t.Fatalf("%s: a tmpfs is not quick", options)
		}
		if f.maxWriteSize != want {
			t.Errorf("%s: %d bytes, want %d", options, f.maxWriteSize, want)
		}
		f.info.Quick = false
		if n := f.maxWrite(); n != math.MaxInt {
			t.Errorf("%s, not quick: %d bytes", options, n)
		}
	}
}
