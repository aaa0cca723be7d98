// A model server in memory: it delays, reorders, fails, restarts, and loses uncommitted data.

package datapath

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A disk is one file of the model server.
type disk struct {
	now    []byte     // content for READs
	stable []byte     // content after a restart
	busy   [][2]int64 // WRITEs in progress
}

// A model is the server. Many goroutines of one bubble call its methods.
type model struct {
	t *testing.T

	mu    sync.Mutex // guards the fields below
	rand  *rand.Rand
	disks map[nfs3.FH]*disk
	verf  uint64
	delay time.Duration // the longest wait before and after each call
	fail  func(proc string, fh nfs3.FH, off uint64, n int) error
	hung  map[nfs3.FH]chan struct{} // calls on this file wait for the channel
	short bool                      // READ and WRITE may be short

	reads, writes, commits, failed int
	readBytes, writeBytes          int
	how                            [3]int
	inFlight, mostInFlight         int
}

func newModel(t *testing.T, seed uint64) *model {
	return &model{t: t, rand: rand.New(rand.NewPCG(seed, 1)), disks: map[nfs3.FH]*disk{}, verf: 1, hung: map[nfs3.FH]chan struct{}{}}
}

func handleOf(n byte) nfs3.FH {
	fh, err := nfs3.MakeFH([]byte{n})
	if err != nil {
		panic(err)
	}
	return fh
}

// disk returns the file. The caller holds m.mu.
func (m *model) disk(fh nfs3.FH) *disk {
	d := m.disks[fh]
	if d == nil {
		d = new(disk)
		m.disks[fh] = d
	}
	return d
}

// wait waits for the server's delay.
func (m *model) wait(ctx context.Context, fh nfs3.FH) error {
	m.mu.Lock()
	var d time.Duration
	if m.delay > 0 {
		d = time.Duration(m.rand.Int64N(int64(m.delay)))
	}
	hung := m.hung[fh]
	m.mu.Unlock()
	if d > 0 {
		time.Sleep(d)
	}
	if hung != nil {
		select {
		case <-hung:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// broken returns the error that the test wants for a call, or nil.
func (m *model) broken(proc string, fh nfs3.FH, off uint64, n int) error {
	if m.fail == nil {
		return nil
	}
	err := m.fail(proc, fh, off, n)
	if err != nil {
		m.failed++
	}
	return err
}

// part returns how many of n bytes a READ or WRITE handles.
func (m *model) part(n int) int {
	if m.short && n > 1 && m.rand.IntN(4) == 0 {
		return 1 + m.rand.IntN(n-1)
	}
	return n
}

func (m *model) Read(ctx context.Context, fh nfs3.FH, cred Cred, p []byte, off uint64) (int, bool, error) {
	if err := m.wait(ctx, fh); err != nil {
		return 0, false, err
	}
	m.mu.Lock()
	m.reads++
	if err := m.broken("READ", fh, off, len(p)); err != nil {
		m.mu.Unlock()
		return 0, false, err
	}
	d := m.disk(fh)
	n := 0
	if off < uint64(len(d.now)) {
		n = copy(p[:m.part(len(p))], d.now[off:])
	}
	eof := off+uint64(n) >= uint64(len(d.now))
	m.readBytes += n
	m.mu.Unlock()
	return n, eof, m.wait(ctx, fh)
}

// put writes p into a file's content at off, fills a gap with zeros, and returns the content.
func put(to []byte, p []byte, off int64) []byte {
	if need := off + int64(len(p)); int64(len(to)) < need {
		to = append(to, make([]byte, need-int64(len(to)))...)
	}
	copy(to[off:], p)
	return to
}

func (m *model) Write(ctx context.Context, fh nfs3.FH, cred Cred, p []byte, off uint64, how nfs3.StableHow) (int, nfs3.StableHow, nfs3.Verf, error) {
	was := bytes.Clone(p)
	begin, end := int64(off), int64(off)+int64(len(p))
	m.mu.Lock()
	d := m.disk(fh)
	for _, b := range d.busy {
		if b[0] < end && begin < b[1] {
			m.t.Errorf("WRITE of [%d,%d) while [%d,%d) is under way: the order is not kept", begin, end, b[0], b[1])
		}
	}
	d.busy = append(d.busy, [2]int64{begin, end})
	m.inFlight++
	m.mostInFlight = max(m.mostInFlight, m.inFlight)
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.inFlight--
		for i, b := range d.busy {
			if b == [2]int64{begin, end} {
				d.busy = append(d.busy[:i], d.busy[i+1:]...)
				break
			}
		}
		m.mu.Unlock()
		if !bytes.Equal(was, p) {
			m.t.Error("the data of a WRITE was changed while it was on its way")
		}
	}()
	if err := m.wait(ctx, fh); err != nil {
		return 0, 0, nfs3.Verf{}, err
	}
	m.mu.Lock()
	m.writes++
	if err := m.broken("WRITE", fh, off, len(p)); err != nil {
		m.mu.Unlock()
		return 0, 0, nfs3.Verf{}, err
	}
	n := m.part(len(p))
	d.now = put(d.now, p[:n], int64(off))
	if how != nfs3.Unstable {
		d.stable = put(d.stable, p[:n], int64(off))
	}
	m.writeBytes += n
	m.how[how]++
	verf := m.verifier()
	m.mu.Unlock()
	return n, how, verf, m.wait(ctx, fh)
}

func (m *model) verifier() (v nfs3.Verf) {
	binary.BigEndian.PutUint64(v[:], m.verf)
	return v
}

func (m *model) Commit(ctx context.Context, fh nfs3.FH, cred Cred) (nfs3.Verf, error) {
	if err := m.wait(ctx, fh); err != nil {
		return nfs3.Verf{}, err
	}
	m.mu.Lock()
	m.commits++
	if err := m.broken("COMMIT", fh, 0, 0); err != nil {
		m.mu.Unlock()
		return nfs3.Verf{}, err
	}
	d := m.disk(fh)
	d.stable = append(d.stable[:0], d.now...)
	verf := m.verifier()
	m.mu.Unlock()
	return verf, m.wait(ctx, fh)
}

// truncate does what the server does for a SETATTR with a size; the size is stable at once.
func (m *model) truncate(ctx context.Context, fh nfs3.FH, size int64) error {
	if err := m.wait(ctx, fh); err != nil {
		return err
	}
	m.mu.Lock()
	d := m.disk(fh)
	for _, b := range []*[]byte{&d.now, &d.stable} {
		if int64(len(*b)) > size {
			*b = (*b)[:size]
		} else {
			*b = append(*b, make([]byte, size-int64(len(*b)))...)
		}
	}
	m.mu.Unlock()
	return m.wait(ctx, fh)
}

// restart drops all uncommitted data.
func (m *model) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.verf++
	for _, d := range m.disks {
		d.now = bytes.Clone(d.stable)
	}
}

// show sets a file's content without copying it, for tests that do not write.
func (m *model) show(fh nfs3.FH, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.disk(fh)
	d.now, d.stable = content, content
}

// set replaces a file's content.
func (m *model) set(fh nfs3.FH, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.disk(fh)
	d.now, d.stable = bytes.Clone(content), bytes.Clone(content)
}

// content returns a file's stable content.
func (m *model) content(fh nfs3.FH) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.disk(fh).stable)
}

// hang makes calls on a file wait for release.
func (m *model) hang(fh nfs3.FH) (release func()) {
	ch := make(chan struct{})
	m.mu.Lock()
	m.hung[fh] = ch
	m.mu.Unlock()
	return sync.OnceFunc(func() {
		m.mu.Lock()
		delete(m.hung, fh)
		m.mu.Unlock()
		close(ch)
	})
}
