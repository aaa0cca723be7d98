// SM_NOTIFY: the server reports its restart.

package nlm

import (
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nsm"
)

// New connections reveal most restarts, and faster than notices. But a server may drop a client's
// locks while the connection lives, or its address may move to another machine. Then the server
// notifies the status monitor of the client's machine. A host's monitor (rpc.statd) passes notices
// only to the kernel. On a host without a monitor the mount listens from its first lock on.
//
// A notice proves nothing, so it only makes the mount reclaim its locks. A server that has not
// restarted refuses to reclaim and names the locks' holders.

// notices is the state of listening for SM_NOTIFY. Locks.mu guards it.
type notices struct {
	stop     func()    // stops listening; nil: not listening
	starting bool      // a goroutine is about to listen
	next     time.Time // the earliest next attempt to listen

	arrived chan struct{} // set once; one token: a notice has come
}

// noticeEvery is the least time between reclaims caused by notices.
const noticeEvery = 10 * time.Second

// listenForNotices starts listening for SM_NOTIFY. The caller holds l.mu.
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

// monitorProgram is NSM version 1 as served by a client. It monitors nothing for others.
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

// notified handles NOTIFY. It ignores the server's name in it: a server may have several names.
func (l *Locks) notified(c *transport.Call) error {
	var a nsm.StatChange
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	if l.opt.From == nil || l.opt.From(c.Remote) {
		select {
		case l.notices.arrived <- struct{}{}:
		default:
		}
	}
	return nil
}
