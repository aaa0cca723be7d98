// The locks of a mount: who holds what, and the calls that take, release and test.

// Package nlm has the locks of one mount, by the network lock manager of its server (NLM 4, RFC
// 1813 appendix II). The server decides, also between programs of this machine; here is kept what
// it has granted, to release it when a program ends (Release, ReleaseHandle) and to reclaim it when
// the server has started again (recover.go).
//
// Who waits for a lock stands in a queue of the server where its callbacks (GRANTED) reach us, and
// else asks again and again (waits.go, callback.go).
//
// Lock order: owner.slot, then Locks.mu, which is not held during a call.
package nlm

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// A Server makes the calls.
type Server interface {
	// NLM does one procedure in the name of who, as Owner.Who has it; nil: of the mount. The error
	// is a syscall.Errno where the server has refused the call, and will again, and wraps a
	// transport.ConnectError where it was given up without an answer.
	NLM(ctx context.Context, who any, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) error
	// Connections is how often a connection to the lock manager has been made. With each further
	// one the server may have started again.
	Connections() uint64
	// Moves is how often another server has taken the place of the one before. It knows none of the
	// locks, and is in no period of grace for them.
	Moves() uint64
}

// Options makes Locks.
type Options struct {
	Server Server
	Name   string            // of this machine, as the server is to know it (caller_name)
	Log    func(line string) // is told of lost locks; nil: nobody is

	// Listen serves the callbacks of servers until stop, where they find them: it has the port
	// mapper of this machine know them. The error is that it does not, such as where another lock
	// manager is known to it. nil: there are none.
	Listen func(ctx context.Context, callbacks *transport.Program) (stop func(), err error)

	// ListenNotify serves the status monitor of this mount in the same way, to which servers tell
	// that they have started again, and From reports whether a caller is the server. nil: that is
	// noticed by the connection alone.
	ListenNotify func(ctx context.Context, monitor *transport.Program) (stop func(), err error)
	From         func(caller net.Addr) bool

	// Dir is a directory of this user alone, and Source names the export of a server there: locks
	// that are left when the process is killed are released by the next mount with the same. "": by
	// nobody.
	Dir, Source string

	// Stable has the server told of a crash of this machine, nil: nobody tells it.
	Stable *Stable
}

// A Stable is what outlives a crash of this machine (record.go).
type Stable struct {
	Dir  string // of this user alone, on stable storage
	Boot string // names this start of the machine
	Net  string // names the network namespace of the mount, that of the machine itself by the same name in each start
	// Peer is the server of the moment, as part of a file's name: its address.
	Peer func() string
	// Restarted tells a server, by its Peer, that this machine, which it knows by a name, has
	// started again, with a number larger than the last one (SM_NOTIFY): it frees all locks of the
	// machine. The error is that it was not told, or not to be. It may be called at once for
	// several.
	Restarted func(ctx context.Context, peer, name string, state int32) error
}

// A Key tells the owners of locks of one file apart: a process for fcntl(2), an open file for
// flock(2) and for locks of open file descriptions.
type Key struct {
	ID    uint64
	Flock bool
}

// A Request is bytes of a file, from Start to End, both included (the highest int64: all that
// follow), and who is to have them.
type Request struct {
	FH         nfs3.FH
	Key        Key
	Handle     uint64 // open file by which it is made: see ReleaseHandle
	Pid        uint32 // of the process, for Test of others
	Who        any    // in whose name it is called
	Start, End uint64
	Exclusive  bool
	Wait       bool // until the lock is free
}

func (q *Request) span() span { return span{q.Start, q.End, q.Exclusive} }

// A Holder is who has a lock that is in the way.
type Holder struct {
	Start, End uint64
	Exclusive  bool
	Pid        uint32 // 0: of another machine
}

// maxWaiters bounds the requests that wait for a lock: each has a goroutine and a request of the
// kernel.
const maxWaiters = 4096

// How long to wait until the next attempt: for a lock that is taken, from the least to the most,
// and where the server lets nobody lock (grace).
const (
	pollLeast = 20 * time.Millisecond
	pollMost  = time.Second
	graceWait = time.Second
)

// Locks is the locks of one mount. All methods can be called at once. Without locks it has no
// goroutine.
type Locks struct {
	// Set once.
	opt    Options
	object []byte // the mount, beside the svid of an owner (oh)
	probe  int32  // svid of an owner that never has a lock
	ctx    context.Context
	end    context.CancelFunc

	work    sync.WaitGroup // all goroutines
	some    atomic.Int64   // owners that are known; read without mu by those who release
	cookies atomic.Uint64
	leaving chan struct{} // closed when Close begins
	closing sync.Once     // closes it

	recording chan struct{}          // has room for who looks after record
	records   []*os.File             // of the servers, held while there may be locks
	told      bool                   // it has told other servers of a crash, or tried to; of who looks after record
	monitored atomic.Pointer[string] // the server that all has been done for

	mu       sync.Mutex // guards all below, and the owners
	files    map[nfs3.FH]*file
	svid     int32 // the last one
	waiting  int
	queued   int // waits in owners
	watching bool
	journal  journal

	callbacks callbacks
	notices   notices

	seen place // before the oldest lock was asked for, or since all were last checked
}

// A file is one that has owners.
type file struct {
	owners map[Key]*owner
	wake   chan struct{} // closed when a lock is released
}

// An owner holds locks of one file, or is about to.
type owner struct {
	// Set once.
	fh   nfs3.FH
	key  Key
	svid int32
	slot chan struct{} // has room for who makes a call about the owner, of which there is one at a time

	wanted chan struct{} // has room for a word that somebody waits for the slot

	// Guarded by Locks.mu.
	refs    int // calls and waiters
	held    ranges
	waits   []*wait         // in the server's queue, or about to be
	pending []*wait         // all, wherever they wait
	handles map[uint64]bool // by which there were locks
	giveUp  *giveUp
	pid     uint32
	who     any
}

// New returns the locks of a mount, none yet.
func New(o Options) *Locks {
	l := &Locks{opt: o, files: map[nfs3.FH]*file{}, leaving: make(chan struct{}), recording: make(chan struct{}, 1)}
	l.notices.told = make(chan struct{}, 1)
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], rand.Uint64())
	l.object = append([]byte(o.Name+":"), hex.EncodeToString(b[:])...)
	// Linux's server tells the owners of one machine apart by svid alone. The kernel of this
	// machine counts from 1.
	l.svid = 1<<30 | rand.Int32()>>1
	l.probe = l.svid
	l.ctx, l.end = context.WithCancel(context.Background())
	if o.Dir != "" {
		l.work.Go(l.releaseOrphans)
	}
	if o.Stable != nil {
		l.work.Go(func() { _ = l.monitor(l.ctx, nil, true) })
	}
	return l
}

// enter returns the owner of a request, with a reference.
func (l *Locks) enter(q *Request) *owner {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[q.FH]
	if f == nil {
		f = &file{owners: map[Key]*owner{}, wake: make(chan struct{})}
		l.files[q.FH] = f
	}
	o := f.owners[q.Key]
	if o == nil {
		l.svid = 1<<30 | (l.svid+1)&(1<<30-1)
		o = &owner{fh: q.FH, key: q.Key, svid: l.svid, slot: make(chan struct{}, 1), wanted: make(chan struct{}, 1), handles: map[uint64]bool{}, giveUp: newGiveUp()}
		f.owners[q.Key] = o
		l.some.Add(1)
		l.note(o)
	}
	o.refs++
	o.pid, o.who = q.Pid, q.Who
	return o
}

// known is enter of an owner that there is already; nil: there is none.
func (l *Locks) known(fh nfs3.FH, key Key) *owner {
	if l.some.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[fh]
	if f == nil {
		return nil
	}
	o := f.owners[key]
	if o != nil {
		o.refs++
	}
	return o
}

// leave gives a reference back. An owner without any, and without locks, is forgotten.
func (l *Locks) leave(o *owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.refs--; o.refs > 0 || len(o.held) > 0 {
		return
	}
	f := l.files[o.fh]
	delete(f.owners, o.key)
	l.some.Add(-1)
	if len(f.owners) == 0 {
		delete(l.files, o.fh)
	}
}

// Lock takes a lock, in place of what the owner holds of the bytes. Where it is taken it waits, if
// the request says so, until stop is closed (EINTR); without that it fails with EAGAIN. ctx ends
// calls, too, with its error: what such a call has taken is given back.
func (l *Locks) Lock(ctx context.Context, stop <-chan struct{}, q *Request) error {
	if err := l.monitor(ctx, stop, false); err != nil {
		return err
	}
	o := l.enter(q)
	defer l.leave(o)
	var w *wait
	defer func() { l.endWait(ctx, w) }()
	for pause, late := pollLeast, false; ; pause = min(pause*3/2, pollMost) {
		freed := l.freed(o)
		st, err := l.attempt(ctx, o, q, w)
		if err != nil {
			return err
		}
		wait := pause
		switch {
		case st == nlm4.DeniedGracePeriod:
			wait = graceWait // also who would not wait for a lock waits for the server
		case st != nlm4.Denied && st != nlm4.Blocked || !q.Wait:
			if w != nil {
				w.over = true
				if late {
					l.missed()
				}
			}
			return errno(st)
		case st == nlm4.Blocked && l.heard():
			wait = callbackPoll
		}
		if w == nil {
			if w, err = l.beginWait(o, q.span()); err != nil {
				return err
			}
		}
		if late, err = l.await(ctx, stop, freed, w.called, wait); err != nil {
			return err
		}
		late = late && wait == callbackPoll
		w.blocks = q.Wait && l.callable()
	}
}

// Why a wait has ended without its lock.
var errInterrupted, errClosed error = syscall.EINTR, syscall.ENOLCK

// pause waits for the next attempt of what has to be done. Its error is why there is to be none.
func (l *Locks) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ctx.Done():
		return syscall.ENOLCK
	}
	return nil
}

// freed is closed when a lock of the owner's file has been released here.
func (l *Locks) freed(o *owner) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files[o.fh].wake
}

// Unlock releases bytes that the owner may hold. It is done when this returns without an error, and
// goes on where ctx has ended, or a call was given up.
func (l *Locks) Unlock(ctx context.Context, fh nfs3.FH, key Key, start, end uint64) error {
	return l.unlockOf(ctx, fh, key, span{start: start, end: end}, true)
}

// unlockOf is Unlock. Who is not hurried waits for calls that are given up to be answered.
func (l *Locks) unlockOf(ctx context.Context, fh nfs3.FH, key Key, s span, hurried bool) error {
	o := l.known(fh, key)
	if o == nil {
		return nil
	}
	defer l.leave(o)
	silent := new(giveUp) // which never comes
	if hurried {
		silent = l.nextGiveUp(o)
	}
	return l.alone(ctx, o, silent, func() { l.release(o, s) })
}

// Release releases all that an owner holds of a file: a process that closes it any way does
// (close(2)).
func (l *Locks) Release(ctx context.Context, fh nfs3.FH, key Key) error {
	return l.Unlock(ctx, fh, key, 0, lastByte)
}

// ReleaseHandle releases what is left of the locks that were taken by an open file, which nobody
// has any more.
func (l *Locks) ReleaseHandle(ctx context.Context, fh nfs3.FH, handle uint64) {
	if l.some.Load() == 0 {
		return
	}
	var keys []Key
	l.mu.Lock()
	if f := l.files[fh]; f != nil {
		for k, o := range f.owners {
			if o.handles[handle] {
				keys = append(keys, k)
			}
		}
	}
	l.mu.Unlock()
	for _, k := range keys {
		_ = l.Release(ctx, fh, k) // which goes on without us
	}
}

// Test returns a lock that a request conflicts with, nil: none.
func (l *Locks) Test(ctx context.Context, q *Request) (*Holder, error) {
	o := l.enter(q)
	defer l.leave(o)
	for {
		res, err := l.test(ctx, q.FH, o.svid, q.span(), q.Who)
		switch {
		case err != nil:
			return nil, err
		case res.Status == nlm4.Denied:
			return l.holder(q.FH, &res), nil
		case res.Status != nlm4.DeniedGracePeriod:
			return nil, errno(res.Status)
		}
		if err := l.pause(ctx, graceWait); err != nil {
			return nil, err
		}
	}
}

func (l *Locks) log(line string) {
	if l.opt.Log != nil {
		l.opt.Log(line)
	}
}

// errno is the error of a status, as Linux has it.
func errno(st nlm4.Status) error {
	switch st {
	case nlm4.Granted:
		return nil
	case nlm4.Denied, nlm4.Blocked, nlm4.DeniedGracePeriod:
		return syscall.EAGAIN
	case nlm4.Deadlock:
		return syscall.EDEADLK
	case nlm4.ROFS:
		return syscall.EROFS
	case nlm4.StaleFH:
		return syscall.ESTALE
	case nlm4.FBig:
		return syscall.EOVERFLOW
	}
	return syscall.ENOLCK
}

// Close releases all that is held, for as long as ctx lets it, and ends all goroutines.
func (l *Locks) Close(ctx context.Context) {
	l.closing.Do(func() { close(l.leaving) })
	for l.queues() && l.pause(ctx, pollLeast) == nil { // who waits leaves the queue
	}
	l.mu.Lock()
	var all []*owner
	for _, f := range l.files {
		for _, o := range f.owners {
			all = append(all, o)
		}
	}
	l.mu.Unlock()
	for _, o := range all {
		if ctx.Err() != nil {
			break
		}
		_ = l.unlockOf(ctx, o.fh, o.key, allBytes, false) // however long it is not answered
	}
	l.end()
	l.stopListening()
	l.work.Wait()
	l.closeJournal(ctx.Err() == nil)
	l.closeRecords(ctx.Err() == nil)
}

// queues reports whether a request of ours may be in a queue of the server.
func (l *Locks) queues() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queued > 0
}
