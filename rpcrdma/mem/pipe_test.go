// Pipes: how many there are, what becomes of what is in them, and that none stays open for nothing.

package mem

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// open is how many pipes there are, and how many of them are free.
func open() (all, free int) {
	freePipes.mu.Lock()
	defer freePipes.mu.Unlock()
	return freePipes.open, len(freePipes.list)
}

// source is an open file with content.
func source(t *testing.T, content []byte) int {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return int(f.Fd())
}

func TestPipeGivesWhatItWasFilledWith(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), pipeBytes/16+10)
	fd := source(t, content)
	for _, off := range []int{0, 1, 4095, 160} {
		p := GetPipe()
		if p == nil {
			t.Fatal("no pipe")
		}
		n := pipeBytes - 4096
		for p.Len() < n {
			if _, err := p.Fill(fd, int64(off+p.Len()), n-p.Len()); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, n)
		if err := p.ReadFull(got[:7]); err != nil || p.Len() != n-7 {
			t.Fatal(err, p.Len())
		}
		if err := p.ReadFull(got[7:]); err != nil || !bytes.Equal(got, content[off:off+n]) || p.Len() != 0 {
			t.Errorf("from %d: %v, or other bytes; %d are left", off, err, p.Len())
		}
		if err := p.ReadFull(got[:1]); err != io.ErrUnexpectedEOF {
			t.Errorf("an empty pipe: %v", err)
		}
		p.Put()
	}
	p := GetPipe()
	defer p.Put()
	if n, err := p.Fill(fd, int64(len(content)), 10); n != 0 || err != nil {
		t.Errorf("at the end of the file: %d, %v", n, err)
	}
}

func TestPipeFits(t *testing.T) {
	page := uint64(os.Getpagesize())
	for _, row := range []struct {
		off  uint64
		n    int
		want bool
	}{{0, pipeBytes, true}, {page, pipeBytes, true}, {1, pipeBytes, false}, {1, pipeBytes - 1, true}, {page - 1, pipeBytes - int(page) + 1, true},
		{page - 1, pipeBytes - int(page) + 2, false}, {0, pipeBytes + 1, false}, {0, 0, false}, {1<<63 - 1, 1 << 16, true}} {
		if got := PipeFits(row.off, row.n); got != row.want {
			t.Errorf("%d bytes at %d: %v", row.n, row.off, got)
		}
	}
}

// TestPipesAreBounded: there is none beyond the bound, a used one is not taken for an empty one, and
// those that nobody uses are closed.
func TestPipesAreBounded(t *testing.T) {
	fd := source(t, make([]byte, 100))
	var list []*Pipe
	for p := GetPipe(); p != nil; p = GetPipe() {
		if list = append(list, p); len(list) > pipeLimit() {
			t.Fatal("more pipes than there may be")
		}
	}
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil || uint64(len(list)) > lim.Cur/32 {
		t.Errorf("%d pipes of %d descriptors, %v", len(list), lim.Cur, err)
	}
	before, _ := open()
	if _, err := list[0].Fill(fd, 0, 100); err != nil {
		t.Fatal(err)
	}
	r := list[0].r
	list[0].Put()
	if all, _ := open(); all != before-1 {
		t.Errorf("%d pipes, %d before one went with bytes in it", all, before)
	}
	if _, err := unix.FcntlInt(uintptr(r), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("a pipe with bytes left in it is still open: %v", err)
	}
	for _, p := range list[1:] {
		p.Put()
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(pipeIdle / 4) {
		all, free := open()
		if all == 0 && free == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d pipes, %d of them free, stay open", all, free)
		}
	}
}
