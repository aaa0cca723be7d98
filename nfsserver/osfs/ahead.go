// READDIRPLUS on two CPUs: entries are described while those before them are encoded.

package osfs

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// Describing an entry costs two system calls, several times what it costs to encode it. So
// the goroutine of the call, which reads the directory and emits, has one helper where a CPU may
// be free: both describe batches of names, and the oldest batch is emitted when it is done.
// No entry is kept for a later call: what a client reads was true during the call it made.
const (
	batchEntries = 16
	maxBatches   = 6 // described ahead at most; what is not emitted has been done for nothing
)

// helpers counts those at work in the process: one CPU is left to the callers.
var helpers atomic.Int64

// batchState is where a batch is:
//
//	empty ──read──► named ──take──► taken ──described──► done ──emitted──► empty
type batchState uint8

const (
	batchEmpty batchState = iota // of the caller
	batchNamed                   // of whoever takes it
	batchTaken                   // of who took it
	batchDone                    // of the caller
)

// A batch is some entries of a directory. Its state says who may touch the rest.
type batch struct {
	state batchState // guarded by ahead.mu
	seq   int        // in the directory
	buf   int        // the buffer that the names are in
	n     int        // of the entries below
	raw   [batchEntries]rawDirent
	de    [batchEntries]nfsserver.Dirent
	there [batchEntries]bool // it is not gone already
}

// An ahead is one reading of a directory with attributes. It is used again, for its memory.
type ahead struct {
	// Set by begin.
	f      *FS
	d      *node
	fd     int
	helped bool
	stop   atomic.Bool
	left   sync.WaitGroup // of the helper

	// Owned by the caller: [oldest, newest) are in use, counted for ever; batch i is at i % maxBatches.
	oldest, newest int
	rest           []byte // of the last buffer
	at             int    // that buffer
	eof            bool
	bufs           [2][direntBuf]byte

	mu      sync.Mutex
	changed sync.Cond // a batch became named, or done
	batches [maxBatches]batch
}

var aheads = sync.Pool{New: func() any {
	a := new(ahead)
	a.changed.L = &a.mu
	return a
}}

// readDirPlus emits entries with attributes from where l stands.
func (f *FS) readDirPlus(d *node, l *listing, emit func(*nfsserver.Dirent) bool) (eof bool, err error) {
	a := aheads.Get().(*ahead)
	a.begin(f, d, l.fd)
	defer a.end()
	for {
		if err := a.read(); err != nil {
			return false, readDirError(err)
		}
		if a.oldest == a.newest {
			return true, nil
		}
		b := a.wait()
		for i := range b.n {
			if b.there[i] && !emit(&b.de[i]) {
				return false, nil
			}
			l.pos = b.raw[i].off
		}
		a.mu.Lock()
		b.state = batchEmpty
		a.mu.Unlock()
		a.oldest++
	}
}

func (a *ahead) begin(f *FS, d *node, fd int) {
	a.f, a.d, a.fd = f, d, fd
	a.oldest, a.newest, a.rest, a.at, a.eof, a.helped = 0, 0, nil, 0, false, false
	a.stop.Store(false)
	for i := range a.batches {
		a.batches[i].state = batchEmpty
	}
}

// end returns once the helper has left, and with it the last use of the directory.
func (a *ahead) end() {
	if a.helped {
		a.mu.Lock()
		a.stop.Store(true)
		a.changed.Broadcast()
		a.mu.Unlock()
		a.left.Wait()
		helpers.Add(-1)
	}
	a.f, a.d = nil, nil
	aheads.Put(a)
}

// read names as many batches as there is room for.
func (a *ahead) read() error {
	for a.newest-a.oldest < maxBatches && !a.eof {
		if len(a.rest) == 0 {
			next := 1 - a.at
			for i := a.oldest; i < a.newest; i++ {
				if a.batches[i%maxBatches].buf == next {
					return nil // names in it have not been emitted
				}
			}
			n, err := getdents(a.fd, a.bufs[next][:])
			if err != nil {
				return err
			}
			a.at, a.rest, a.eof = next, a.bufs[next][:n], n == 0
			continue
		}
		b := &a.batches[a.newest%maxBatches]
		b.buf, b.n = a.at, 0
		b.seq, a.newest = a.newest, a.newest+1
		for b.n < batchEntries && len(a.rest) > 0 {
			raw := &b.raw[b.n]
			if a.rest = raw.next(a.rest); a.rest != nil && raw.ino != 0 {
				b.n++
			}
		}
		a.mu.Lock()
		b.state = batchNamed
		a.changed.Signal()
		a.mu.Unlock()
	}
	if !a.helped && a.newest-a.oldest > 1 {
		a.help()
	}
	return nil
}

// help starts the helper, if a CPU may be free for it.
func (a *ahead) help() {
	if helpers.Add(1) >= int64(runtime.GOMAXPROCS(0)) {
		helpers.Add(-1)
		return
	}
	a.helped = true
	a.left.Add(1)
	go a.helpLoop()
}

// helpLoop describes batches until the caller has emitted what there is room for. It uses the node's own
// descriptor: the kernel counts the users of each, and two CPUs would contend for one count.
func (a *ahead) helpLoop() {
	defer a.left.Done()
	a.mu.Lock()
	defer a.mu.Unlock()
	for !a.stop.Load() {
		if !a.describeOne(a.d.fd()) {
			a.changed.Wait()
		}
	}
}

// wait returns the oldest batch when it is done, and describes others until then.
func (a *ahead) wait() *batch {
	b := &a.batches[a.oldest%maxBatches]
	a.mu.Lock()
	defer a.mu.Unlock()
	for b.state != batchDone {
		if !a.describeOne(a.fd) {
			a.changed.Wait()
		}
	}
	return b
}

// describeOne describes the oldest batch that nobody has taken, in the directory open as fd; false:
// there is none. a.mu is held, but not while it works.
func (a *ahead) describeOne(fd int) bool {
	var b *batch
	for i := range a.batches {
		if c := &a.batches[i]; c.state == batchNamed && (b == nil || c.seq < b.seq) {
			b = c
		}
	}
	if b == nil {
		return false
	}
	b.state = batchTaken
	a.mu.Unlock()
	for i := range b.n {
		if a.stop.Load() {
			break
		}
		b.there[i] = a.f.dirent(a.d, fd, &b.raw[i], true, &b.de[i])
	}
	a.mu.Lock()
	b.state = batchDone
	a.changed.Broadcast()
	return true
}
