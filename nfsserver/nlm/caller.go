// Calls to clients: GRANTED, repeated until the client answers, and the results of messages.

package nlm

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/portmap"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// The server calls a client only at the address from which the client called, and at the port that
// the client's port mapper reports. Each client has a goroutine that makes the client's calls
// sequentially and ends with its queue. So an unresponsive client delays no other client.

// callers holds the calling goroutines, by client.
type callers struct {
	mu    sync.Mutex // guards all below and the queues
	hosts map[hostKey]*caller
}

// A caller makes the calls of one client.
type caller struct {
	key   hostKey
	queue []outgoing
}

// An outgoing is one call to a client: GRANTED for waiter, or (nil waiter) the result of a message.
type outgoing struct {
	waiter *waiter
	proc   uint32
	result []byte
}

// Queue bounds.
const (
	maxResults = 64      // queued for one client, in addition to GRANTED for its waiters
	maxCallers = 1 << 10 // clients called at once for results alone
)

// The timeout for one call, and the backoff between attempts.
const (
	callTimeout = 10 * time.Second
	backoffMin  = time.Second
	backoffMax  = 30 * time.Second
)

// callGranted queues GRANTED for w's client; w now holds the lock. The file's mu is held.
func (s *Service) callGranted(w *waiter) { s.enqueue(w.owner.host.key, outgoing{waiter: w}) }

// callResult queues the result of a message. With too many results queued it drops the result, and
// the client then sends its message again.
func (s *Service) callResult(k hostKey, proc uint32, result []byte) {
	s.enqueue(k, outgoing{proc: proc, result: result})
}

// enqueue queues a call, and starts the client's goroutine if none runs. Until Close no GRANTED is
// dropped, because the ledger's bounds limit the waiters.
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

// results counts the queued results. callers.mu is held.
func (c *caller) results() (n int) {
	for _, m := range c.queue {
		if m.waiter == nil {
			n++
		}
	}
	return n
}

// next takes the next call from c's queue. If the queue is empty, next removes c from g.
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

// callLoop makes one client's calls until the queue is empty. It repeats an unanswered GRANTED,
// because the client holds the lock without knowing about the grant.
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
			hangUp() // the client's port may have changed
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

// wanted reports whether the call is still needed: a GRANTED is needed until its waiter has ended.
func (m *outgoing) wanted() bool {
	w := m.waiter
	if w == nil {
		return true
	}
	w.file.mu.Lock()
	defer w.file.mu.Unlock()
	return w.file.has(w)
}

// connect connects *rpc to the client's lock manager, unless it is connected.
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

// dial connects to a client's port. It calls from Options.Local, the address known to the client,
// and from a reserved port where possible.
func (s *Service) dial(ctx context.Context, addr netip.Addr, port uint16) (*transport.Client, error) {
	cfg := transport.ClientConfig{Cred: transport.SysCred(), CallTimeout: callTimeout, MaxRetries: -1, ReservedPort: true}
	if s.opts.Local.IsValid() && s.opts.Local.Is4() == addr.Is4() {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: s.opts.Local.AsSlice(), Zone: s.opts.Local.Zone()}}
		cfg.Dial = d.DialContext
	}
	return transport.DialTCP(ctx, net.JoinHostPort(addr.String(), strconv.Itoa(int(port))), cfg)
}

// askPort asks a client's port mapper for the TCP port of a program.
func (s *Service) askPort(ctx context.Context, addr netip.Addr, prog, vers uint32) (uint16, error) {
	c, err := s.dial(ctx, addr, rpcbind.Port)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return portmap.New(c, "tcp").Port(ctx, prog, vers)
}

// send makes one call and waits for its reply.
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

// confirm ends a granted waiter after the reply to GRANTED. The client has taken the lock, or does
// not want the lock. If another call from the client has ended the waiter, confirm changes nothing.
func (s *Service) confirm(w *waiter, wanted bool) {
	f := s.lockFile(w.file.key)
	defer s.unlockFile(f)
	if f != w.file || !f.has(w) {
		return
	}
	if !wanted {
		f.undo(w)
	}
	f.drop(w)
	f.grant()
}

// granted decodes a result's status and discards the rest.
type granted nlm4.Status

func (g *granted) DecodeXDR(d *xdr.Decoder) {
	var r nlm4.Res
	r.DecodeXDR(d)
	*g = granted(r.Status)
}

// encoded is a message in XDR.
type encoded []byte

func (b encoded) EncodeXDR(e *xdr.Encoder) { e.Raw(b) }

// void decodes no results, and ignores any result bytes.
type void struct{}

func (void) EncodeXDR(*xdr.Encoder) {}
func (void) DecodeXDR(*xdr.Decoder) {}
