// The locks of a mount: owners, and the calls that lock, unlock and test.

// Package nlm has the locks of one mount, through its server's network lock manager (NLM 4, RFC
// 1813 appendix II). The server decides, also between programs of this machine. The package keeps
// the granted locks. It releases them when a program ends (Release, ReleaseHandle) and reclaims
// them after a server restart (recover.go).
//
// A request for a taken lock waits in a server queue if callbacks (GRANTED) reach us. Otherwise it
// polls (waits.go, callback.go).
//
// Lock order: owner.slot, then Locks.mu, which is free during calls.
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

// A Server sends the calls.
type Server interface {
	// NLM runs one procedure with a Request's credentials; nil: the mount's. The error is a
	// syscall.Errno if the server refuses definitely. It wraps a transport.ConnectError if the call
	// was given up without an answer.
	NLM(ctx context.Context, who any, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) error
	// Connections counts connections to the lock manager. A new connection may mean a restart.
	Connections() uint64
	// Moves counts switches to another server. A new server has none of the locks and no grace
	// period for them.
	Moves() uint64
}

// Options configures Locks.
type Options struct {
	Server Server
	Name   string            // this machine's name for the server (caller_name)
	Log    func(line string) // receives lines about lost locks; may be nil

	// Listen serves server callbacks until stop, and registers them with this machine's port
	// mapper. It returns an error if that fails, for example because another lock manager is
	// registered. nil: no callbacks.
	Listen func(ctx context.Context, callbacks *transport.Program) (stop func(), err error)

	// ListenNotify serves the mount's status monitor in the same way; servers notify it after a
	// restart. From reports whether the server is the caller. nil: only connections reveal
	// restarts.
	ListenNotify func(ctx context.Context, monitor *transport.Program) (stop func(), err error)
	From         func(caller net.Addr) bool

	// Dir is a private directory of this user. Source names a server's export. The next mount with
	// the same Dir and Source releases locks left by a killed process. "": such locks stay.
	Dir, Source string

	// Stable makes the server free this machine's locks after a crash. nil: no notice.
	Stable *Stable
}

// A Stable has the settings that outlive a machine crash (record.go).
type Stable struct {
	Dir  string // private directory on stable storage
	Boot string // names this boot of the machine
	// Net names the mount's network namespace. The initial namespace has the same name in each
	// boot.
	Net string
	// Peer returns the present server's address, for use in a file name.
	Peer func() string
	// Restarted notifies the server Peer of this machine's restart (SM_NOTIFY). name is the
	// machine's name for the server, and state is larger than in the last notice. The server then
	// frees all locks of the machine. An error means that the server was not or must not be
	// notified. Calls may be concurrent.
	Restarted func(ctx context.Context, peer, name string, state int32) error
}

// A Key identifies an owner within a file: a process for fcntl(2), an open file for flock(2) and
// for open file description locks.
type Key struct {
	ID    uint64
	Flock bool
}

// A Request asks for a byte range of a file for an owner. Start and End are inclusive; the highest
// int64 as End means the rest of the file.
type Request struct {
	FH         nfs3.FH
	Key        Key
	Handle     uint64 // number of the open file, for ReleaseHandle
	Pid        uint32 // number of the process, returned by Test
	Who        any    // the caller's credentials
	Start, End uint64
	Exclusive  bool
	Wait       bool // wait until the lock is free
}

func (q *Request) span() span { return span{q.Start, q.End, q.Exclusive} }

// A Holder is the owner of a conflicting lock.
type Holder struct {
	Start, End uint64
	Exclusive  bool
	Pid        uint32 // 0: on another machine
}

// maxWaiters bounds waiting requests: each has a goroutine and a kernel request.
const maxWaiters = 4096

// Pauses between attempts: polling a taken lock, from pollLeast to pollMost, and waiting for the
// end of a grace period.
const (
	pollLeast = 20 * time.Millisecond
	pollMost  = time.Second
	graceWait = time.Second
)

// Locks has the locks of one mount. All methods are safe for concurrent use. A Locks without locks
// runs no goroutine.
type Locks struct {
	// Set once.
	opt    Options
	object []byte // identifies the mount, together with an owner's svid (oh)
	probe  int32  // svid that never has a lock, for TEST
	ctx    context.Context
	end    context.CancelFunc

	work       sync.WaitGroup // all goroutines
	ownerCount atomic.Int64   // known owners; releases read it without mu
	cookies    atomic.Uint64
	leaving    chan struct{} // closed when Close begins
	closing    sync.Once     // closes leaving

	recording      chan struct{}          // one token, for access to records
	records        []*os.File             // record files of servers, held while there may be locks
	notifiedOthers bool                   // tried to notify other servers; guarded by recording
	monitored      atomic.Pointer[string] // the server with completed records

	mu       sync.Mutex // guards all below, and the owners
	files    map[nfs3.FH]*file
	svid     int32 // the last svid given to an owner
	waiting  int
	queued   int // length of all owners' waits together
	watching bool
	journal  journal

	callbacks callbacks
	notices   notices

	seen connID // connection before the oldest lock's request, or at the last check
}

// A file is a file with owners.
type file struct {
	owners map[Key]*owner
	wake   chan struct{} // closed when a lock is released
}

// An owner has locks of one file, or requests them.
type owner struct {
	// Set once.
	fh   nfs3.FH
	key  Key
	svid int32
	slot chan struct{} // one token, for the only call about the owner in flight

	wanted chan struct{} // one token: a goroutine waits for the slot

	// guarded by Locks.mu
	refs    int // calls and waiters
	locked  ranges
	waits   []*wait         // waits in the server's queue, or about to enter it
	pending []*wait         // all waits, queued or polling
	handles map[uint64]bool // open files with locks
	giveUp  *giveUp
	pid     uint32
	cred    any
}

// New returns the locks of a mount, initially none.
func New(o Options) *Locks {
	l := &Locks{opt: o, files: map[nfs3.FH]*file{}, leaving: make(chan struct{}), recording: make(chan struct{}, 1)}
	l.notices.arrived = make(chan struct{}, 1)
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], rand.Uint64())
	l.object = append([]byte(o.Name+":"), hex.EncodeToString(b[:])...)
	// Linux's server distinguishes the owners of a machine only by svid. This machine's kernel
	// counts its svids from 1, so start far above.
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

// enter returns the owner of a request with one more reference.
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
		l.ownerCount.Add(1)
		l.note(o)
	}
	o.refs++
	o.pid, o.cred = q.Pid, q.Who
	return o
}

// known is enter for an existing owner; it returns nil if there is none.
func (l *Locks) known(fh nfs3.FH, key Key) *owner {
	if l.ownerCount.Load() == 0 {
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

// unref drops a reference. An owner without references and locks is forgotten.
func (l *Locks) unref(o *owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.refs--; o.refs > 0 || len(o.locked) > 0 {
		return
	}
	f := l.files[o.fh]
	delete(f.owners, o.key)
	l.ownerCount.Add(-1)
	if len(f.owners) == 0 {
		delete(l.files, o.fh)
	}
}

// Lock takes a lock and replaces the owner's locks in its range. If another owner has the lock,
// Lock returns EAGAIN, or with q.Wait it waits until stop is closed (EINTR). The end of ctx also
// ends calls, with ctx's error; background work then releases the lock.
func (l *Locks) Lock(ctx context.Context, stop <-chan struct{}, q *Request) error {
	if err := l.monitor(ctx, stop, false); err != nil {
		return err
	}
	o := l.enter(q)
	defer l.unref(o)
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
			wait = graceWait // non-blocking requests wait for the server too
		case st != nlm4.Denied && st != nlm4.Blocked || !q.Wait:
			if w != nil {
				w.final = true
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
		w.wantsQueue = q.Wait && l.callable()
	}
}

// Errors of waits without a lock.
var errInterrupted, errClosed error = syscall.EINTR, syscall.ENOLCK

// pause waits before repeating a necessary call. It returns an error if there must be no more
// attempts.
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

// freed returns a channel that is closed after a local release in the owner's file.
func (l *Locks) freed(o *owner) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files[o.fh].wake
}

// Unlock releases the owner's bytes in the range. If Unlock returns nil, the server has released
// them. If ctx ends or a call is given up, the release continues in the background.
func (l *Locks) Unlock(ctx context.Context, fh nfs3.FH, key Key, start, end uint64) error {
	return l.unlockOf(ctx, fh, key, span{start: start, end: end}, true)
}

// unlockOf is Unlock. Unless hurried it also waits for given-up calls' answers.
func (l *Locks) unlockOf(ctx context.Context, fh nfs3.FH, key Key, s span, hurried bool) error {
	o := l.known(fh, key)
	if o == nil {
		return nil
	}
	defer l.unref(o)
	silent := new(giveUp) // never signaled
	if hurried {
		silent = l.nextGiveUp(o)
	}
	return l.runAlone(ctx, o, silent, func() { l.release(o, s) })
}

// Release releases all locks of an owner in a file. Any close(2) of the file by the process does
// so.
func (l *Locks) Release(ctx context.Context, fh nfs3.FH, key Key) error {
	return l.Unlock(ctx, fh, key, 0, lastByte)
}

// ReleaseHandle releases the remaining locks of an open file after its last use.
func (l *Locks) ReleaseHandle(ctx context.Context, fh nfs3.FH, handle uint64) {
	if l.ownerCount.Load() == 0 {
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
		_ = l.Release(ctx, fh, k) // continues in the background
	}
}

// Test returns a lock that conflicts with the request, or nil.
func (l *Locks) Test(ctx context.Context, q *Request) (*Holder, error) {
	o := l.enter(q)
	defer l.unref(o)
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

// errno returns Linux's error for a status.
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

// Close releases all locks while ctx lasts, and ends all goroutines.
func (l *Locks) Close(ctx context.Context) {
	l.closing.Do(func() { close(l.leaving) })
	for l.queues() && l.pause(ctx, pollLeast) == nil { // waiters send CANCEL and leave the queue
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
		_ = l.unlockOf(ctx, o.fh, o.key, allBytes, false) // waits for a silent server too
	}
	l.end()
	l.stopListening()
	l.work.Wait()
	l.closeJournal(ctx.Err() == nil)
	l.closeRecords(ctx.Err() == nil)
}

// queues reports whether the server's queue may have a request of ours.
func (l *Locks) queues() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queued > 0
}
