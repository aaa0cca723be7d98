// The calls of each test: their bytes and order, and a commit of all written data.

package bench

import (
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// A span is the byte range of one READ or WRITE.
type span struct {
	off uint64
	n   int
}

// A record is the list of calls to a file tree.
type record struct {
	reads, writes []span
	syncs         int
	unsynced      int // writes since the last Sync
}

// A witness is a file tree that records its calls.
type witness struct {
	nfsserver.FS
	mu     sync.Mutex
	record record // guarded by mu
}

func (w *witness) ReadAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	n, err := w.FS.ReadAt(c, r, p, off)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record.reads = append(w.record.reads, span{off, len(p)})
	return n, err
}

func (w *witness) WriteAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	n, err := w.FS.WriteAt(c, r, p, off)
	if len(p) == 0 { // COMMIT asks for permission only
		return n, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record.writes = append(w.record.writes, span{off, len(p)})
	w.record.unsynced++
	return n, err
}

func (w *witness) Sync(r nfsserver.Ref, dataOnly bool) error {
	w.mu.Lock()
	w.record.syncs++
	w.record.unsynced = 0
	w.mu.Unlock()
	return w.FS.Sync(r, dataOnly)
}

// seen runs one test and returns the calls seen by the tree. The file has blocks of 1 MiB, and one
// call is in flight, so calls are seen in their order. On a busy machine little may happen in the
// test's time. So seen doubles the time until enough returns true.
func seen(t *testing.T, test string, blocks int, enough func(*record) bool) *record {
	t.Helper()
	for d := 20 * time.Millisecond; ; d *= 2 {
		w := &witness{FS: memory()}
		o := Options{Depth: 1, Size: int64(blocks) * seqBlock, Duration: d, Tests: []string{test}, NoRaw: true}
		if err := Server(t.Context(), serve(t, nfsclient.TCP, w), "file", o, new(Report)); err != nil {
			t.Fatalf("Server: %v", err)
		}
		w.mu.Lock()
		r := w.record
		w.mu.Unlock()
		if enough(&r) {
			return &r
		}
		if d > time.Minute {
			t.Fatalf("%s does too little in %v: %+v", test, d, r)
		}
	}
}

// Before any test, the file is laid out in order and read whole to verify it.
func TestLayoutIsWrittenAndVerified(t *testing.T) {
	w := seen(t, "lookup", 3, func(*record) bool { return true })
	if len(w.writes) != 3 || len(w.reads) != 3 || w.syncs != 1 || w.unsynced != 0 {
		t.Fatalf("%d writes, %d reads, %d syncs, %d writes not synced", len(w.writes), len(w.reads), w.syncs, w.unsynced)
	}
	for i := range 3 {
		if want := (span{uint64(i) * seqBlock, seqBlock}); w.writes[i] != want || w.reads[i] != want {
			t.Errorf("block %d: wrote %v, read %v, want %v", i, w.writes[i], w.reads[i], want)
		}
	}
}

// Sequential tests go through the file in 1 MiB blocks, and start over at its end.
func TestSequentialTestsAreInOrder(t *testing.T) {
	const blocks = 2
	for test, spans := range map[string]func(*record) []span{
		"read":  func(r *record) []span { return r.reads[blocks:] },
		"write": func(r *record) []span { return r.writes[blocks:] },
	} {
		list := spans(seen(t, test, blocks, func(r *record) bool { return len(spans(r)) > blocks }))
		next := uint64(0)
		for i, s := range list {
			if s.off == 0 {
				next = 0 // the warm-up or the file has ended
			}
			if s.off != next || s.n != seqBlock {
				t.Fatalf("%s: call %d is %v, want offset %d", test, i, s, next)
			}
			next = (s.off + seqBlock) % (blocks * seqBlock)
		}
	}
}

// --block sets the size of sequential calls, in both directions.
func TestSequentialBlocksHaveTheirSize(t *testing.T) {
	w := &witness{FS: memory()}
	o := Options{Depth: 1, Size: seqBlock, Block: 64 << 10, Duration: 10 * time.Millisecond, Tests: []string{"read", "write"}, NoRaw: true}
	if err := Server(t.Context(), serve(t, nfsclient.TCP, w), "file", o, new(Report)); err != nil {
		t.Fatalf("Server: %v", err)
	}
	w.mu.Lock() // a call whose reply was read may still run in the server's goroutine
	defer w.mu.Unlock()
	for name, spans := range map[string][]span{"reads": w.record.reads, "writes": w.record.writes} {
		n := 0
		for _, s := range spans {
			if s.n == 64<<10 && s.off%(64<<10) == 0 {
				n++
			} else if s.n != seqBlock { // the layout and the verification use seqBlock
				t.Errorf("%s: %v", name, s)
			}
		}
		if n == 0 {
			t.Errorf("no %s of 64 KiB: %v", name, spans)
		}
	}
}

// Random tests ask for aligned blocks of 4 KiB inside the file.
func TestRandomTestsAreAlignedAndInside(t *testing.T) {
	for test, spans := range map[string]func(*record) []span{
		"randread":  func(r *record) []span { return r.reads[1:] },
		"randwrite": func(r *record) []span { return r.writes[1:] },
	} {
		different := make(map[uint64]bool)
		for _, s := range spans(seen(t, test, 1, func(r *record) bool { return len(spans(r)) > 8 })) {
			if s.n == seqBlock && s.off == 0 {
				continue // from the verification after the test
			}
			if s.n != randBlock || s.off%randBlock != 0 || s.off >= seqBlock {
				t.Fatalf("%s: %v", test, s)
			}
			different[s.off] = true
		}
		if len(different) < 2 {
			t.Errorf("%s: %d places", test, len(different))
		}
	}
}

// The time of a writing test includes the COMMIT, so the data is stable when the time ends.
func TestWritesAreCommitted(t *testing.T) {
	for _, test := range []string{"write", "randwrite"} {
		if w := seen(t, test, 1, func(r *record) bool { return len(r.writes) > 1 }); w.unsynced != 0 || w.syncs < 2 {
			t.Errorf("%s: %d syncs, %d writes after the last", test, w.syncs, w.unsynced)
		}
	}
}
