// Data through a mount: wrong bytes are detected wherever they originate, and errors name the
// measurement.

package bench

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
)

// The stamps reveal a mount that shows other bytes than the server, during the timed reads.
func TestWrongDataOfTheMountIsFound(t *testing.T) {
	m := newMountTest(t)
	m.modes[MountOurs] = showsOther
	if r, err := m.measure(t); err == nil || err.Error() != "READ 1 MiB in order: wrong data at offset 0" || len(r.Data) != 0 {
		t.Errorf("%v, %d rows", err, len(r.Data))
	}
}

// Wrong data from a server is detected: a stamp by the reading test, any other byte by the
// verification before and after the tests.
func TestWrongDataOfTheServerIsFound(t *testing.T) {
	const size = 2 * seqBlock
	for _, c := range []struct {
		name, want string
		at         uint64 // offset of the changed byte
		from       int64  // number of the first changed read of that byte
	}{
		{"a stamp, as it is laid out", "verify: wrong data at offset 1048576", seqBlock + 1, 1},
		{"a byte, as it is laid out", "verify: wrong data in the block at offset 1048576", seqBlock + 100, 1},
		{"a stamp, in the test", "READ 1 MiB in order: wrong data at offset 8192", 2*patternBlock + 7, 2},
		{"a byte, after the tests", "verify: wrong data in the block at offset 1044480", seqBlock - 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMountTest(t)
			m.opts.Size = size
			var reads atomic.Int64
			m.tree.onRead(func(p []byte, off uint64) {
				if c.at >= off && c.at < off+uint64(len(p)) && reads.Add(1) >= c.from {
					p[c.at-off] ^= 4
				}
			})
			if _, err := m.measure(t); err == nil || err.Error() != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// A server error ends the measurement with the row's name, and the server is cleaned up.
func TestErrorsOfTheServerNameTheRow(t *testing.T) {
	for _, c := range []struct {
		allowed int64 // number of successful writes of 1 MiB; the layout needs two
		want    string
	}{
		{0, "lay out the file: "},
		{1, "lay out the file: "},
		{2, "WRITE 1 MiB in order, fsync: "},
	} {
		m := newMountTest(t)
		var writes atomic.Int64
		m.tree.onWrite(func(p []byte, _ uint64) error {
			if len(p) > 0 && writes.Add(1) > c.allowed {
				return syscall.ENOSPC
			}
			return nil
		})
		if _, err := m.measure(t); !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("after %d writes: %v, want %s", c.allowed, err, c.want)
		}
	}
}

// A lost connection ends the measurement with that error rather than with one about wrong data.
// Mounts are unmounted. The server's files stay, and the error mentions them.
func TestMountSurvivesNoLostServer(t *testing.T) {
	m := newMountTest(t)
	var once sync.Once
	var reads atomic.Int64
	m.tree.onRead(func([]byte, uint64) {
		if reads.Add(1) == 3 { // the first after the verification of the layout
			once.Do(func() { m.rig.FS.Client().Close() })
		}
	})
	err := Mount(t.Context(), m.rig, m.opts, new(MountReport))
	if !errors.Is(err, transport.ErrClosed) || !strings.HasPrefix(err.Error(), "READ 1 MiB in order: ") {
		t.Errorf("%v", err)
	}
	if got := m.mounts(t); strings.Join(got, " ") != "+null +mount -mount -null" {
		t.Errorf("%q", got)
	}
	if names, err := os.ReadDir(m.rig.Scratch); err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
}

// readAll reads every block once, and an error of the check ends it.
func TestPassReadsEveryBlockOnce(t *testing.T) {
	const blocks = 6
	pat := newPattern(5)
	b := &mountRun{run: run{pat: pat, slots: slots(3)}, opts: MountOptions{Size: blocks * seqBlock}}
	for _, depth := range []int{1, 3} {
		f := &blockFile{pat: pat}
		if rate, err := b.readAll(t.Context(), f, route{depth: depth, check: pat.check}); err != nil || rate <= 0 {
			t.Errorf("depth %d: %v, %v MiB/s", depth, err, rate)
		}
		for i := range f.reads {
			if n := f.reads[i].Load(); n != 1 {
				t.Errorf("depth %d: block %d was read %d times", depth, i, n)
			}
		}
		bad := errors.New("bad")
		if _, err := b.readAll(t.Context(), f, route{depth: depth, check: func([]byte, int64) error { return bad }}); !errors.Is(err, bad) {
			t.Errorf("what the check found: %v", err)
		}
	}
}

// A blockFile has the pattern's content, and counts the reads of each block.
type blockFile struct {
	benchFile
	pat   *pattern
	reads [6]atomic.Int64
}

func (f *blockFile) ReadAt(p []byte, off int64) (int, error) {
	f.reads[off/seqBlock].Add(1)
	f.pat.fill(p, off)
	return len(p), nil
}

// Files whose pages cannot be dropped are not measured, because the figure would be the cache's.
func TestOpenUncached(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if _, err := openUncached(name, os.O_RDONLY); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that there is not: %v", err)
	}
	must.Succeed(t, os.WriteFile(name, []byte("content"), 0o600))
	f, err := openUncached(name, os.O_RDONLY)
	if err != nil {
		t.Fatalf("openUncached: %v", err)
	}
	defer f.Close()
	p := make([]byte, 7)
	if _, err := f.ReadAt(p, 0); err != nil || string(p) != "content" {
		t.Errorf("%q, %v", p, err)
	}
	if _, err := f.WriteAt(p, 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("written to what was opened to be read: %v", err)
	}
	pipe := filepath.Join(dir, "pipe")
	must.Succeed(t, unix.Mkfifo(pipe, 0o600))
	if f, err := openUncached(pipe, os.O_RDWR); !errors.Is(err, unix.ESPIPE) || f != nil {
		t.Errorf("a pipe: %v, %v", f, err)
	}
}

// touch reads one byte from each block of the null file system, and accepts any content.
func TestTouchLooksAtEachBlock(t *testing.T) {
	p := make([]byte, 3*patternBlock)
	p[0], p[1], p[patternBlock], p[2*patternBlock] = 1, 100, 2, 4
	before := touched.Load()
	if err := touch(p, 12345); err != nil || touched.Load()-before != 7 {
		t.Errorf("%v, a sum of %d", err, touched.Load()-before)
	}
}

// The local copy for comparisons with the page cache has all bytes of the server's file. copyHere
// replaces no existing file.
func TestCopyHere(t *testing.T) {
	pat := newPattern(8)
	b := &mountRun{run: run{pat: pat, slots: []*slot{newSlot(pat)}}, opts: MountOptions{Size: 2 * seqBlock}}
	name := filepath.Join(t.TempDir(), "copy")
	if err := b.copyHere(t.Context(), name); err != nil {
		t.Fatalf("copyHere: %v", err)
	}
	content, err := os.ReadFile(name)
	if err != nil || len(content) != 2*seqBlock || pat.check(content, 0) != nil {
		t.Errorf("%d bytes, %v, %v", len(content), err, pat.check(content, 0))
	}
	if err := b.copyHere(t.Context(), name); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another file: %v", err)
	}
}

func TestMiBs(t *testing.T) {
	if got := mibs(&measured{bytes: 512 << 20, elapsed: 2 * time.Second}); got != 256 {
		t.Errorf("%v MiB/s, want 256", got)
	}
}
