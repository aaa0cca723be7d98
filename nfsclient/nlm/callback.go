// The server's callbacks: GRANTED, for requests waiting in its queue.

package nlm

import (
	"bytes"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// A server finds a client's lock manager through the port mapper of the client's machine. The port
// mapper registers only one lock manager for the machine, most often the kernel's. So the mount
// takes that place only at its first wait. If it cannot listen, its requests stay out of the
// server's queue and poll.
//
// A callback proves nothing: any host can call. A callback only ends a waiter's pause, and the
// waiter sends LOCK again. Only its reply grants the lock; after a true callback it comes at once.

// callbacks is the state of listening for GRANTED. Locks.mu guards it.
type callbacks struct {
	stop     func()    // stops listening; nil: not listening
	starting bool      // a goroutine is about to listen
	next     time.Time // the earliest next attempt to listen
	heard    bool      // the server called back, and granted no later lock without it
	results  int       // GRANTED_RES calls in flight
	corrects int       // corrections of callbacks in flight: see correct
}

const (
	listenRetry = time.Minute
	maxResults  = 64 // more results are dropped, and the server calls again
	maxCorrects = 64 // more callbacks get an answer that makes the server call again
)

// callable reports whether a request may wait in the server's queue. If not, it starts listening.
func (l *Locks) callable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.callbacks
	if c.stop == nil && !c.starting && l.opt.Listen != nil && time.Now().After(c.next) {
		c.starting = true
		l.work.Go(l.listen)
	}
	return c.stop != nil
}

func (l *Locks) listen() {
	stop, err := l.opt.Listen(l.ctx, l.program())
	l.mu.Lock()
	c := &l.callbacks
	c.starting = false
	if err != nil {
		c.next = time.Now().Add(listenRetry)
	} else if l.ctx.Err() == nil {
		c.stop, stop = stop, nil
	}
	l.mu.Unlock()
	if err == nil && stop != nil {
		stop()
	}
}

// stopListening stops listening for callbacks.
func (l *Locks) stopListening() {
	l.mu.Lock()
	stop := l.callbacks.stop
	end := l.notices.stop
	l.callbacks.stop, l.notices.stop = nil, nil
	l.mu.Unlock()
	for _, stop := range []func(){stop, end} {
		if stop != nil {
			stop()
		}
	}
}

// heard reports whether the server reliably calls back.
func (l *Locks) heard() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.callbacks.heard
}

// missed notes that a lock was granted without a callback, because the network loses callbacks.
func (l *Locks) missed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.callbacks.heard = false
}

// program is NLM version 4 as served by a client.
func (l *Locks) program() *transport.Program {
	null := func(*transport.Call) error { return nil }
	procs := make([]transport.Procedure, nlm4.ProcGrantedMsg+1)
	procs[nlm4.ProcNull] = transport.Procedure{Name: "NULL", Run: null, Inline: true, Idempotent: true}
	procs[nlm4.ProcGranted] = transport.Procedure{Name: "GRANTED", Inline: true, Idempotent: true, Run: func(c *transport.Call) error {
		return l.answer(c, func(r *nlm4.Res) { r.EncodeXDR(c.Res) })
	}}
	procs[nlm4.ProcGrantedMsg] = transport.Procedure{Name: "GRANTED_MSG", Inline: true, Idempotent: true, Run: func(c *transport.Call) error {
		return l.answer(c, l.sendResult)
	}}
	return &transport.Program{Name: "nlm", Number: nlm4.Program, Version: nlm4.Version, Procs: procs}
}

// answer handles both forms of GRANTED; reply sends the result.
func (l *Locks) answer(c *transport.Call, reply func(*nlm4.Res)) error {
	var a nlm4.TestArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	reply(&nlm4.Res{Cookie: a.Cookie, Status: l.granting(&a)})
	return nil
}

// sendResult answers GRANTED_MSG, used by Linux's server. It sends GRANTED_RES to the mount's
// server, never to the caller's address.
func (l *Locks) sendResult(r *nlm4.Res) {
	res := nlm4.Res{Cookie: slices.Clone(r.Cookie), Status: r.Status}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.callbacks.results >= maxResults || l.ctx.Err() != nil {
		return
	}
	l.callbacks.results++
	l.work.Go(func() {
		// Ignore errors: if this call is lost, the server calls back again.
		_ = l.opt.Server.NLM(l.ctx, nil, nlm4.ProcGrantedRes, &res, nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.callbacks.results--
	})
}

// granting ends the pause of waiters for a callback's lock. On DENIED the server releases the lock
// or grants it to another client. So granting answers GRANTED also for bytes held already: the
// reply to LOCK may have overtaken the callback.
func (l *Locks) granting(a *nlm4.TestArgs) nlm4.Status {
	fh, err := nfs3.MakeFH(a.Lock.FH)
	if err != nil || !bytes.Equal(a.Lock.Owner, l.object) {
		return nlm4.Denied
	}
	s := spanOf(&a.Lock, a.Exclusive)
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[fh]
	if f == nil {
		return nlm4.Denied
	}
	for _, o := range f.owners {
		if o.svid != a.Lock.Svid {
			continue
		}
		wanted := o.locked.covers(s)
		for _, w := range o.waits {
			if w.span == s {
				wanted, l.callbacks.heard = true, true
				select {
				case w.called <- struct{}{}:
				default:
				}
			}
		}
		if wanted {
			return nlm4.Granted
		}
		return l.correct(o, s)
	}
	return nlm4.Denied
}

// correct answers a callback for bytes that the owner does not hold, or not in this mode. Linux's
// server repeats a callback after a minute if our answer was lost. DENIED would release all of s,
// even bytes locked in the meantime. So correct answers GRANTED, and corrects the server's state
// when no call about the owner is in flight. The caller holds l.mu.
func (l *Locks) correct(o *owner, s span) nlm4.Status {
	c := &l.callbacks
	select {
	case <-l.leaving: // Close has released everything
		return nlm4.Denied
	default:
	}
	if c.corrects >= maxCorrects {
		return nlm4.DeniedGracePeriod
	}
	c.corrects++
	o.refs++
	l.work.Go(func() {
		defer l.unref(o)
		o.slot <- struct{}{}
		defer func() { <-o.slot }()
		l.restore(o, s, l.lockedIn(o, s))
		l.mu.Lock()
		defer l.mu.Unlock()
		c.corrects--
	})
	return nlm4.Granted
}
