// Files: several writers of the same ranges through the real client and server, over connections
// that are cut, with procedures that stall and a server that restarts.

package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/transport"
)

// TestFiles runs many seeds with clients and a file server, or repeats one seed.
func TestFiles(t *testing.T) { seeds(t, "TestFiles", runFiles) }

// Bounds in simulated time.
const (
	longestStall = 90 * time.Second
	filesEnd     = 6 * time.Hour // all must be over long before
)

// A filesWorld is one run of a seed.
type filesWorld struct {
	seed     uint64
	disk     *disk
	crc      rnic.CRCMode
	credits  int
	stallOne int // one procedure of this number stalls
	blocks   int
	history  *history
	trace    bool
	ending   sync.WaitGroup // servers that stop
	faults

	mu      sync.Mutex
	rng     *rand.Rand // guarded by mu, as is all that follows: also the server draws from it
	service *fileService
	links   []*link
	calm    bool // connections have no events
}

// A writer is one user of the file, with its own File.
type writer struct {
	w       *filesWorld
	rng     *rand.Rand
	fs      *nfsclient.FS
	file    *nfsclient.File
	stable  bool // each write is on stable storage when it has ended
	written []*written
}

func runFiles(t *testing.T, seed uint64, trace bool) (failures []string) {
	if !trace {
		machine.QuietLog()
	}
	runtime.GC() // timers in pools belong to the run before
	runtime.GC()
	synctest.Test(t, func(t *testing.T) {
		rng := newRand(seed, purposeWorld)
		w := &filesWorld{seed: seed, rng: rng, disk: newDisk(), calm: true, trace: trace,
			crc: []rnic.CRCMode{rnic.CRCOn, rnic.CRCOff}[rng.IntN(2)], credits: 2 + rng.IntN(16), stallOne: 3 + logUniform(rng, 40), blocks: 1 + rng.IntN(3)}
		size := 4 * (1 + logUniform(rng, 8<<10)/4)
		w.history = &history{fail: w.fail, size: size, start: time.Now()}
		w.service = w.serve()
		w.run()
		w.mu.Lock()
		s := w.service
		w.mu.Unlock()
		s.stop()
		w.ending.Wait()
		w.cut()
		time.Sleep(2 * longestStall) // procedures that stall outlive their server
		failures = w.failures
	})
	return failures
}

// dial makes a client's connection; port 20049 is RDMA.
func (w *filesWorld) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := chooseLink(w.rng, w.rng.Uint64(), 2*time.Minute)
	if w.calm {
		p.paths[0].kind, p.paths[1].kind = eventNone, eventNone
	}
	l := newLink(p, nil)
	to := w.service.rdma
	if _, port, _ := net.SplitHostPort(addr); port != "20049" {
		to = w.service.tcp
	}
	select {
	case to.conns <- l.ends[1].conn():
	default:
		return nil, syscall.ECONNREFUSED
	}
	w.links = append(w.links, l)
	for i, path := range p.paths {
		w.note("connection %d to %s, direction %d: event %d at %d stall %v rate %d", len(w.links), addr, i, path.kind, path.at, path.stall, path.rate)
	}
	return l.ends[0].conn(), nil
}

// cut resets all connections.
func (w *filesWorld) cut() {
	w.mu.Lock()
	links := w.links
	w.links = nil
	w.mu.Unlock()
	for _, l := range links {
		l.mu.Lock()
		l.reset(syscall.ECONNRESET)
		l.mu.Unlock()
	}
}

// mount connects a client.
func (w *filesWorld) mount(ctx context.Context) (*nfsclient.FS, error) {
	w.mu.Lock()
	tr := nfsclient.Transport(w.rng.IntN(2))
	conns := 1 + w.rng.IntN(2)
	w.mu.Unlock()
	port := map[nfsclient.Transport]string{nfsclient.RDMA: "20049", nfsclient.TCP: "2049"}[tr]
	c, err := nfsclient.Dial(ctx, "192.0.2.2:"+port, nfsclient.Options{Transport: tr, Conns: conns, Cred: &transport.Cred{},
		CallTimeout: transport.Hard, Dial: w.dial, Device: iwarp.Open(rnic.DeviceConfig{CRC: w.crc, Dial: w.dial})})
	if err != nil {
		return nil, err
	}
	fsys, err := c.Mount(ctx, exported)
	if err != nil {
		c.Close()
	}
	return fsys, err
}

// run lets all writers do their work while connections are cut and the server restarts.
func (w *filesWorld) run() {
	ctx, cancel := context.WithTimeout(context.Background(), filesEnd)
	defer cancel()
	var writers []*writer
	for i := range 2 {
		fsys, err := w.mount(ctx)
		if err != nil {
			w.fail("mount: %v", err)
			return
		}
		defer fsys.Client().Close()
		for j := range 1 + w.draw(2) {
			x := &writer{w: w, rng: newRand(w.seed, purposeCalls+uint64(2*i+j)), fs: fsys, stable: w.draw(4) == 0}
			if err := x.open(ctx); err != nil {
				w.fail("open: %v", err)
				return
			}
			writers = append(writers, x)
		}
	}
	w.mu.Lock()
	w.calm = false
	w.mu.Unlock()
	var all, disturbed sync.WaitGroup
	over, end := context.WithCancel(ctx)
	disturbed.Go(func() { w.disturb(over) })
	for _, x := range writers {
		all.Go(x.work)
	}
	all.Wait()
	end()
	disturbed.Wait()
	time.Sleep(2 * longestStall) // stalled operations go on
	for _, x := range writers {
		x.sync()
	}
	for b := range w.blocks {
		writers[0].read(b)
	}
	if ctx.Err() != nil {
		w.fail("the work does not end")
	}
}

func (w *filesWorld) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

// disturb cuts connections and restarts the server now and then.
func (w *filesWorld) disturb(ctx context.Context) {
	rng := newRand(w.seed, purposePath)
	restarts := rng.IntN(4) == 0
	for range rng.IntN(8) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(logUniform(rng, int(time.Minute)))):
		}
		if restarts && rng.IntN(4) == 0 {
			w.note("restart")
			w.restart()
		} else {
			w.note("cut")
			w.cut()
		}
	}
}

func (w *filesWorld) note(format string, args ...any) {
	if w.trace {
		fmt.Printf("%12v  %s\n", time.Since(w.history.start), fmt.Sprintf(format, args...))
	}
}

func (x *writer) open(ctx context.Context) error {
	flag := os.O_RDWR | os.O_CREATE
	if x.stable {
		flag |= os.O_SYNC
	}
	var err error
	x.file, err = x.fs.OpenFile(ctx, "f", flag, 0o600)
	return err
}

// work writes, syncs and reads.
func (x *writer) work() {
	for range 3 + x.rng.IntN(8) {
		if x.rng.IntN(2) == 0 {
			time.Sleep(time.Duration(logUniform(x.rng, int(10*time.Second))))
		}
		block := x.rng.IntN(x.w.blocks)
		switch x.rng.IntN(6) {
		case 0:
			x.sync()
		case 1, 2:
			x.read(block)
		default:
			x.write(block)
		}
	}
}

func (x *writer) write(block int) {
	h := x.w.history
	p := make([]byte, h.size)
	y := h.begin(block)
	fillBlock(p, y.stamp)
	x.w.note("write %d of block %d begins", y.stamp, block)
	n, err := x.file.WriteAt(p, int64(block*h.size))
	x.w.note("write %d ends: %v", y.stamp, err)
	if n != h.size || err != nil {
		x.w.fail("write %d: %d, %v", y.stamp, n, err)
		return
	}
	h.end(y, x.stable)
	x.written = append(x.written, y)
}

func (x *writer) sync() {
	h := x.w.history
	begun := h.now()
	err := x.file.Sync()
	x.w.note("sync from %d: %v", begun, err)
	switch {
	case err == nil:
		h.sync(begun, x.written)
	case !errors.Is(err, nfsclient.ErrLostWrites):
		x.w.fail("sync: %v", err)
	case len(h.crashes) == 0:
		x.w.fail("sync: %v, but the server has not restarted", err)
	}
	x.written = nil
}

func (x *writer) read(block int) {
	h := x.w.history
	begun := h.now()
	p := make([]byte, h.size)
	n, err := x.file.ReadAt(p, int64(block*h.size))
	if err != nil && err != io.EOF {
		x.w.fail("read: %v", err)
		return
	}
	x.w.note("read of block %d: %x", block, p[:min(n, 4)])
	h.read(block, p, begun) // missing bytes read as zeros
}
