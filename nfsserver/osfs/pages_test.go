// Reading by pages: what ReadAt reads, to whom it may be read, and when only ReadAt is to be had.

package osfs

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"golang.org/x/sys/unix"
)

// pipe is an empty one that goes with the test.
func pipe(t *testing.T) *mem.Pipe {
	t.Helper()
	p := mem.GetPipe()
	if p == nil {
		t.Fatal("no pipe")
	}
	t.Cleanup(p.Put)
	return p
}

func TestReadPages(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	content := make([]byte, 300_001)
	rand.NewChaCha8([32]byte{3}).Read(content)
	name := filepath.Join(dir, "f")
	must(t, os.WriteFile(name, content, 0o600))
	f := newFS(t, dir, Options{})
	f.info.Quick = true // wherever the temporary directory lies
	self := nfsserver.Self()
	r, _, err := f.Lookup(self, f.Root(), "f")
	must(t, err)
	for _, row := range []struct {
		off  uint64
		n    int
		want int
	}{{0, 1 << 18, 1 << 18}, {5, 1 << 18, 1 << 18}, {200_000, 1 << 18, 100_001}, {300_001, 10, 0}, {1 << 40, 10, 0}, {math.MaxInt64, 10, 0}, {math.MaxUint64, 10, 0}} {
		p := pipe(t)
		n, err := f.ReadPages(self, r, p, row.n, row.off)
		got := make([]byte, p.Len())
		if err != nil || n != row.want || n != len(got) || p.ReadFull(got) != nil {
			t.Fatalf("%d bytes at %d: %d, %v, %d in the pipe", row.n, row.off, n, err, len(got))
		}
		if n > 0 && !bytes.Equal(got, content[row.off:][:n]) {
			t.Errorf("%d bytes at %d: other bytes", row.n, row.off)
		}
	}
	if n, err := f.ReadPages(self, f.Root(), pipe(t), 10, 0); n != 0 || err != unix.EISDIR {
		t.Errorf("a directory: %d, %v", n, err)
	}
	if _, err := f.ReadPages(self, r, pipe(t), 4<<20, 0); err != nil {
		t.Errorf("more than a pipe holds, of a file that fits: %v", err)
	}
	must(t, os.Truncate(name, 4<<20))
	if _, err := f.ReadPages(self, r, pipe(t), 4<<20, 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("more than a pipe holds: %v", err)
	}
	if self.UID == 0 {
		p := pipe(t)
		if n, err := f.ReadPages(nfsserver.Cred{UID: 1000, GID: 1000}, r, p, 10, 0); n != 0 || err != unix.EACCES || p.Len() != 0 {
			t.Errorf("of a file that the caller MUST NOT read: %d bytes, %v", n, err)
		}
	}
	f.info.Quick = false
	if _, err := f.ReadPages(self, r, pipe(t), 10, 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("of a file system that is another's: %v", err)
	}
}
