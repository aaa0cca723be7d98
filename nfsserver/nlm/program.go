// The NLM program: its table of procedures, and their adapters to the code in calls.go.

package nlm

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// Programs returns the programs to serve beside the Server's own (nfsserver.Listen.Programs).
func (s *Service) Programs() []*transport.Program {
	return []*transport.Program{s.lockProgram(), s.statProgram()}
}

// lockProgram is NLM version 4. Calls taking or releasing locks are not idempotent: a late copy of
// a LOCK would lock again bytes released since.
func (s *Service) lockProgram() *transport.Program {
	test, lock, cancel, unlock := s.testing(), s.locking(true), s.canceling(), s.unlocking()
	procs := []transport.Procedure{
		nlm4.ProcNull:       {Name: "NULL", Run: null, Inline: true, Idempotent: true},
		nlm4.ProcTest:       {Name: "TEST", Run: test.answer, Busy: test.busy, Lane: s.laneAfter(1), Idempotent: true},
		nlm4.ProcLock:       {Name: "LOCK", Run: lock.answer, Busy: lock.busy, Lane: s.laneAfter(2)},
		nlm4.ProcCancel:     {Name: "CANCEL", Run: cancel.answer, Busy: cancel.busy, Lane: s.laneAfter(2)},
		nlm4.ProcUnlock:     {Name: "UNLOCK", Run: unlock.answer, Busy: unlock.busy, Lane: s.laneAfter(0)},
		nlm4.ProcGranted:    {Name: "GRANTED", Run: s.granted().answer, Idempotent: true},
		nlm4.ProcTestMsg:    {Name: "TEST_MSG", Run: test.call(nlm4.ProcTestRes), Busy: nothing, Lane: s.laneAfter(1), Idempotent: true},
		nlm4.ProcLockMsg:    {Name: "LOCK_MSG", Run: lock.call(nlm4.ProcLockRes), Busy: nothing, Lane: s.laneAfter(2)},
		nlm4.ProcCancelMsg:  {Name: "CANCEL_MSG", Run: cancel.call(nlm4.ProcCancelRes), Busy: nothing, Lane: s.laneAfter(2)},
		nlm4.ProcUnlockMsg:  {Name: "UNLOCK_MSG", Run: unlock.call(nlm4.ProcUnlockRes), Busy: nothing, Lane: s.laneAfter(0)},
		nlm4.ProcGrantedMsg: {Name: "GRANTED_MSG", Run: s.granted().call(nlm4.ProcGrantedRes), Idempotent: true},
		// Results of calls this server never makes: its GRANTED has a reply.
		nlm4.ProcTestRes:    {Name: "TEST_RES", Run: null, Inline: true, Idempotent: true},
		nlm4.ProcLockRes:    {Name: "LOCK_RES", Run: null, Inline: true, Idempotent: true},
		nlm4.ProcCancelRes:  {Name: "CANCEL_RES", Run: null, Inline: true, Idempotent: true},
		nlm4.ProcUnlockRes:  {Name: "UNLOCK_RES", Run: null, Inline: true, Idempotent: true},
		nlm4.ProcGrantedRes: {Name: "GRANTED_RES", Run: null, Inline: true, Idempotent: true},
		nlm4.ProcShare:      {Name: "SHARE", Run: s.share((*Service).doShare), Busy: shareBusy, Lane: s.laneOfShare},
		nlm4.ProcUnshare:    {Name: "UNSHARE", Run: s.share((*Service).doUnshare), Busy: shareBusy, Lane: s.laneOfShare},
		nlm4.ProcNMLock:     {Name: "NM_LOCK", Run: s.locking(false).answer, Busy: lock.busy, Lane: s.laneAfter(2)},
		nlm4.ProcFreeAll:    {Name: "FREE_ALL", Run: s.runFreeAll},
	}
	return &transport.Program{Name: "nlm", Number: nlm4.Program, Version: nlm4.Version, Procs: procs, Lanes: s.srv.Names()}
}

// null does nothing, and leaves any arguments undecoded.
func null(*transport.Call) error { return nil }

// nothing is the Busy of calls with a void reply: their clients retry after silence.
func nothing(*transport.Call) {}

// A procedure exists in two forms: with a reply, and as a message answered by another call.
type procedure struct {
	svc *Service
	// run decodes the arguments and does the work. The result may alias the arguments.
	run func(c *transport.Call) (res xdr.Marshaler, caller []byte, err error)
	// busy encodes a result after which the client retries.
	busy func(*transport.Call)
}

// answer runs the procedure as a call with a reply.
func (p procedure) answer(c *transport.Call) error {
	res, _, err := p.run(c)
	if err == nil {
		res.EncodeXDR(c.Res)
	}
	return err
}

// call runs the procedure as a message: a call of the client's procedure proc carries the result.
func (p procedure) call(proc uint32) func(*transport.Call) error {
	return func(c *transport.Call) error {
		res, caller, err := p.run(c)
		if err != nil {
			return err
		}
		e := xdr.NewEncoder(nil)
		res.EncodeXDR(e)
		p.svc.callResult(p.svc.hostOf(c, caller), proc, e.Bytes())
		return nil
	}
}

// testing adapts TEST: it decodes the arguments and encodes the result.
func (s *Service) testing() procedure {
	return procedure{s, func(c *transport.Call) (xdr.Marshaler, []byte, error) {
		var a nlm4.TestArgs
		a.DecodeXDR(c.Args)
		if err := c.ArgsErr(); err != nil {
			return nil, nil, err
		}
		res := s.test(c, &a)
		return &res, a.Lock.Caller, nil
	}, busy}
}

// locking adapts LOCK, or NM_LOCK (not monitored).
func (s *Service) locking(monitored bool) procedure {
	return procedure{s, func(c *transport.Call) (xdr.Marshaler, []byte, error) {
		var a nlm4.LockArgs
		a.DecodeXDR(c.Args)
		if err := c.ArgsErr(); err != nil {
			return nil, nil, err
		}
		return &nlm4.Res{Cookie: a.Cookie, Status: s.lock(c, &a, monitored)}, a.Lock.Caller, nil
	}, busy}
}

// canceling adapts CANCEL.
func (s *Service) canceling() procedure {
	return procedure{s, func(c *transport.Call) (xdr.Marshaler, []byte, error) {
		var a nlm4.CancelArgs
		a.DecodeXDR(c.Args)
		if err := c.ArgsErr(); err != nil {
			return nil, nil, err
		}
		return &nlm4.Res{Cookie: a.Cookie, Status: s.cancel(c, &a)}, a.Lock.Caller, nil
	}, busy}
}

// unlocking adapts UNLOCK.
func (s *Service) unlocking() procedure {
	return procedure{s, func(c *transport.Call) (xdr.Marshaler, []byte, error) {
		var a nlm4.UnlockArgs
		a.DecodeXDR(c.Args)
		if err := c.ArgsErr(); err != nil {
			return nil, nil, err
		}
		return &nlm4.Res{Cookie: a.Cookie, Status: s.unlock(c, &a)}, a.Lock.Caller, nil
	}, busy}
}

// granted is GRANTED, called by servers. This server waits for no other server's lock, so it
// denies.
func (s *Service) granted() procedure {
	return procedure{s, func(c *transport.Call) (xdr.Marshaler, []byte, error) {
		var a nlm4.TestArgs
		a.DecodeXDR(c.Args)
		if err := c.ArgsErr(); err != nil {
			return nil, nil, err
		}
		return &nlm4.Res{Cookie: a.Cookie, Status: nlm4.Denied}, a.Lock.Caller, nil
	}, nil}
}

// share is SHARE and UNSHARE.
func (s *Service) share(work func(*Service, *transport.Call, *nlm4.ShareArgs) nlm4.Status) func(*transport.Call) error {
	return func(c *transport.Call) error {
		var a nlm4.ShareArgs
		a.DecodeXDR(c.Args)
		if err := c.ArgsErr(); err != nil {
			return err
		}
		res := nlm4.ShareRes{Cookie: a.Cookie, Status: work(s, c, &a)}
		res.EncodeXDR(c.Res)
		return nil
	}
}

// runFreeAll adapts FREE_ALL, which has a void reply.
func (s *Service) runFreeAll(c *transport.Call) error {
	var a nlm4.Notify
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	s.freeAll(c, &a)
	return nil
}

// busy is the Busy of the procedures with a result: clients retry after this status. A TEST result
// consists of no more in this case.
func busy(c *transport.Call) {
	args := *c.Args
	res := nlm4.Res{Cookie: args.Opaque(nlm4.MaxObject), Status: nlm4.DeniedGracePeriod}
	res.EncodeXDR(c.Res)
}

// shareBusy is the Busy of SHARE and UNSHARE, whose result has a sequence number more.
func shareBusy(c *transport.Call) {
	args := *c.Args
	res := nlm4.ShareRes{Cookie: args.Opaque(nlm4.MaxObject), Status: nlm4.DeniedGracePeriod}
	res.EncodeXDR(c.Res)
}

// laneAfter returns the Lane of a procedure with the arguments cookie, some booleans, and lock.
func (s *Service) laneAfter(booleans int) func(*transport.Call) int {
	return func(c *transport.Call) int {
		args := *c.Args
		args.Opaque(nlm4.MaxObject)
		for range booleans {
			args.Bool()
		}
		args.Opaque(nlm4.MaxName)
		return s.srv.Lane(args.Opaque(nlm4.MaxObject))
	}
}

// laneOfShare is the Lane of SHARE and UNSHARE: their file handle follows cookie and caller.
func (s *Service) laneOfShare(c *transport.Call) int { return s.laneAfter(0)(c) }

// hostOf identifies the client calling.
func (s *Service) hostOf(c *transport.Call, caller []byte) hostKey {
	k := hostKey{uid: -1, name: string(caller)}
	if c.Owner.Kind == transport.OwnerLocal && c.Owner.UID != 0 {
		k.uid = int64(c.Owner.UID)
	}
	if at, err := netip.ParseAddrPort(c.Remote.String()); err == nil {
		k.addr = at.Addr().Unmap()
	}
	return k
}
