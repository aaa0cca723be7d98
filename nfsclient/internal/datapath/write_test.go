// Write-behind: how data is merged, bounded, ordered and committed.

package datapath

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// rig returns an engine with one open file.
func rig(t *testing.T, m *model, cfg Config) (*Engine, *File, *Handle) {
	e := New(cfg, m)
	f := e.File(handleOf(1))
	h := f.Open()
	t.Cleanup(func() {
		_ = h.Close()
		f.Release()
		if err := e.Close(bg); err != nil {
			t.Errorf("close: %v", err)
		}
		checkEmpty(t, e)
	})
	return e, f, h
}

// checkEmpty fails the test if a closed Engine has data, memory or files left.
func checkEmpty(t *testing.T, e *Engine) {
	t.Helper()
	s := e.Stats()
	got := [6]int64{s.Dirty, s.InFlight, s.Unstable, s.WriteMemory, s.ReadMemory, int64(len(e.files))}
	if got != [6]int64{} {
		t.Errorf("dirty, in flight, unstable, write memory, read memory and files left: %v, want none", got)
	}
}

// Small writes in any order are sent as full WRITEs.
func TestSmallWritesAreGathered(t *testing.T) {
	const size, step, wsize = 256 << 10, 4 << 10, 64 << 10
	content := pattern(size)
	orders := map[string]func(i int) int{
		"forward":    func(i int) int { return i },
		"backward":   func(i int) int { return size/step - 1 - i },
		"interlaced": func(i int) int { return i*2%(size/step) + i*2/(size/step) },
	}
	for name, at := range orders {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, 1)
			e, _, h := rig(t, m, Config{WriteSize: wsize})
			for i := range size / step {
				off := at(i) * step
				mustWrite(t, h, content[off:off+step], int64(off))
				// this write completes a full WRITE, which is sent
				if name == "backward" && off%wsize == wsize-step {
					synctest.Wait()
				}
			}
			if err := h.Sync(bg); err != nil {
				t.Fatalf("sync: %v", err)
			}
			if !bytes.Equal(m.content(handleOf(1)), content) {
				t.Error("the content is not there")
			}
			least, most := 0, 2*size/wsize
			if name == "forward" {
				least, most = size/wsize, size/wsize
			}
			if m.writes < least || m.writes > most {
				t.Errorf("%s: %d WRITEs, want %d to %d", name, m.writes, least, most)
			}
			if m.commits != 1 || e.Stats().Writes != int64(m.writes) {
				t.Errorf("%s: %d COMMITs, %+v", name, m.commits, e.Stats())
			}
		})
	}
}

// A small file is one WRITE, and no COMMIT.
func TestSmallFileIsOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		_, _, h := rig(t, m, Config{})
		mustWrite(t, h, []byte("small "), 0)
		mustWrite(t, h, []byte("file"), 6)
		if err := h.Flush(bg); err != nil {
			t.Fatalf("flush: %v", err)
		}
		if got, want := [3]int{m.writes, m.how[nfs3.FileSync], m.commits}, [3]int{1, 1, 0}; got != want {
			t.Errorf("WRITEs, stable ones and COMMITs: got %v, want %v", got, want)
		}
		if got := string(m.content(handleOf(1))); got != "small file" {
			t.Errorf("content: got %q, want %q", got, "small file")
		}
		if err := h.Flush(bg); err != nil || m.writes != 1 {
			t.Errorf("a second flush: %v, %d WRITEs", err, m.writes)
		}
	})
}

// Many WRITEs of one file are in flight at once.
func TestManyWritesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		m.delay = 10 * time.Millisecond
		_, _, h := rig(t, m, Config{WriteSize: 4096})
		mustWrite(t, h, pattern(64*4096), 0)
		if err := h.Sync(bg); err != nil {
			t.Fatalf("sync: %v", err)
		}
		if m.mostInFlight != maxOps {
			t.Errorf("%d at once", m.mostInFlight)
		}
	})
}

// Data written with different credentials is sent in different WRITEs.
func TestCredsAreNotMixed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &credModel{model: newModel(t, 1), by: map[uint64]Cred{}}
		e := New(Config{}, m)
		f := e.File(handleOf(1))
		h := f.Open()
		for i := range 8 {
			if _, err := h.Write(bg, i%2, []byte{byte(i)}, int64(i), nfs3.Unstable); err != nil {
				t.Fatalf("write: %v", err)
			}
		}
		if err := errors.Join(h.Flush(bg), h.Close()); err != nil {
			t.Fatalf("flush and close: %v", err)
		}
		for off, cred := range m.by {
			if cred != int(off)%2 {
				t.Errorf("byte %d was written by %v", off, cred)
			}
		}
		if len(m.by) != 8 {
			t.Errorf("%d WRITEs", len(m.by))
		}
		f.Release()
		_ = e.Close(bg)
	})
}

type credModel struct {
	*model
	by map[uint64]Cred
}

func (m *credModel) Write(ctx context.Context, fh nfs3.FH, cred Cred, p []byte, off uint64, how nfs3.StableHow) (int, nfs3.StableHow, nfs3.Verf, error) {
	m.mu.Lock()
	m.by[off] = cred
	m.mu.Unlock()
	return m.model.Write(ctx, fh, cred, p, off, how)
}

// Memory always stays within both bounds, and writers make progress.
func TestBoundsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		m.delay = 5 * time.Millisecond
		cfg := Config{WriteSize: 16 << 10, DirtyFile: 100 << 10, DirtyMount: 300 << 10}
		e := New(cfg, m)
		var files []*File
		m.fail = func(string, nfs3.FH, uint64, int) error {
			if held := e.written.used(); held > cfg.DirtyMount {
				t.Errorf("%d bytes are held", held)
			}
			for _, f := range files {
				if held := e.written.usedBy(&f.written); held > cfg.DirtyFile {
					t.Errorf("%d bytes are held by one file", held)
				}
			}
			return nil
		}
		content := pattern(400 << 10)
		for i := range 6 {
			files = append(files, e.File(handleOf(byte(i))))
		}
		var all sync.WaitGroup
		for i, f := range files {
			all.Go(func() {
				h := f.Open()
				step := 1000 * (i + 1)
				for off := 0; off < len(content); off += step {
					mustWrite(t, h, content[off:min(off+step, len(content))], int64(off))
				}
				_ = h.Close()
				f.Release()
			})
		}
		all.Wait()
		if err := e.Close(bg); err != nil {
			t.Errorf("close: %v", err)
		}
		for i := range files {
			if !bytes.Equal(m.content(handleOf(byte(i))), content) {
				t.Errorf("file %d is not there", i)
			}
		}
		if s := e.Stats(); s.Waits == 0 || s.WriteMemory != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Files without answers to their WRITEs do not stop other writers, although they take their full
// share. Writers that wait in these Files return when their context ends.
func TestStuckFilesDoNotStarveOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		e := New(Config{WriteSize: 4096, DirtyFile: 1 << 20, DirtyMount: 256 << 10}, m)
		ctx, cancel := context.WithCancel(bg)
		var all sync.WaitGroup
		var releases []func()
		for i := range byte(3) {
			releases = append(releases, m.hang(handleOf(10+i)))
			all.Go(func() {
				f := e.File(handleOf(10 + i))
				h := f.Open()
				n, err := h.Write(ctx, nil, pattern(1<<20), 0, nfs3.Unstable)
				if n == 0 || n == 1<<20 {
					t.Errorf("write to a hanging file: %d bytes, want a part of 1 MiB", n)
				}
				if !errors.Is(err, context.Canceled) {
					t.Errorf("write to a hanging file: got %v, want %v", err, context.Canceled)
				}
				short, stop := context.WithTimeout(bg, time.Second)
				if err := h.Sync(short); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("sync: %v", err)
				}
				stop()
				_ = h.Close()
				f.Release()
			})
		}
		synctest.Wait()
		content := pattern(1 << 20)
		f := e.File(handleOf(1))
		h := f.Open()
		start := time.Now()
		mustWrite(t, h, content, 0)
		if err := errors.Join(h.Sync(bg), h.Close()); err != nil || !bytes.Equal(m.content(handleOf(1)), content) {
			t.Errorf("the other file: %v", err)
		}
		if d := time.Since(start); d > 0 {
			t.Errorf("it had to wait for %v", d)
		}
		cancel()
		all.Wait()
		for _, release := range releases {
			release()
		}
		if err := e.Sync(bg); err != nil {
			t.Errorf("sync: %v", err)
		}
		for i := range byte(3) { // the context has ended the writers' wait, but the data stays
			got := m.content(handleOf(10 + i))
			if len(got) == 0 || !bytes.Equal(got, content[:len(got)]) {
				t.Errorf("%d bytes of a file that was stuck", len(got))
			}
		}
		f.Release()
		if err := e.Close(bg); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// Idle files release memory at once if other files need it, whether their data is unsent or
// uncommitted.
func TestIdleFilesGiveMemoryBack(t *testing.T) {
	for _, size := range []int{4096, 4000} {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, 1)
			e := New(Config{WriteSize: 4096, DirtyFile: 1 << 20, DirtyMount: 64 << 10, FlushAfter: time.Hour}, m)
			var idle []*Handle
			for i := range 16 { // these writes take all memory
				f := e.File(handleOf(byte(10 + i)))
				idle = append(idle, f.Open())
				f.Release()
				mustWrite(t, idle[i], pattern(size), 0)
			}
			synctest.Wait()
			f := e.File(handleOf(1))
			h := f.Open()
			start := time.Now()
			mustWrite(t, h, pattern(256<<10), 0)
			if d := time.Since(start); d > 0 {
				t.Errorf("the write took %v", d)
			}
			for _, h := range append(idle, h) {
				_ = h.Close()
			}
			f.Release()
			if err := e.Close(bg); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

// With Config.Sync a write is stable when it returns.
func TestSyncMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		m.delay = time.Millisecond
		_, _, h := rig(t, m, Config{WriteSize: 4096, Sync: true})
		content := pattern(10000)
		mustWrite(t, h, content, 0)
		if !bytes.Equal(m.content(handleOf(1)), content) || m.commits != 0 {
			t.Errorf("%d bytes are stable, %d COMMITs", len(m.content(handleOf(1))), m.commits)
		}
	})
}

// A Sync makes data stable although it was overwritten meanwhile, has no extent left, and was lost
// by the server.
func TestSyncCoversOverwrittenData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		_, _, h := rig(t, m, Config{WriteSize: 4096, FlushAfter: time.Hour})
		old, newer := bytes.Repeat([]byte{1}, 8192), bytes.Repeat([]byte{2}, 8192)
		mustWrite(t, h, old, 0)
		synctest.Wait() // both WRITEs are answered
		release := m.hang(handleOf(1))
		done := make(chan error, 1)
		go func() { done <- h.Sync(bg) }() // the COMMIT of this Sync waits
		synctest.Wait()
		mustWrite(t, h, newer[:100], 0)
		mustWrite(t, h, newer[:100], 4096)
		m.restart()
		release()
		if err := <-done; err != nil {
			t.Fatalf("sync: %v", err)
		}
		got := m.content(handleOf(1))
		for _, at := range []int{0, 99, 4096, 4195} {
			if len(got) <= at || got[at] == 0 {
				t.Fatalf("byte %d of %d is neither the old nor the new", at, len(got))
			}
		}
	})
}

// A Sync waits for overwritten data whose WRITE is in flight, and for data that a truncation
// delays.
func TestSyncWaitsForWritesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		_, f, h := rig(t, m, Config{WriteSize: 4096, FlushAfter: time.Hour})
		release := m.hang(handleOf(1))
		mustWrite(t, h, pattern(4096), 0)
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- h.Sync(bg) }()
		synctest.Wait()
		mustWrite(t, h, pattern(4096), 0)
		f.mu.Lock()
		f.changed() // as if another WRITE had been answered
		f.mu.Unlock()
		synctest.Wait()
		if len(done) > 0 {
			t.Error("sync has returned, and the data is not at the server")
		}
		release()
		if err := <-done; err != nil || len(m.content(handleOf(1))) == 0 {
			t.Errorf("%v, %d bytes are stable", err, len(m.content(handleOf(1))))
		}

		mustWrite(t, h, []byte("x"), 100)
		err := f.Truncate(bg, 200, func(ctx context.Context) error {
			go func() { done <- h.Sync(bg) }()
			time.Sleep(time.Second)
			if len(done) > 0 {
				t.Error("sync has returned, and nothing can have been sent")
			}
			return m.truncate(ctx, handleOf(1), 200)
		})
		if err := errors.Join(err, <-done); err != nil {
			t.Errorf("truncate and sync: %v", err)
		}
	})
}

// Endless overwriting of the same bytes does not keep a Sync from returning.
func TestSyncEndsBesideAWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		m.delay = 5 * time.Millisecond
		_, f, h := rig(t, m, Config{WriteSize: 4096})
		stop := make(chan struct{})
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				w := f.Open()
				for {
					select {
					case <-stop:
						_ = w.Close()
						return
					case <-time.After(time.Millisecond):
						if _, err := w.Write(bg, i, pattern(4096), 0, nfs3.Unstable); err != nil {
							t.Errorf("write: %v", err)
						}
					}
				}
			})
		}
		for range 20 {
			start := time.Now()
			if err := h.Sync(bg); err != nil {
				t.Errorf("sync: %v", err)
			}
			if d := time.Since(start); d > 100*time.Millisecond {
				t.Errorf("a sync took %v", d)
			}
		}
		close(stop)
		all.Wait()
	})
}

// Unflushed data is sent and committed when it is old, and its memory released.
func TestOldDataIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		e, _, h := rig(t, m, Config{WriteSize: 4096, FlushAfter: time.Second})
		content := pattern(10000)
		mustWrite(t, h, content, 0)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !bytes.Equal(m.content(handleOf(1)), content) || e.Stats().WriteMemory != 0 {
			t.Errorf("%d bytes are stable, %+v", len(m.content(handleOf(1))), e.Stats())
		}
		if e.ticking.Load() {
			t.Error("the ticker goes on")
		}
	})
}

// A long write releases the memory of sent data in between, with few COMMITs.
func TestLongWriteCommitsNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		m.delay = time.Millisecond
		_, _, h := rig(t, m, Config{WriteSize: 4096, DirtyFile: 256 << 10, DirtyMount: 4 << 20, FlushAfter: time.Hour})
		for off := 0; off < 4<<20; off += 4096 {
			mustWrite(t, h, pattern(4096), int64(off))
		}
		if err := h.Sync(bg); err != nil {
			t.Errorf("sync: %v", err)
		}
		if m.commits < 8 || m.commits > 64 {
			t.Errorf("%d COMMITs, want 8 to 64", m.commits)
		}
		if m.writes != 1024 {
			t.Errorf("%d WRITEs, want 1024", m.writes)
		}
	})
}

// If Close cannot write everything in time, it calls Lost, and nothing waits or stays in memory.
func TestCloseWithoutServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		lost := 0
		e := New(Config{WriteSize: 4096, Lost: func(nfs3.FH, error) { lost++ }}, m)
		f := e.File(handleOf(1))
		h := f.Open()
		m.hang(handleOf(1))
		mustWrite(t, h, pattern(10000), 0)
		_ = h.Close()
		f.Release()
		other := e.File(handleOf(1)).Open()
		synced := make(chan error, 1)
		go func() { synced <- other.Sync(bg) }()
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		if err := e.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		if err := errors.Join(<-synced, other.Close()); !errors.Is(err, ErrClosed) {
			t.Errorf("the one who has it open was told %v", err)
		}
		if _, err := other.Write(bg, nil, []byte("x"), 0, nfs3.Unstable); !errors.Is(err, ErrClosed) {
			t.Errorf("write: %v", err)
		}
		if s := e.Stats(); s.WriteMemory != 0 || lost != 0 {
			t.Errorf("%+v, lost %d", s, lost)
		}
	})
}
