// A lock manager for the tests: locks for each byte, restarts, grace periods, and calls that hang
// or get lost.

package nlm

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// bytesOfFile is the number of lockable bytes in the model's file.
const bytesOfFile = 24

// A modelOwner identifies a caller of the model, by object and svid.
type modelOwner struct {
	object string
	svid   int32
}

// A model is a Server with one file.
type model struct {
	mu       sync.Mutex // guards all fields
	bytes    [bytesOfFile]map[modelOwner]bool
	connects uint64
	moves    uint64
	graceEnd time.Time
	noObject bool // as in Linux's server, holders are returned without the object
	noSvid   bool // holders are returned with another svid
	calls    int
	before   func(proc uint32) error // called with mu held; an error replaces the call
	after    func(proc uint32) error // an error replaces the reply
	hang     chan struct{}           // not nil: calls wait until hang is closed

	queue    []*nlm4.LockArgs // waiting requests, oldest first
	granters []*Locks         // receivers of callbacks
	deaf     bool             // callbacks get lost
	refuse   nlm4.Status      // status returned for each LOCK, unless it is GRANTED
	deny     error            // error returned by Listen
	listens  int
	last     nlm4.Status // the result of the last callback
}

func newModel() *model {
	m := &model{connects: 1}
	m.forget()
	return m
}

func (m *model) forget() {
	m.queue = nil
	for i := range m.bytes {
		m.bytes[i] = map[modelOwner]bool{}
	}
}

// restart drops all locks and begins a grace period.
func (m *model) restart(grace time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	m.connects++
	m.graceEnd = time.Now().Add(grace)
}

func (m *model) Connections() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.connects
}

func (m *model) Moves() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.moves
}

// move replaces the server by another one, which has no locks and no grace period.
func (m *model) move() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	m.connects++
	m.moves++
}

func (m *model) NLM(ctx context.Context, _ any, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	hang := m.hang
	m.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if m.before != nil {
		if err := m.before(proc); err != nil {
			return err
		}
	}
	reply := m.answer(args)
	if m.after != nil {
		if err := m.after(proc); err != nil {
			return err
		}
	}
	if reply != nil {
		e := xdr.NewEncoder(nil)
		reply.EncodeXDR(e)
		d := xdr.NewDecoder(e.Bytes())
		res.DecodeXDR(d)
		return d.Err()
	}
	return nil
}

func (m *model) answer(args xdr.Marshaler) xdr.Marshaler {
	grace := time.Now().Before(m.graceEnd)
	switch a := args.(type) {
	case *nlm4.LockArgs:
		st := nlm4.Granted
		if m.refuse != nlm4.Granted {
			st = m.refuse
		} else if grace != a.Reclaim {
			st = nlm4.DeniedGracePeriod
		} else if m.conflict(&a.Lock, a.Exclusive) != nil {
			if st = nlm4.Denied; a.Block {
				st = nlm4.Blocked
				if m.queued(&a.Lock, a.Exclusive) < 0 {
					m.queue = append(m.queue, a)
				}
			}
		} else {
			if i := m.queued(&a.Lock, a.Exclusive); i >= 0 {
				m.queue = slices.Delete(m.queue, i, i+1)
			}
			m.each(&a.Lock, func(held map[modelOwner]bool, o modelOwner) { held[o] = a.Exclusive })
		}
		return &nlm4.Res{Cookie: a.Cookie, Status: st}
	case *nlm4.UnlockArgs:
		if grace {
			return &nlm4.Res{Cookie: a.Cookie, Status: nlm4.DeniedGracePeriod}
		}
		m.each(&a.Lock, func(held map[modelOwner]bool, o modelOwner) { delete(held, o) })
		m.grant()
		return &nlm4.Res{Cookie: a.Cookie}
	case *nlm4.CancelArgs:
		res := &nlm4.Res{Cookie: a.Cookie, Status: nlm4.Denied}
		if i := m.queued(&a.Lock, a.Exclusive); i >= 0 && a.Block {
			m.queue = slices.Delete(m.queue, i, i+1)
			res.Status = nlm4.Granted
		}
		return res
	case *nlm4.TestArgs:
		res := &nlm4.TestRes{Cookie: a.Cookie}
		if grace {
			res.Status = nlm4.DeniedGracePeriod
		} else if h := m.conflict(&a.Lock, a.Exclusive); h != nil {
			res.Status, res.Holder = nlm4.Denied, *h
		}
		return res
	}
	return nil
}

// queued returns a request's index in the queue, or a negative number.
func (m *model) queued(l *nlm4.Lock, exclusive bool) int {
	return slices.IndexFunc(m.queue, func(a *nlm4.LockArgs) bool {
		return bytes.Equal(a.Lock.Owner, l.Owner) && a.Lock.Svid == l.Svid && a.Lock.Offset == l.Offset && a.Lock.Length == l.Length && a.Exclusive == exclusive
	})
}

// grant grants free locks to queued requests, with callbacks like Linux's server: with a cookie and
// a caller name of its own.
func (m *model) grant() {
	for i := 0; i < len(m.queue); {
		a := m.queue[i]
		if m.conflict(&a.Lock, a.Exclusive) != nil {
			i++
			continue
		}
		m.queue = slices.Delete(m.queue, i, i+1)
		m.each(&a.Lock, func(held map[modelOwner]bool, o modelOwner) { held[o] = a.Exclusive })
		if m.deaf {
			continue
		}
		call := &nlm4.TestArgs{Cookie: []byte("server"), Exclusive: a.Exclusive, Lock: a.Lock}
		call.Lock.Caller = []byte("server")
		to := slices.Clone(m.granters)
		go func() {
			for _, l := range to {
				if bytes.Equal(l.object, call.Lock.Owner) {
					st := l.granting(call)
					m.mu.Lock()
					m.last = st
					m.mu.Unlock()
				}
			}
		}()
	}
}

// waits returns the length of the queue.
func (m *model) waits() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.queue)
}

// set changes the model under its lock, because the mount's watch may call the model at the same
// moment.
func (m *model) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// hangUp makes calls wait until the returned channel is closed.
func (m *model) hangUp() chan struct{} {
	hang := make(chan struct{})
	m.set(func() { m.hang = hang })
	return hang
}

// count returns the number of calls.
func (m *model) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// each calls do for each byte in a lock.
func (m *model) each(l *nlm4.Lock, do func(held map[modelOwner]bool, o modelOwner)) {
	for i := range m.bytes {
		if at := uint64(i); at >= l.Offset && (l.Length == 0 || at-l.Offset < l.Length) {
			do(m.bytes[i], modelOwner{string(l.Owner), l.Svid})
		}
	}
}

func (m *model) conflict(l *nlm4.Lock, exclusive bool) (found *nlm4.Holder) {
	m.each(l, func(held map[modelOwner]bool, o modelOwner) {
		for other, x := range held {
			if other != o && (x || exclusive) && found == nil {
				found = &nlm4.Holder{Exclusive: x, Svid: other.svid, Owner: []byte(other.object)}
				if m.noObject {
					found.Owner = nil
				}
				if m.noSvid {
					found.Svid = 150
				}
			}
		}
	})
	return found
}

// picture shows the locks on each byte: "-" for none, "x" for an exclusive lock, a digit for the
// number of shared locks.
func (m *model) picture() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b []byte
	for _, held := range m.bytes {
		c := byte('-')
		for _, exclusive := range held {
			if c = byte('0' + len(held)); exclusive {
				c = 'x'
			}
		}
		b = append(b, c)
	}
	return string(b)
}

// A bench has a mount's locks and a model server.
type bench struct {
	*testing.T
	*Locks
	m *model

	mu    sync.Mutex // guards the bench, not Locks
	lines []string   // lines of the log
}

// logged waits until all goroutines wait, and returns the log.
func (b *bench) logged() []string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines
}

var testFH = func() nfs3.FH {
	fh, err := nfs3.MakeFH([]byte("file"))
	if err != nil {
		panic(err)
	}
	return fh
}()

// simulate runs a test in a bubble, which must be left without goroutines.
func simulate(t *testing.T, test func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, m: newModel()}
		b.Locks = b.another()
		test(b)
		b.Close(context.Background())
	})
}

// another returns the locks of another mount.
func (b *bench) another() *Locks {
	return New(Options{Server: b.m, Name: "host", Log: b.log})
}

func (b *bench) log(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, line)
}

// called returns the locks of another mount, which the server can call back.
func (b *bench) called(o Options) *Locks {
	var l *Locks
	o.Server, o.Name = b.m, "host"
	o.Listen = func(context.Context, *transport.Program) (func(), error) {
		b.m.mu.Lock()
		defer b.m.mu.Unlock()
		if b.m.listens++; b.m.deny != nil {
			return nil, b.m.deny
		}
		b.m.granters = append(b.m.granters, l)
		return func() {
			b.m.mu.Lock()
			defer b.m.mu.Unlock()
			b.m.granters = slices.DeleteFunc(b.m.granters, func(g *Locks) bool { return g == l })
		}, nil
	}
	l = New(o)
	return l
}

func request(owner uint64, start, end uint64, exclusive bool) *Request {
	return &Request{FH: testFH, Key: Key{ID: owner}, Handle: owner, Pid: uint32(owner), Start: start, End: end, Exclusive: exclusive}
}

func (b *bench) lock(owner uint64, start, end uint64, exclusive bool) error {
	return b.Lock(context.Background(), nil, request(owner, start, end, exclusive))
}

// begin starts a Lock that waits, in the background.
func (b *bench) begin(ctx context.Context, stop <-chan struct{}, owner uint64, start, end uint64) <-chan error {
	return waitFor(ctx, b.Locks, stop, request(owner, start, end, true))
}

// waitFor starts a mount's Lock that waits, in the background.
func waitFor(ctx context.Context, l *Locks, stop <-chan struct{}, q *Request) <-chan error {
	q.Wait = true
	ended := make(chan error, 1)
	go func() { ended <- l.Lock(ctx, stop, q) }()
	return ended
}

func (b *bench) unlock(owner uint64, start, end uint64) {
	b.Helper()
	b.want(b.Unlock(context.Background(), testFH, Key{ID: owner}, start, end), 0)
}

// want fails the test unless got is the error want, or nil if want is 0.
func (b *bench) want(got error, want syscall.Errno) {
	b.Helper()
	if want == 0 {
		if got != nil {
			b.Errorf("got %v, want no error", got)
		}
		return
	}
	if !errors.Is(got, want) {
		b.Errorf("got %v, want %v", got, want)
	}
}

// held fails the test unless the server's locks look like want.
func (b *bench) held(want string) {
	b.Helper()
	for len(want) < bytesOfFile {
		want += "-"
	}
	if got := b.m.picture(); got != want {
		b.Errorf("locked is %s, want %s", got, want)
	}
}
