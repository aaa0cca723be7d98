// Write errors: which Handles return one, and how often.

package datapath

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

var bg = context.Background()

// failOnce makes the next call of proc fail.
func (m *model) failOnce(proc string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = func(p string, _ nfs3.FH, _ uint64, _ int) error {
		if p != proc {
			return nil
		}
		m.fail = nil
		return err
	}
}

func mustWrite(t *testing.T, h *Handle, p []byte, off int64) {
	t.Helper()
	if n, err := h.Write(bg, nil, p, off, nfs3.Unstable); n != len(p) || err != nil {
		t.Fatalf("write of %d at %d: %d, %v", len(p), off, n, err)
	}
}

// pattern returns n bytes that identify their offset.
func pattern(n int) []byte {
	p := make([]byte, n)
	r := rand.New(rand.NewPCG(9, uint64(n)))
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

func TestEachHandleReturnsAnErrorOnce(t *testing.T) {
	for _, proc := range []string{"WRITE", "COMMIT"} {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, 1)
			e := New(Config{WriteSize: 4096}, m)
			f := e.File(handleOf(1))
			a, b, c, d := f.Open(), f.Open(), f.Open(), f.Open()
			m.failOnce(proc, syscall.EIO)
			mustWrite(t, a, pattern(8192), 0) // takes two WRITEs, so a COMMIT is needed
			if err := a.Sync(bg); err != syscall.EIO {
				t.Errorf("%s: sync: %v", proc, err)
			}
			if err := a.Sync(bg); err != nil {
				t.Errorf("%s: the second sync: %v", proc, err)
			}
			if n, err := b.Write(bg, nil, []byte("lost"), 100, nfs3.Unstable); n != 0 || err != syscall.EIO {
				t.Errorf("%s: write by another: %d, %v", proc, n, err)
			}
			mustWrite(t, b, []byte("kept"), 200)
			if err := c.Flush(bg); err != syscall.EIO {
				t.Errorf("%s: flush by a third: %v", proc, err)
			}
			if err := d.Close(); err != syscall.EIO {
				t.Errorf("%s: close by a fourth: %v", proc, err)
			}
			late := f.Open()
			for _, h := range []*Handle{a, b, c, late} {
				if err := errors.Join(h.Flush(bg), h.Close()); err != nil {
					t.Errorf("%s: returned twice: %v", proc, err)
				}
			}
			got := m.content(handleOf(1))
			if bytes.Contains(got, []byte("lost")) || !bytes.Equal(got[200:204], []byte("kept")) {
				t.Errorf("%s: a write that returned an error was accepted, or the next one was not", proc)
			}
			f.Release()
			if err := e.Close(bg); err != nil || len(e.files) > 0 {
				t.Errorf("close: %v, %d files", err, len(e.files))
			}
		})
	}
}

// Data that cannot be committed is dropped, not sent again forever.
func TestCommitThatFailsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		m.fail = func(proc string, _ nfs3.FH, _ uint64, _ int) error {
			if proc == "COMMIT" {
				return syscall.EIO
			}
			return nil
		}
		e, _, h := rig(t, m, Config{WriteSize: 4096})
		mustWrite(t, h, pattern(10000), 0)
		if err := h.Sync(bg); err != syscall.EIO {
			t.Errorf("sync: %v", err)
		}
		s := e.Stats()
		if got, want := [3]int64{s.WriteMemory, s.Rewritten, s.Errors}, [3]int64{0, 0, 1}; got != want {
			t.Errorf("memory, rewritten bytes and errors: got %v, want %v", got, want)
		}
	})
}

// An error that occurs while no Handle is open is returned to the next Open's Handle. If the File
// goes first, Config.Lost receives it.
func TestErrorWaitsForTheNextOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		var lost []error
		e := New(Config{Lost: func(_ nfs3.FH, err error) { lost = append(lost, err) }}, m)
		f := e.File(handleOf(1))
		for range 2 {
			m.failOnce("WRITE", syscall.EIO)
			h := f.Open()
			mustWrite(t, h, []byte("x"), 0)
			if err := h.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			synctest.Wait()
			if lost != nil {
				t.Errorf("%v is lost, though the File is there", lost)
			}
			h = f.Open()
			if err := h.Sync(bg); err != syscall.EIO {
				t.Errorf("the next open returns %v", err)
			}
			if err := errors.Join(h.Sync(bg), h.Close(), f.Open().Close()); err != nil {
				t.Errorf("returned twice: %v", err)
			}
		}
		m.failOnce("WRITE", syscall.EDQUOT)
		h := f.Open()
		mustWrite(t, h, []byte("x"), 0)
		_ = h.Close()
		f.Release()
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []error{syscall.EDQUOT}; !slices.Equal(lost, want) {
			t.Errorf("lost: got %v, want %v", lost, want)
		}
		if len(e.files) != 0 {
			t.Errorf("%d files are left, want none", len(e.files))
		}
		_ = e.Close(bg)
	})
}

// On a full server each write waits for its own WRITE, from the first error until a WRITE succeeds.
func TestFullServerFailsWritesAtOnce(t *testing.T) {
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, 1)
			m.delay = time.Millisecond
			e := New(Config{}, m)
			f := e.File(handleOf(1))
			h, other := f.Open(), f.Open()
			m.fail = func(string, nfs3.FH, uint64, int) error { return full }
			mustWrite(t, h, pattern(100), 0)
			if err := h.Sync(bg); err != full {
				t.Errorf("sync: %v", err)
			}
			if err := other.Sync(bg); err != full {
				t.Errorf("sync by another: %v", err)
			}
			for range 3 {
				if n, err := h.Write(bg, nil, pattern(100), 0, nfs3.Unstable); n != 0 || err != full {
					t.Errorf("write to a full server: %d, %v", n, err)
				}
			}
			m.fail = nil
			writes := m.writes
			mustWrite(t, h, pattern(100), 0)
			if m.writes != writes+1 {
				t.Error("the first write after it did not wait for the server")
			}
			mustWrite(t, h, pattern(100), 4096)
			if m.writes != writes+1 {
				t.Error("the second one did")
			}
			if err := other.Sync(bg); err != full {
				t.Errorf("the other returned %v", err)
			}
			if err := errors.Join(other.Sync(bg), h.Close(), other.Close()); err != nil {
				t.Errorf("returned twice: %v", err)
			}
			f.Release()
			if err := e.Close(bg); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

// A removed file reports no errors, and its data is not sent.
func TestDiscard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		e := New(Config{WriteSize: 4096, Lost: func(_ nfs3.FH, err error) { t.Errorf("lost: %v", err) }}, m)
		f := e.File(handleOf(1))
		h := f.Open()
		m.fail = func(string, nfs3.FH, uint64, int) error { return syscall.ESTALE }
		release := m.hang(handleOf(1))
		mustWrite(t, h, pattern(4096+100), 0) // the first WRITE is in flight
		f.Discard()
		release()
		time.Sleep(time.Minute)
		synctest.Wait()
		if m.writes != 1 || e.Stats().WriteMemory != 0 {
			t.Errorf("%d WRITEs, %+v", m.writes, e.Stats())
		}
		if err := h.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		f.Release()
		if err := e.Close(bg); err != nil || len(e.files) != 0 {
			t.Error(err, len(e.files))
		}
	})
}

// With occasional errors of WRITE and COMMIT, each Handle returns at most one error for each, and
// at least one in all. Without errors all data is there.
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(seeds / 4) {
		faults(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func faults(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 0))
		m := newModel(t, seed)
		m.delay = 3 * time.Millisecond
		errs := []error{syscall.EIO, syscall.ENOSPC, syscall.ESTALE}
		often := 3 + r.IntN(60)
		m.fail = func(proc string, _ nfs3.FH, _ uint64, _ int) error {
			if proc != "READ" && m.rand.IntN(often) == 0 {
				return errs[m.rand.IntN(len(errs))]
			}
			return nil
		}
		e := New(Config{WriteSize: 256, DirtyFile: 32 << 10, DirtyMount: 64 << 10, FlushAfter: 10 * time.Millisecond}, m)
		f := e.File(handleOf(1))
		var want [8192]byte
		returned := make([]int, 3)
		hs := []*Handle{f.Open(), f.Open(), f.Open()}
		var all sync.WaitGroup
		for i, h := range hs {
			all.Go(func() { // each Handle writes a third of the offsets
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				for range 60 {
					off := int64(i + 3*r.IntN(2700))
					b := byte(1 + r.IntN(255))
					if n, err := h.Write(bg, nil, []byte{b}, off, nfs3.Unstable); err != nil {
						returned[i]++
					} else if n == 1 {
						want[off] = b
					}
					if r.IntN(20) == 0 && h.Sync(bg) != nil {
						returned[i]++
					}
					time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
				}
			})
		}
		all.Wait()
		for i, h := range hs {
			if h.Flush(bg) != nil {
				returned[i]++
			}
		}
		for i, h := range hs { // Close returns an error that another Handle's flush has found
			if h.Close() != nil {
				returned[i]++
			}
			if least := min(m.failed, 1); returned[i] < least || returned[i] > m.failed {
				t.Errorf("handle %d returned %d errors, want %d to %d", i, returned[i], least, m.failed)
			}
		}
		f.Release()
		if err := e.Close(bg); err != nil {
			t.Errorf("close: %v", err)
		}
		if got := put(m.content(handleOf(1)), nil, int64(len(want))); m.failed == 0 && !bytes.Equal(got, want[:]) {
			t.Error("no error, and data is not there")
		}
		if s := e.Stats(); s.WriteMemory != 0 || s.Dirty+s.InFlight+s.Unstable != 0 {
			t.Errorf("left: %+v", s)
		}
	})
}
