// Read-ahead: only for sequential readers, how far it goes, and its end.

package datapath

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// mustRead reads n bytes and compares them with the file's content.
func mustRead(t *testing.T, h *Handle, content []byte, off, n int) {
	t.Helper()
	v, err := h.View(bg, nil, make([]byte, n), int64(off))
	defer v.Release()
	if err != nil {
		t.Fatalf("read of %d at %d: %v", n, off, err)
	}
	if want := content[min(off, len(content)):min(off+n, len(content))]; !bytes.Equal(v.Data, want) {
		t.Fatalf("read of %d at %d: got %d bytes, want %d with the right content", n, off, len(v.Data), len(want))
	}
	if want := off+n >= len(content); v.eof != want {
		t.Fatalf("read of %d at %d: end %v, want %v", n, off, v.eof, want)
	}
}

const readSize = 64 << 10

// readers has ways to read a file sequentially. swap exchanges neighboring steps.
var readers = map[string]struct{ step, handles, streams, swap int }{
	"one":                        {readSize, 1, 1, 0},
	"small steps":                {4000, 1, 1, 0},
	"large steps":                {3 * readSize, 1, 1, 0},
	"two in a file":              {readSize, 1, 2, 0},
	"three in a file":            {8 << 10, 1, 3, 0},
	"two handles":                {readSize, 2, 1, 0},
	"two handles, three in each": {16 << 10, 2, 3, 0},
	"out of order":               {16 << 10, 1, 1, 1},
}

// Sequential readers find most data read ahead, and no byte is read twice.
func TestSequentialReadersAreFound(t *testing.T) {
	const part = 2 << 20 // bytes for each reader
	for name, c := range readers {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, 1)
			e, f, h := rig(t, m, Config{ReadSize: readSize, ReadAhead: 512 << 10, ReadMemory: 32 << 20})
			content := pattern(part * c.handles * c.streams)
			m.show(handleOf(1), content)
			f.SetSize(int64(len(content)))
			hs := []*Handle{h}
			for range c.handles - 1 {
				hs = append(hs, f.Open())
			}
			steps := part / c.step
			for i := range steps {
				k := i
				if c.swap > 0 && i|1 < steps {
					k = i ^ 1
				}
				for j, h := range hs {
					for s := range c.streams {
						base := (j*c.streams + s) * part
						if i == steps-1 {
							mustRead(t, h, content, base+k*c.step, part-k*c.step)
						} else {
							mustRead(t, h, content, base+k*c.step, c.step)
						}
					}
				}
				synctest.Wait()
			}
			for _, h := range hs[1:] {
				_ = h.Close()
			}
			s := e.Stats()
			if m.readBytes > len(content)+len(content)/4 {
				t.Errorf("%s: %d bytes were read of %d, %+v", name, m.readBytes, len(content), s)
			}
			if s.ReadAheadHits < int64(len(content))*3/4 {
				t.Errorf("%s: %+v", name, s)
			}
		})
	}
}

// A sequential reader waits for few round trips.
func TestReadAheadHidesTheRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		_, f, h := rig(t, m, Config{ReadSize: readSize, ReadAhead: 1 << 20})
		content := pattern(8 << 20)
		m.show(handleOf(1), content)
		m.delay = 10 * time.Millisecond
		f.SetSize(int64(len(content)))
		start := time.Now()
		for off := 0; off < len(content); off += readSize {
			mustRead(t, h, content, off, readSize)
		}
		if d, alone := time.Since(start), time.Duration(len(content)/readSize)*m.delay; d > alone/5 {
			t.Errorf("it took %v, and one at a time it takes %v", d, alone)
		}
	})
}

// Random and backward reads fetch the requested bytes and no more.
func TestRandomReadersCauseNoReadAhead(t *testing.T) {
	const size, step = 64 << 20, 4096
	content := make([]byte, size)
	r := rand.New(rand.NewPCG(1, 1))
	ways := map[string]func(i int) int{
		"random":   func(int) int { return r.IntN(size/step-1) * step },
		"backward": func(i int) int { return size - (i+1)*step },
		"strides":  func(i int) int { return i * 10 * step % size },
	}
	for name, at := range ways {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, 1)
			e, f, h := rig(t, m, Config{ReadSize: readSize})
			m.show(handleOf(1), content)
			f.SetSize(size)
			for i := range 1000 {
				off := at(i)
				if off == 0 {
					off = step
				}
				mustRead(t, h, content, off, step)
			}
			if s := e.Stats(); s.ReadAheadFetched != 0 || m.readBytes != 1000*step {
				t.Errorf("%s: %d bytes were read, %+v", name, m.readBytes, s)
			}
		})
	}
}

// A lateModel delays the replies of READs from an offset on, after running them.
type lateModel struct {
	*model
	from uint64
	gate chan struct{}
}

func (m *lateModel) Read(ctx context.Context, fh nfs3.FH, cred Cred, p []byte, off uint64) (int, bool, error) {
	n, eof, err := m.model.Read(ctx, fh, cred, p, off)
	if off >= m.from {
		<-m.gate
	}
	return n, eof, err
}

// After a write or an invalidation, a reader never gets data from an earlier READ, whether the
// READ's reply came before or after.
func TestStaleReadAheadIsNotDelivered(t *testing.T) {
	for _, how := range []string{"write", "invalidate", "truncate"} {
		for _, late := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) { staleReadAhead(t, how, late) })
		}
	}
}

func staleReadAhead(t *testing.T, how string, late bool) {
	m := &lateModel{model: newModel(t, 1), from: 8192, gate: make(chan struct{})}
	if !late {
		close(m.gate)
	}
	e := New(Config{ReadSize: 4096, ReadAhead: 64 << 10}, m)
	f := e.File(handleOf(1))
	h := f.Open()
	content := bytes.Repeat([]byte{1}, 64<<10)
	m.set(handleOf(1), content)
	f.SetSize(64 << 10)
	mustRead(t, h, content, 0, 4096)
	mustRead(t, h, content, 4096, 4096)
	synctest.Wait()
	for i := range content {
		content[i] = 2
	}
	switch how {
	case "write":
		mustWrite(t, h, content, 0)
		if err := h.Sync(bg); err != nil { // the data is now clean: only the server has it
			t.Fatalf("sync: %v", err)
		}
	case "invalidate":
		m.set(handleOf(1), content)
		f.Invalidate()
	case "truncate":
		err := f.Truncate(bg, 64<<10, func(context.Context) error { m.set(handleOf(1), content); return nil })
		if err != nil {
			t.Fatalf("truncate: %v", err)
		}
	}
	if late {
		close(m.gate)
	}
	for off := 0; off < len(content); off += 4096 {
		mustRead(t, h, content, off, 4096)
	}
	synctest.Wait()
	if e.Stats().ReadAheadWaste == 0 {
		t.Error("nothing was thrown away: the test tests nothing")
	}
	_ = h.Close()
	f.Release()
	if err := e.Close(bg); err != nil || e.Stats().ReadMemory != 0 {
		t.Errorf("%v, %+v", err, e.Stats())
	}
}

// When a file has grown, the end that a READ found is void, whether its reply is in flight, has
// arrived, or is empty.
func TestEndIsForgottenWhenTheFileGrows(t *testing.T) {
	const size = 10000
	for name, known := range map[string]int64{"short piece": size + 1, "empty piece": 12288 + 100} {
		for _, hung := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, 1)
				_, f, h := rig(t, m, Config{ReadSize: 4096, ReadAhead: 64 << 10})
				content := pattern(size)
				if name == "empty piece" {
					content = pattern(12288)
				}
				m.set(handleOf(1), content)
				f.SetSize(known) // slightly wrong, so reading has to find the end
				release := func() {}
				if hung {
					release = m.hang(handleOf(1))
					go func() { mustRead(t, h, content, 0, 4096) }()
				} else {
					mustRead(t, h, content, 0, 4096)
				}
				synctest.Wait()
				if hung { // the READ has run, and its reply waits
					m.mu.Lock()
					delete(m.hung, handleOf(1))
					m.mu.Unlock()
				}
				content = put(content, []byte("far away"), 40000)
				mustWrite(t, h, content[40000:], 40000)
				if err := h.Sync(bg); err != nil {
					t.Fatalf("sync: %v", err)
				}
				release()
				synctest.Wait()
				for off := 4096; off < len(content); off += 4096 {
					mustRead(t, h, content, off, 4096)
				}
			})
		}
	}
}

// An error of read-ahead is dropped; the reader's own READ returns its own error.
func TestReadAheadErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		e, f, h := rig(t, m, Config{ReadSize: 4096, ReadAhead: 64 << 10})
		content := pattern(64 << 10)
		m.set(handleOf(1), content)
		f.SetSize(64 << 10)
		m.fail = func(_ string, _ nfs3.FH, off uint64, _ int) error {
			if off >= 16<<10 {
				return syscall.EIO
			}
			return nil
		}
		for off := 0; off < 16<<10; off += 4096 {
			mustRead(t, h, content, off, 4096)
		}
		if n, _, err := h.Read(bg, nil, make([]byte, 8192), 12<<10); n != 4096 || err != syscall.EIO {
			t.Errorf("read over the edge: %d, %v", n, err)
		}
		if _, err := h.View(bg, nil, make([]byte, 4096), 16<<10); err != syscall.EIO {
			t.Errorf("view: %v", err)
		}
		m.fail = nil
		for off := 16 << 10; off < 64<<10; off += 4096 {
			mustRead(t, h, content, off, 4096)
		}
		synctest.Wait()
		if s := e.Stats(); s.Errors != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Unread read-ahead is dropped when it is old, and at the last close.
func TestReadAheadIsForgotten(t *testing.T) {
	for _, how := range []string{"age", "close"} {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, 1)
			e := New(Config{ReadSize: 4096, ReadAhead: 64 << 10, FlushAfter: time.Second}, m)
			f := e.File(handleOf(1))
			h, other := f.Open(), f.Open()
			content := pattern(1 << 20)
			m.set(handleOf(1), content)
			f.SetSize(1 << 20)
			for off := 0; off < 64<<10; off += 4096 {
				mustRead(t, h, content, off, 4096)
			}
			synctest.Wait()
			_ = other.Close()
			if e.Stats().ReadMemory == 0 {
				t.Error("nothing was read ahead, or it was dropped too early")
			}
			if how == "age" {
				time.Sleep(3 * time.Second)
				synctest.Wait()
			} else {
				_ = h.Close()
			}
			if s := e.Stats(); s.ReadMemory != 0 || s.ReadAheadWaste == 0 {
				t.Errorf("%s: %+v", how, s)
			}
			if how == "age" {
				_ = h.Close()
			}
			f.Release()
			if err := e.Close(bg); err != nil || len(e.files) != 0 {
				t.Error(err, len(e.files))
			}
		})
	}
}

// Readers of many files stay within the memory bound, even if more could be read ahead, and get
// their data.
func TestReadMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		m.delay = time.Millisecond
		cfg := Config{ReadSize: 16 << 10, ReadAhead: 256 << 10, ReadMemory: 512 << 10, FlushAfter: time.Hour}
		e := New(cfg, m)
		m.fail = func(string, nfs3.FH, uint64, int) error {
			if held := e.read.used(); held > cfg.ReadMemory {
				t.Errorf("%d bytes are held", held)
			}
			return nil
		}
		content := pattern(1 << 20)
		var all sync.WaitGroup
		for i := range byte(12) {
			m.set(handleOf(i), content)
			all.Go(func() {
				f := e.File(handleOf(i))
				h := f.Open()
				f.SetSize(1 << 20)
				step := 64 << 10
				// some readers stop in the middle of the file
				for off := 0; off < len(content)-int(i)<<14; off += step {
					mustRead(t, h, content, off, step)
				}
				time.Sleep(time.Minute)
				_ = h.Close()
				f.Release()
			})
		}
		all.Wait()
		if err := e.Close(bg); err != nil || e.Stats().ReadMemory != 0 {
			t.Errorf("%v, %+v", err, e.Stats())
		}
	})
}

// A reader's wait ends with its context, and the reader then holds no memory.
func TestReadContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		_, f, h := rig(t, m, Config{ReadSize: 4096, ReadAhead: 64 << 10, ReadMemory: 128 << 10})
		content := pattern(256 << 10)
		m.set(handleOf(1), content)
		f.SetSize(256 << 10)
		mustRead(t, h, content, 0, 4096)
		synctest.Wait()
		release := m.hang(handleOf(1))
		defer release()
		mustRead(t, h, content, 4096, 4096)
		for _, off := range []int64{8192, 40960, 200 << 10} {
			ctx, cancel := context.WithTimeout(bg, time.Second)
			v, err := h.View(ctx, nil, make([]byte, 4096), off)
			v.Release()
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("view at %d: %v", off, err)
			}
			if _, _, err := h.ReadDirect(ctx, nil, make([]byte, 4096), off); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("read at %d: %v", off, err)
			}
			cancel()
		}
	})
}

// Read-ahead stops at the known size, and a direct read does not use read-ahead.
func TestReadAheadStaysInTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, 1)
		_, f, h := rig(t, m, Config{ReadSize: 4096, ReadAhead: 64 << 10})
		content := bytes.Repeat([]byte{1}, 10000)
		m.set(handleOf(1), content)
		f.SetSize(10000)
		mustRead(t, h, content, 0, 4096)
		synctest.Wait()
		if m.reads != 3 || m.readBytes != len(content) {
			t.Errorf("%d READs of %d bytes", m.reads, m.readBytes)
		}
		m.set(handleOf(1), bytes.Repeat([]byte{2}, 10000))
		p := make([]byte, 100)
		if n, _, err := h.ReadDirect(bg, nil, p, 5000); n != 100 || err != nil {
			t.Errorf("a direct read: %d bytes, %v, want 100", n, err)
		}
		if p[0] != 2 {
			t.Errorf("a direct read returns %d, want the new content, 2", p[0])
		}
	})
}

// A View of one piece points into the READ's memory.
func TestViewDoesNotCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &placeModel{model: newModel(t, 1), places: map[*byte]bool{}}
		e := New(Config{ReadSize: 4096, ReadAhead: 64 << 10}, m)
		f := e.File(handleOf(1))
		h := f.Open()
		content := pattern(64<<10 + 100)
		m.set(handleOf(1), content)
		f.SetSize(int64(len(content)))
		for off := 0; off < len(content); off += 4096 {
			v, err := h.View(bg, nil, make([]byte, 4096), int64(off))
			m.mu.Lock()
			placed := len(v.Data) > 0 && m.places[&v.Data[0]]
			m.mu.Unlock()
			if err != nil || !placed {
				t.Errorf("view at %d: %v, in the READ's memory %v, want true", off, err, placed)
			}
			if want := content[off:min(off+4096, len(content))]; !bytes.Equal(v.Data, want) {
				t.Errorf("view at %d: got %d bytes, want %d with the right content", off, len(v.Data), len(want))
			}
			v.Release()
			v.Release() // a second call does nothing
		}
		_ = h.Close()
		f.Release()
		_ = e.Close(bg)
	})
}

type placeModel struct {
	*model
	places map[*byte]bool
}

func (m *placeModel) Read(ctx context.Context, fh nfs3.FH, cred Cred, p []byte, off uint64) (int, bool, error) {
	m.mu.Lock()
	m.places[&p[0]] = true
	m.mu.Unlock()
	if off >= 64<<10 {
		// simulated time: the short last piece is viewed before its reply
		time.Sleep(time.Second)
	}
	return m.model.Read(ctx, fh, cred, p, off)
}
