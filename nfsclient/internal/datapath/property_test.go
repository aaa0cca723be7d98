// Random operations by several users of one file, compared with a plain array of bytes.

package datapath

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A world is one run: several actors share a file. Only one actor writes each byte, so this actor
// knows the right content. The grain is small, so the actors' ranges share extents.
type world struct {
	t      *testing.T
	m      *model
	e      *Engine
	fh     nfs3.FH
	actors int
	grain  int64
	max    int64

	size shared // held exclusively during a size change

	mu    sync.Mutex  // guards the fields below
	bytes []byte      // the expected content
	last  []int       // for each byte, the number of the write that it is from
	count int         // number of writes
	busy  [4][2]int64 // each actor's write in progress
}

// shared is a read-write lock made of channels. Time in a bubble advances while goroutines wait for
// a channel, but not while they wait for a sync.RWMutex.
type shared struct {
	tokens chan struct{} // one token for each actor
	turn   chan struct{}
}

func newShared(n int) shared {
	return shared{tokens: make(chan struct{}, n), turn: make(chan struct{}, 1)}
}

func (s shared) RLock()   { s.tokens <- struct{}{} }
func (s shared) RUnlock() { <-s.tokens }

func (s shared) Lock() {
	s.turn <- struct{}{}
	for range cap(s.tokens) {
		s.tokens <- struct{}{}
	}
	<-s.turn
}

func (s shared) Unlock() {
	for range cap(s.tokens) {
		<-s.tokens
	}
}

// own returns the range at off that the actor writes, or the actor's next range after it.
func (w *world) own(actor int, off int64) (int64, int64) {
	g := off / w.grain
	for g%int64(w.actors) != int64(actor) {
		g++
	}
	return g * w.grain, (g + 1) * w.grain
}

func (w *world) owner(off int64) int { return int(off / w.grain % int64(w.actors)) }

// begin records the start of a write: until the write is accepted, the server may have old or new
// data.
func (w *world) begin(actor, n int, off int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[actor] = [2]int64{off, off + int64(n)}
}

// wrote records an accepted write.
func (w *world) wrote(actor int, p []byte, off int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	w.busy[actor] = [2]int64{}
	w.bytes = put(w.bytes, p, off)
	for len(w.last) < len(w.bytes) {
		w.last = append(w.last, w.count)
	}
	for i := range p {
		w.last[off+int64(i)] = w.count
	}
}

func (w *world) write(h *Handle, r *rand.Rand, actor int, cred Cred) {
	lo, hi := w.own(actor, r.Int64N(w.max))
	off := lo + r.Int64N(hi-lo)
	p := make([]byte, 1+r.Int64N(hi-off))
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	how := nfs3.Unstable
	if r.IntN(20) == 0 {
		how = nfs3.StableHow(r.IntN(3))
	}
	w.begin(actor, len(p), off)
	n, err := h.Write(context.Background(), cred, p, off, how)
	if n != len(p) || err != nil {
		w.t.Errorf("write of %d at %d: %d, %v", len(p), off, n, err)
	}
	w.wrote(actor, p, off)
	if how != nfs3.Unstable {
		if got := w.m.content(w.fh); int64(len(got)) < off+int64(len(p)) || !bytes.Equal(got[off:off+int64(len(p))], p) {
			w.t.Errorf("an O_SYNC write of %d at %d is not stable", len(p), off)
		}
	}
}

// read reads at a random offset and compares the actor's own bytes.
func (w *world) read(h *Handle, r *rand.Rand, actor int) {
	off := r.Int64N(w.max)
	w.readAt(h, r, actor, off, 1+r.IntN(int(w.max/2)))
}

func (w *world) readAt(h *Handle, r *rand.Rand, actor int, off int64, size int) {
	w.mu.Lock()
	before := bytes.Clone(w.bytes) // the actor's own bytes cannot change meanwhile
	w.mu.Unlock()
	var got []byte
	var eof bool
	var err error
	switch r.IntN(3) {
	case 0:
		var v View
		v, err = h.View(context.Background(), nil, make([]byte, size), off)
		got, eof = bytes.Clone(v.Data), v.eof
		v.Release()
	case 1:
		var n int
		p := make([]byte, size)
		n, eof, err = h.ReadDirect(context.Background(), nil, p, off)
		got = p[:n]
	default:
		var n int
		p := make([]byte, size)
		n, eof, err = h.Read(context.Background(), nil, p, off)
		got = p[:n]
	}
	if err != nil {
		w.t.Errorf("read of %d at %d: %v", size, off, err)
	}
	if want := min(off+int64(size), int64(len(before))); off+int64(len(got)) < want {
		w.t.Errorf("read of %d at %d has %d bytes of a file of %d", size, off, len(got), len(before))
	}
	if len(got) < size && !eof {
		w.t.Errorf("read of %d at %d has %d bytes, and the file does not end", size, off, len(got))
	}
	for i, b := range got[:max(0, min(int64(len(got)), int64(len(before))-off))] {
		if at := off + int64(i); w.owner(at) == actor && b != before[at] {
			w.t.Errorf("actor %d read of %d at %d: byte %d is %#x, want %#x", actor, size, off, at, b, before[at])
			return
		}
	}
}

// sync calls Sync and checks that the stable data has everything written before, unless it was
// overwritten since.
func (w *world) sync(h *Handle) {
	w.mu.Lock()
	mark, before := w.count, bytes.Clone(w.bytes)
	w.mu.Unlock()
	if err := h.Sync(context.Background()); err != nil {
		w.t.Errorf("sync: %v", err)
	}
	got := w.m.content(w.fh)
	w.mu.Lock()
	defer w.mu.Unlock()
	rewritten := func(at int) bool {
		return w.last[at] > mark ||
			slices.ContainsFunc(w.busy[:], func(b [2]int64) bool { return b[0] <= int64(at) && int64(at) < b[1] })
	}
	for at := range before {
		if at < len(got) && got[at] == before[at] {
			continue
		}
		if !rewritten(at) {
			w.t.Errorf("after sync, byte %d of %d is not stable (there are %d)", at, len(before), len(got))
			return
		}
	}
}

func (w *world) truncate(f *File, r *rand.Rand) {
	w.size.Lock()
	defer w.size.Unlock()
	size := r.Int64N(w.max)
	err := f.Truncate(context.Background(), size, func(ctx context.Context) error { return w.m.truncate(ctx, w.fh, size) })
	if err != nil {
		w.t.Errorf("truncate: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	for int64(len(w.bytes)) < size {
		w.bytes = append(w.bytes, 0)
		w.last = append(w.last, w.count)
	}
	w.bytes, w.last = w.bytes[:size], w.last[:size]
}

// act runs an actor's random steps.
func (w *world) act(seed uint64, actor, steps int) {
	r := rand.New(rand.NewPCG(seed, uint64(actor)+100))
	f := w.e.File(w.fh)
	defer f.Release()
	h := f.Open()
	cred := Cred(nil)
	if r.IntN(3) == 0 {
		cred = actor
	}
	at := int64(0)
	for range steps {
		k := r.IntN(100)
		if k == 0 {
			w.truncate(f, r)
			continue
		}
		w.size.RLock()
		switch {
		case k < 45:
			w.write(h, r, actor, cred)
		case k < 65:
			w.read(h, r, actor)
		case k < 80: // sequential reading
			n := 1 + r.IntN(200)
			if at >= w.max {
				at = 0
			}
			w.readAt(h, r, actor, at, n)
			at += int64(n)
		case k < 85:
			w.sync(h)
		case k < 88:
			f.Invalidate()
		case k < 90:
			f.SetSize(r.Int64N(2 * w.max))
		case k < 92:
			if err := f.WriteOut(context.Background()); err != nil {
				w.t.Errorf("write out: %v", err)
			}
		case k < 94:
			if err := h.Close(); err != nil {
				w.t.Errorf("close: %v", err)
			}
			h = f.Open()
		default:
			time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		}
		w.size.RUnlock()
	}
	if err := h.Close(); err != nil {
		w.t.Errorf("close: %v", err)
	}
}

// run runs the actors with one seed. At the end all data must be stable and the engine empty.
func run(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 0))
		m := newModel(t, seed)
		m.delay = time.Duration(r.IntN(5)) * time.Millisecond
		m.short = r.IntN(3) == 0
		cfg := Config{
			ReadSize: 1 << (5 + r.IntN(5)), WriteSize: 1 << (5 + r.IntN(7)), ReadAhead: 1 << (6 + r.IntN(6)),
			ReadMemory: 64 << 10, DirtyFile: int64(8+r.IntN(64)) << 10, DirtyMount: int64(16+r.IntN(128)) << 10,
			FlushAfter: time.Duration(1+r.IntN(50)) * time.Millisecond, Sync: r.IntN(20) == 0,
			Lost: func(nfs3.FH, error) { t.Error("an error was lost") },
		}
		if r.IntN(10) == 0 {
			cfg.ReadAhead = -1
		}
		w := &world{t: t, m: m, e: New(cfg, m), fh: handleOf(1), actors: 1 + r.IntN(4), grain: 1 << (3 + r.IntN(9)), max: 4096}
		w.size = newShared(w.actors)
		done := make(chan struct{})
		if r.IntN(2) == 0 {
			go func() { // the server restarts now and then
				r := rand.New(rand.NewPCG(seed, 2))
				for {
					select {
					case <-done:
						return
					case <-time.After(time.Duration(r.IntN(40)) * time.Millisecond):
						m.restart()
					}
				}
			}()
		}
		var all sync.WaitGroup
		for a := range w.actors {
			all.Go(func() { w.act(seed, a, 40) })
		}
		all.Wait()
		close(done)
		if err := w.e.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		if got := m.content(w.fh); !bytes.Equal(got, w.bytes) {
			i := slices.IndexFunc(got[:min(len(got), len(w.bytes))], func(byte) bool { return true })
			for i >= 0 && i < min(len(got), len(w.bytes)) && got[i] == w.bytes[i] {
				i++
			}
			t.Errorf("at the end %d bytes are stable, want %d; they differ at %d", len(got), len(w.bytes), i)
		}
		checkEmpty(t, w.e)
		if t.Failed() {
			t.Logf("config %+v, actors %d, grain %d, delay %v", cfg, w.actors, w.grain, m.delay)
		}
	})
}

var oneSeed = flag.Int64("seed", -1, "play this seed of TestRandomOperations alone")

func TestRandomOperations(t *testing.T) {
	if *oneSeed >= 0 {
		run(t, uint64(*oneSeed))
		return
	}
	// several bubbles run at once, because one alone mostly uses one CPU
	const bubbles = 4
	for first := range uint64(bubbles) {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			t.Parallel()
			for seed := first; seed < seeds; seed += bubbles {
				run(t, seed)
				if t.Failed() {
					t.Fatalf("again with -seed %d", seed)
				}
			}
		})
	}
}
