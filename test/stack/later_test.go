// READs deferred until their reply is sent: the same bytes as by a copy, and a reply with the
// file's state at that time.

package stack

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
)

// A laterFS counts deferred READs: all in later, those without a reply yet in held. Between a READ
// and its reply it calls the function in the field after.
type laterFS struct {
	nfsserver.FS
	later atomic.Int64
	held  atomic.Int64
	after atomic.Pointer[func()]
}

func (w *laterFS) ReadLater(c nfsserver.Cred, r nfsserver.Ref, n int, off uint64) (mem.DeferredRead, error) {
	l, err := w.FS.(nfsserver.LaterReader).ReadLater(c, r, n, off)
	if err != nil {
		return nil, err
	}
	w.later.Add(1)
	w.held.Add(1)
	if f := w.after.Load(); f != nil {
		(*f)()
	}
	return heldLater{l, w}, nil
}

// wantNoneHeld waits until every file is released, because the release comes after the reply.
func (w *laterFS) wantNoneHeld(t *testing.T) {
	t.Helper()
	eventually(t, "files are let go", func() error {
		if n := w.held.Load(); n != 0 {
			return fmt.Errorf("%d are held", n)
		}
		return nil
	})
}

type heldLater struct {
	mem.DeferredRead
	w *laterFS
}

func (h heldLater) Done() {
	h.w.held.Add(-1)
	h.DeferredRead.Done()
}

// serveLater serves dir. The test is skipped if the file system cannot report which bytes are in
// memory.
func serveLater(t *testing.T, dir string) (*rig.Server, *laterFS) {
	t.Helper()
	var w *laterFS
	s := rig.Start(t, rig.Config{Dir: dir, Device: rnic.DeviceConfig{CRC: rnic.CRCAuto}, Wrap: func(fs nfsserver.FS) nfsserver.FS {
		w = &laterFS{FS: fs}
		return w
	}})
	root := w.FS.Root()
	if _, err := w.FS.Getattr(root); err != nil { // takes root into use
		t.Fatalf("Getattr: %v", err)
	}
	if !w.FS.(nfsserver.NonBlocker).ReadsInUse(root) {
		machine.Skip(t, "of the temporary directory's file system it is not known what is in memory")
	}
	return s, w
}

// putRead writes a file that looks as if it had been read since. So a READ does not change its
// access time.
func putRead(t *testing.T, name string, content []byte) {
	t.Helper()
	now := time.Now()
	must.Succeed(t, os.WriteFile(name, content, 0o644), os.Chtimes(name, now.Add(time.Minute), now))
}

var overRDMA = map[string]nfsclient.Options{"CRC": {CRC: rnic.CRCOn}, "strict": {CRC: rnic.CRCStrict}, "no CRC": {CRC: rnic.CRCOff}}

func TestReadsMadeLaterAreTheFile(t *testing.T) {
	rig.NoLeaks(t)
	dir := t.TempDir()
	s, w := serveLater(t, dir)
	content := make([]byte, 3<<20+777)
	rand.NewChaCha8([32]byte{2}).Read(content)
	putRead(t, filepath.Join(dir, "f"), content)
	for way, opt := range overRDMA {
		t.Run(way, func(t *testing.T) {
			g, err := s.Mount(t, opt).Open(t.Context(), "f")
			if err != nil {
				t.Fatalf("Open: %v", err)
			}
			defer g.Close()
			wantReads(t, g, content, &w.later, []countedRead{{0, 1 << 20, 1}, {3, 1 << 20, 1}, {2 << 20, 1 << 20, 1}, {777, 512 << 10, 1}, {0, 31 << 10, 0},
				{int64(len(content)) - 70000, 1 << 20, 1}})
		})
	}
	w.wantNoneHeld(t)
}

// TestReadsAreLeftForLaterWhereThatPays: READs are not deferred for a client with markers, because
// its connection takes only bytes in memory.
func TestReadsAreLeftForLaterWhereThatPays(t *testing.T) {
	rig.NoLeaks(t)
	dir := t.TempDir()
	s, w := serveLater(t, dir)
	content := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{3}).Read(content)
	putRead(t, filepath.Join(dir, "f"), content)
	for way, opt := range map[string]nfsclient.Options{
		"markers":         {Device: iwarp.Open(rnic.DeviceConfig{Markers: true})},
		"markers, no CRC": {Device: iwarp.Open(rnic.DeviceConfig{Markers: true, CRC: rnic.CRCOff})},
	} {
		if b, err := s.Mount(t, opt).ReadFile(t.Context(), "f"); err != nil || !bytes.Equal(b, content) {
			t.Errorf("%s: %d bytes, or others, %v", way, len(b), err)
		}
		if n := w.later.Swap(0); n != 0 {
			t.Errorf("%s: %d READs later", way, n)
		}
	}
}

// TestFileCutBeforeItIsRead: the reply ends at the file's end at that time, and has no byte that
// was never in the file.
func TestFileCutBeforeItIsRead(t *testing.T) {
	rig.NoLeaks(t)
	dir := t.TempDir()
	s, w := serveLater(t, dir)
	name := filepath.Join(dir, "f")
	content := bytes.Repeat([]byte{0xa5}, 1<<20)
	for way, opt := range overRDMA {
		t.Run(way, func(t *testing.T) {
			fsys := s.Mount(t, opt)
			for _, size := range []int64{0, 5000, 512<<10 + 1} {
				got := make([]byte, len(content))
				var n int
				var err error
				// Try again if the READ was not deferred: the page cache, and its report, depend on
				// the machine.
				for try, before := 0, w.later.Load(); try < 5 && w.later.Load() == before; try++ {
					putRead(t, name, content)
					g, openErr := fsys.Open(t.Context(), "f")
					if openErr != nil {
						t.Fatal(openErr)
					}
					defer g.Close()
					cut := func() { os.Truncate(name, size) }
					w.after.Store(&cut)
					n, err = g.ReadAt(got, 0)
					w.after.Store(nil)
				}
				if int64(n) != size || err != io.EOF || !bytes.Equal(got[:n], content[:size]) {
					t.Errorf("cut to %d: %d bytes, %v, the file's: %v", size, n, err, bytes.Equal(got[:n], content[:n]))
				}
				if b, err := fsys.ReadFile(context.Background(), "f"); err != nil || !bytes.Equal(b, content[:size]) {
					t.Errorf("cut to %d, read again: %d bytes, %v", size, len(b), err)
				}
			}
		})
	}
	w.wantNoneHeld(t)
}
