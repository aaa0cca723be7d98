// Calls to clients: GRANTED until it is answered, and the results of messages.

package nlm

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// A client is called only at the address that it has called from, at the port that its port mapper
// says. The calls of one client are made one after another, by a goroutine that lives while there
// are any: a client that does not answer keeps no other waiting.

// callers has those goroutines.
type callers struct {
	mu    sync.Mutex // guards all below and the queues
	hosts map[hostKey]*caller
}

// A caller makes the calls of one client.
type caller struct {
	key   hostKey
	queue []outgoing
}

// An outgoing is one call to a client: GRANTED of a waiter, or else the result of a message.
type outgoing struct {
	waiter *waiter
	proc   uint32
	result []byte
}

// What waits to be sent.
const (
	maxResults = 64      // of one client, beside its waiters
	maxCallers = 1 << 10 // clients that are called at once for results alone
)

// How long to wait for an answer, and until the next attempt.
const (
	callTimeout = 10 * time.Second
	backoffMin  = time.Second
	backoffMax  = 30 * time.Second
)

// callGranted has the client of a waiter told that it has its lock. The file is locked.
func (s *Service) callGranted(w *waiter) { s.enqueue(w.owner.host.key, outgoing{waiter: w}) }

// callResult sends the result of a message. Where too many wait it is dropped: the client sends its
// message again.
func (s *Service) callResult(k hostKey, proc uint32, result []byte) {
	s.enqueue(k, outgoing{proc: proc, result: result})
}

func (s *Service) enqueue(k hostKey, m outgoing) {
	g := &s.callers
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	c := g.hosts[k]
	if m.waiter == nil && (c == nil && len(g.hosts) >= maxCallers || c != nil && c.results() >= maxResults) {
		return
	}
	if c == nil {
		c = &caller{key: k}
		g.hosts[k] = c
		s.work.Go(func() { s.callLoop(c) })
	}
	c.queue = append(c.queue, m)
}

// results is how many results wait. callers.mu is held.
func (c *caller) results() (n int) {
	for _, m := range c.queue {
		if m.waiter == nil {
			n++
		}
	}
	return n
}

// next takes the next call from the queue; the caller without any is forgotten.
func (g *callers) next(c *caller) (m outgoing, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(c.queue) == 0 {
		delete(g.hosts, c.key)
		return m, false
	}
	m = c.queue[0]
	c.queue = c.queue[1:]
	return m, true
}

// callLoop makes the calls of one client. A GRANTED without an answer is made again until there is
// one: the client holds the lock and does not know.
func (s *Service) callLoop(c *caller) {
	var rpc *transport.Client
	hangUp := func() {
		if rpc != nil {
			rpc.Close()
			rpc = nil
		}
	}
	defer hangUp()
	for pause := backoffMin; ; {
		m, ok := s.callers.next(c)
		if !ok {
			return
		}
		for s.ctx.Err() == nil && m.wanted() {
			err := s.connect(&rpc, c.key.addr)
			if err == nil {
				err = s.send(rpc, m)
			}
			if err == nil {
				pause = backoffMin
				break
			}
			hangUp() // it may have another port now
			if m.waiter == nil {
				break
			}
			select {
			case <-s.ctx.Done():
			case <-time.After(pause):
			}
			pause = min(2*pause, backoffMax)
		}
	}
}

// wanted reports whether the call is still to be made.
func (m *outgoing) wanted() bool {
	w := m.waiter
	if w == nil {
		return true
	}
	w.file.mu.Lock()
	defer w.file.mu.Unlock()
	return w.file.has(w)
}

// connect connects to the lock manager of a client, unless that has been done.
func (s *Service) connect(rpc **transport.Client, addr netip.Addr) (err error) {
	if *rpc != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, callTimeout)
	defer cancel()
	port, err := s.portOf(ctx, addr, nlm4.Program, nlm4.Version)
	if err != nil {
		return err
	}
	*rpc, err = s.dial(ctx, addr, port)
	return err
}

// dial connects to a port of a client, from the address that it knows us by and, where that is
// possible, a reserved port.
func (s *Service) dial(ctx context.Context, addr netip.Addr, port uint16) (*transport.Client, error) {
	cfg := transport.ClientConfig{Cred: transport.SysCred(), CallTimeout: callTimeout, MaxRetries: -1, ReservedPort: true}
	if s.opts.Local.IsValid() && s.opts.Local.Is4() == addr.Is4() {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: s.opts.Local.AsSlice(), Zone: s.opts.Local.Zone()}}
		cfg.Dial = d.DialContext
	}
	return transport.DialTCP(ctx, net.JoinHostPort(addr.String(), strconv.Itoa(int(port))), cfg)
}

// askPort asks the port mapper of a client for the TCP port of a program.
func (s *Service) askPort(ctx context.Context, addr netip.Addr, prog, vers uint32) (uint16, error) {
	c, err := s.dial(ctx, addr, rpcbind.Port)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return c.PortOf(ctx, prog, vers)
}

// send makes a call.
func (s *Service) send(rpc *transport.Client, m outgoing) error {
	if m.waiter == nil {
		p := transport.Proc{Prog: nlm4.Program, Vers: nlm4.Version, Proc: m.proc, Name: "NLM result"}
		return rpc.Call(s.ctx, &p, encoded(m.result), void{}, nil, 0)
	}
	var res granted
	p := transport.Proc{Prog: nlm4.Program, Vers: nlm4.Version, Proc: nlm4.ProcGranted, Name: "NLM4_GRANTED", MaxReply: 4 + nlm4.MaxObject + 4}
	if err := rpc.Call(s.ctx, &p, &m.waiter.call, &res, nil, 0); err != nil {
		return err
	}
	s.confirm(m.waiter, nlm4.Status(res) == nlm4.Granted)
	return nil
}

// confirm ends a waiter that holds its lock: its client has taken it, or does not want it. One that
// is not there any more has been ended by a call of its client, which counts.
func (s *Service) confirm(w *waiter, wanted bool) {
	f := s.hold(w.file.key)
	defer s.letGo(f)
	if f != w.file || !f.has(w) {
		return
	}
	if !wanted {
		f.undo(w)
	}
	f.drop(w)
	f.grant()
}

// granted is the status of a result, which is all that is kept of it.
type granted nlm4.Status

func (g *granted) DecodeXDR(d *xdr.Decoder) {
	var r nlm4.Res
	r.DecodeXDR(d)
	*g = granted(r.Status)
}

// encoded is a message that is XDR already.
type encoded []byte

func (b encoded) EncodeXDR(e *xdr.Encoder) { e.Raw(b) }

// void is no results, whatever there are.
type void struct{}

func (void) EncodeXDR(*xdr.Encoder) {}
func (void) DecodeXDR(*xdr.Decoder) {}
