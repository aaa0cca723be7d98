// The server's callbacks: GRANTED, for requests that wait in its queue.

package nlm

import (
	"bytes"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// A server looks for the lock manager of a client where the port mapper of the client's machine
// says. That names one program for the machine, most often the kernel's; so callbacks are listened
// for when somebody first waits, and where that cannot be, requests stay out of the queue and ask
// again and again.
//
// A callback is no proof: anybody can call. It ends the pause of who waits, and the lock is there
// when the reply to the next LOCK says so, which a server that has granted it answers at once.

// callbacks is whether GRANTED reaches us. Locks.mu guards it.
type callbacks struct {
	stop     func()    // ends the listening; nil: there is none
	starting bool      // it is about to begin
	next     time.Time // when it is worth another try
	heard    bool      // the server has called, and since then no lock was found granted without a call
	results  int       // GRANTED_RES on their way
	corrects int       // callbacks of what is not held as they say, about to be corrected at the server
}

const (
	listenRetry = time.Minute
	maxResults  = 64 // what comes beyond is dropped, and the server calls again
	maxCorrects = 64 // what comes beyond is answered so that the server calls again
)

// callable reports whether a request may wait in the server's queue. It has the listening begin.
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

// stopListening ends the callbacks.
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

// heard reports whether the server can be relied on to call.
func (l *Locks) heard() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.callbacks.heard
}

// missed notes that a lock was granted and no call came: something on the way keeps them from us.
func (l *Locks) missed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.callbacks.heard = false
}

// program is NLM version 4 as a client serves it.
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

// answer is both forms of GRANTED; reply has the result on its way.
func (l *Locks) answer(c *transport.Call, reply func(*nlm4.Res)) error {
	var a nlm4.TestArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	reply(&nlm4.Res{Cookie: a.Cookie, Status: l.granting(&a)})
	return nil
}

// sendResult answers GRANTED_MSG, as Linux's server calls: by GRANTED_RES at the server itself,
// never to who says that he is it.
func (l *Locks) sendResult(r *nlm4.Res) {
	res := nlm4.Res{Cookie: slices.Clone(r.Cookie), Status: r.Status}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.callbacks.results >= maxResults || l.ctx.Err() != nil {
		return
	}
	l.callbacks.results++
	l.work.Go(func() {
		_ = l.opt.Server.NLM(l.ctx, nil, nlm4.ProcGrantedRes, &res, nil) // lost, the server calls again
		l.mu.Lock()
		defer l.mu.Unlock()
		l.callbacks.results--
	})
}

// granting ends the pause of those who wait for what a callback says is theirs. Denied has the
// server give it to another, or release it: so what is held already is wanted, of which the reply
// to LOCK came first.
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
		wanted := o.held.covers(s)
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

// correct answers a callback of what an owner does not hold that way, by now: Linux's server calls
// again after a minute where our answer was lost. Denied has it release all of s, also bytes that
// the owner has locked since, or is about to. So it is accepted, and when no call is made about the
// owner the server is told what is held of s. mu is held.
func (l *Locks) correct(o *owner, s span) nlm4.Status {
	c := &l.callbacks
	select {
	case <-l.leaving: // which has all released
		return nlm4.Denied
	default:
	}
	if c.corrects >= maxCorrects {
		return nlm4.DeniedGracePeriod
	}
	c.corrects++
	o.refs++
	l.work.Go(func() {
		defer l.leave(o)
		o.slot <- struct{}{}
		defer func() { <-o.slot }()
		l.restore(o, s, l.heldIn(o, s))
		l.mu.Lock()
		defer l.mu.Unlock()
		c.corrects--
	})
	return nlm4.Granted
}
