// SM_NOTIFY: the server tells that it has started again.

package nlm

import (
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nsm"
)

// Most restarts are noticed by the connection, and first there. But a server may also take locks
// from a client whose connection goes on, or has an address move to another machine, and then tells
// the status monitor of the client's machine. Where that is the host's (rpc.statd) it tells the
// kernel alone; where there is none the mount is told, from its first lock on.
//
// A notice is no proof: it has the locks reclaimed, which a server that has not started again
// refuses, and says then who has them.

// notices is whether SM_NOTIFY reaches us. Locks.mu guards it.
type notices struct {
	stop     func()    // ends the listening; nil: there is none
	starting bool      // it is about to begin
	next     time.Time // when it is worth another try

	told chan struct{} // set once; has room for a notice that has come
}

// noticeEvery is how often locks are reclaimed at most because of notices.
const noticeEvery = 10 * time.Second

// listenForNotices has the listening begin. mu is held.
func (l *Locks) listenForNotices() {
	n := &l.notices
	if n.stop != nil || n.starting || l.opt.ListenNotify == nil || time.Now().Before(n.next) {
		return
	}
	n.starting = true
	l.work.Go(func() {
		stop, err := l.opt.ListenNotify(l.ctx, l.monitorProgram())
		l.mu.Lock()
		n.starting = false
		if err != nil {
			n.next = time.Now().Add(listenRetry)
		} else if l.ctx.Err() == nil {
			n.stop, stop = stop, nil
		}
		l.mu.Unlock()
		if err == nil && stop != nil {
			stop()
		}
	})
}

// monitorProgram is NSM version 1 as a client serves it. It monitors nothing for others.
func (l *Locks) monitorProgram() *transport.Program {
	null := func(*transport.Call) error { return nil }
	refuse := func(c *transport.Call) error {
		res := nsm.StatRes{Result: nsm.Fail}
		res.EncodeXDR(c.Res)
		return nil
	}
	state := func(c *transport.Call) error {
		c.Res.Int32(0)
		return nil
	}
	return &transport.Program{Name: "nsm", Number: nsm.Program, Version: nsm.Version, Procs: []transport.Procedure{
		nsm.ProcNull:     {Name: "NULL", Run: null, Inline: true, Idempotent: true},
		nsm.ProcStat:     {Name: "STAT", Run: refuse, Inline: true, Idempotent: true},
		nsm.ProcMon:      {Name: "MON", Run: refuse, Inline: true, Idempotent: true},
		nsm.ProcUnmon:    {Name: "UNMON", Run: state, Inline: true, Idempotent: true},
		nsm.ProcUnmonAll: {Name: "UNMON_ALL", Run: state, Inline: true, Idempotent: true},
		nsm.ProcSimu:     {Name: "SIMU_CRASH", Run: null, Inline: true, Idempotent: true},
		nsm.ProcNotify:   {Name: "NOTIFY", Run: l.notified, Inline: true, Idempotent: true},
	}}
}

// notified is NOTIFY. The name that a server gives itself does not count: it may be any of several.
func (l *Locks) notified(c *transport.Call) error {
	var a nsm.StatChange
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	if l.opt.From == nil || l.opt.From(c.Remote) {
		select {
		case l.notices.told <- struct{}{}:
		default:
		}
	}
	return nil
}
