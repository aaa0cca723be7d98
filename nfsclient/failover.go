// Several servers of one volume: choosing one, and failing over to the next.
//
// A Client uses one server at a time for all connections. Data written UNSTABLE to one server is
// neither visible nor committed on another server, where the file's attributes are older too.
// Clients start with a random server to spread the load. If a server does not answer, the Client
// tries the next one. Before a new server receives calls, it must return the mounted roots for
// their handles. A server that does not know a handle, or returns another object, serves another
// volume and is not used.

package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// oneDialTimeout bounds one connection attempt to one of several servers; tests replace it.
var oneDialTimeout = 5 * time.Second

// firstServer selects the Client's first server among n; tests replace it.
var firstServer = rand.IntN

// A location is the address of a Client's server.
type location interface {
	transport.Moves
	address() string // the host
}

// A group is several servers. It implements location.
type group struct {
	// Set once.
	servers []Target                     // one server each
	onMove  func(addr string, err error) // Options.Moved, or a no-op

	search sync.Mutex // serializes the search for the next server; taken before mu

	mu      sync.Mutex // guards all below; taken after the locks of transport.Client
	turn    int        // the server used or tried
	left    []string   // further addresses of its name, "host:port"
	addr    string     // its address, "host:port"
	settled bool       // the server has answered at addr
	used    string     // the last address with calls; "": none
	links   []*transport.Client
	onLeave func() // moves other services' connections too
	roots   []root
	moves   uint64            // number of switches to another server
	refused map[string]string // rejected servers, each with the reason
}

// A root is a mounted directory: every server must have it under the same handle.
type root struct {
	fh           nfs3.FH
	fsid, fileid uint64
}

// newGroup returns the servers of t, starting at a random one. onMove may be nil.
func newGroup(t Target, onMove func(string, error)) *group {
	if onMove == nil {
		onMove = func(string, error) {}
	}
	g := &group{servers: t.Servers(), onMove: onMove, refused: map[string]string{}, onLeave: func() {}}
	g.turn = firstServer(len(g.servers))
	return g
}

// addresses resolves a server's name to "host:port".
func addresses(ctx context.Context, t Target) ([]string, error) {
	if _, err := netip.ParseAddr(t.Host); err == nil {
		return []string{t.Addr()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	hosts, err := lookUp(ctx, t.Host)
	if err != nil {
		return nil, &transport.ConnectError{Service: "nfs", Addr: t.Addr(), Err: err}
	}
	for i, host := range hosts {
		t.Host = host
		hosts[i] = t.Addr()
	}
	return hosts, nil
}

// address returns the host of the server used or tried.
func (g *group) address() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	host, _, _ := net.SplitHostPort(g.addr)
	return host
}

// inUse returns the host that calls go to.
func (g *group) inUse() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	host, _, _ := net.SplitHostPort(g.used)
	return host
}

// Here reports whether addr is the server in use.
func (g *group) Here(addr string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.addr == addr
}

// try makes addr the Client's server, not yet settled.
func (g *group) try(turn int, addr string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turn, g.addr, g.left, g.settled = turn, addr, nil, false
}

// begin makes the Client's connections move together from now on, with a call of leave at each
// move.
func (g *group) begin(conns []*conn, leave func()) {
	g.mu.Lock()
	for _, k := range conns {
		g.links = append(g.links, k.Client)
	}
	g.onLeave = leave
	addr := g.addr
	g.mu.Unlock()
	for _, k := range conns { // a connection may have moved already
		k.Leave(addr, errElsewhere)
	}
}

// mounted adds a root.
func (g *group) mounted(r root) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.roots = append(g.roots, r)
}

// errElsewhere ends connections to a server after the others have left it.
var errElsewhere = errors.New("the client uses another server now")

// Connected settles on a responding server, and moves all connections there.
func (g *group) Connected(ctx context.Context, addr string, try transport.Try) error {
	g.mu.Lock()
	elsewhere, checked, roots := g.settled && g.addr != addr, g.used == addr, g.roots
	g.mu.Unlock()
	if elsewhere {
		return &transport.MoveError{Err: errElsewhere}
	}
	if !checked {
		if err := g.check(ctx, addr, try, roots); err != nil {
			return err
		}
	}
	g.mu.Lock()
	if g.settled && g.addr != addr { // another connection was faster
		g.mu.Unlock()
		return &transport.MoveError{Err: errElsewhere}
	}
	moved := g.used != "" && g.used != addr
	if g.addr, g.settled, g.used = addr, true, addr; moved {
		g.moves++
	}
	delete(g.refused, addr)
	links, leave := g.links, g.onLeave
	g.mu.Unlock()
	if moved {
		for _, l := range links {
			l.Leave(addr, errElsewhere)
		}
		leave()
		g.onMove(addr, nil)
	}
	return nil
}

// check asks a new server for all roots, and returns an error if the server lacks one.
func (g *group) check(ctx context.Context, addr string, try transport.Try, roots []root) error {
	for _, r := range roots {
		err := r.check(ctx, try)
		var other *transport.MoveError
		if errors.As(err, &other) {
			g.refuse(addr, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refuse reports a rejected server, once for each reason.
func (g *group) refuse(addr string, err error) {
	g.mu.Lock()
	known := g.refused[addr] == err.Error()
	g.refused[addr] = err.Error()
	g.mu.Unlock()
	if !known {
		g.onMove(addr, err)
	}
}

// check asks a server for a root. A MoveError means that the server has another volume.
func (r *root) check(ctx context.Context, try transport.Try) error {
	args, res := nfs3.GetattrArgs{FH: r.fh}, nfs3.GetattrRes{}
	err := try(ctx, &procs[nfs3.ProcGetattr], &args, &res)
	switch {
	case err != nil:
		return err
	case res.Status == nfs3.ErrJukebox:
		return &StatusError{Proc: nfs3.ProcGetattr, Status: res.Status}
	case res.Status != nfs3.OK:
		return &transport.MoveError{Err: fmt.Errorf("%w: it refuses the handle of the directory that is mounted (%v)", ErrOtherVolume, res.Status)}
	case res.Attr.Type != nfs3.TypeDir || res.Attr.Fsid != r.fsid || res.Attr.Fileid != r.fileid:
		return &transport.MoveError{Err: fmt.Errorf("%w: the directory that is mounted is file %d of file system %x, and there %d of %x", ErrOtherVolume, r.fileid, r.fsid, res.Attr.Fileid, res.Attr.Fsid)}
	}
	return nil
}

// Next moves to the next address, then the next server, if addr does not answer. Next ignores that
// other connections to addr still seem up, because an idle connection does not notice the server's
// end.
func (g *group) Next(ctx context.Context, addr string) string {
	g.search.Lock()
	defer g.search.Unlock()
	g.mu.Lock()
	now := g.addr
	g.mu.Unlock()
	if now != addr {
		return now
	}
	return g.advance(ctx, addr)
}

// advance is Next from the current address. The caller holds search.
func (g *group) advance(ctx context.Context, from string) string {
	g.mu.Lock()
	turn, left := g.turn, g.left
	g.mu.Unlock()
	for range len(g.servers) {
		if len(left) > 0 {
			break
		}
		turn = (turn + 1) % len(g.servers)
		left, _ = addresses(ctx, g.servers[turn]) // a server without an address is skipped
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.addr != from || len(left) == 0 { // another connection may have settled meanwhile
		return g.addr
	}
	g.turn, g.addr, g.left, g.settled = turn, left[0], left[1:], false
	return g.addr
}

// dialGroup makes the first connection, to the first responding server.
func (c *Client) dialGroup(ctx context.Context, g *group) error {
	var errs []error
	n := len(g.servers)
	first := g.turn
	for i := range n {
		turn := (first + i) % n
		err := c.dialServer(ctx, g, turn, n-i)
		if err == nil {
			return nil
		}
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// dialServer makes the first connection to one server, within an equal share of the time for n.
func (c *Client) dialServer(ctx context.Context, g *group, turn, n int) error {
	limit := oneDialTimeout
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/time.Duration(n))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	addrs, err := addresses(ctx, g.servers[turn])
	if err != nil {
		return err
	}
	for i, addr := range addrs {
		g.try(turn, addr)
		var link *transport.Client
		if link, err = c.dialShare(ctx, addr, len(addrs)-i); err == nil {
			c.conns = []*conn{newConn(link)}
			return nil
		}
	}
	return err
}

// group returns the group, or nil for a single server.
func (c *Client) group() *group {
	g, _ := c.server.(*group)
	return g
}

// Moves counts switches to another server.
func (c *Client) Moves() uint64 {
	g := c.group()
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.moves
}

// followRoot makes further servers prove a root before they are used.
func (c *Client) followRoot(ctx context.Context, fh nfs3.FH) error {
	g := c.group()
	if g == nil {
		return nil
	}
	attr, err := c.Getattr(ctx, fh)
	if err == nil {
		g.mounted(root{fh: fh, fsid: attr.Fsid, fileid: attr.Fileid})
	}
	return err
}

// CheckServers asks each responding server for the mounted volume. It returns the error of the
// first server without the volume. It calls silent for each server without an answer.
func (c *Client) CheckServers(ctx context.Context, silent func(server string, err error)) error {
	g := c.group()
	if g == nil {
		return nil
	}
	g.mu.Lock()
	used, roots := g.used, g.roots
	g.mu.Unlock()
	for _, s := range g.servers {
		addrs, err := addresses(ctx, s)
		if err != nil {
			silent(s.Addr(), err)
		}
		for _, addr := range addrs {
			if addr == used {
				continue
			}
			var other *transport.MoveError
			if err = c.checkAt(ctx, addr, roots); errors.As(err, &other) {
				return fmt.Errorf("server %s: %w", addr, err)
			} else if err != nil {
				silent(addr, err)
			}
		}
	}
	return nil
}

// checkAt asks for the roots over a separate connection.
func (c *Client) checkAt(ctx context.Context, addr string, roots []root) error {
	ctx, cancel := context.WithTimeout(ctx, oneDialTimeout)
	defer cancel()
	cfg := c.cfg
	cfg.Responding, cfg.Observe, cfg.Moves = nil, nil, nil
	link, err := c.dialBy(ctx, addr, cfg)
	if err != nil {
		return err
	}
	defer link.Close()
	for _, r := range roots {
		err := r.check(ctx, func(ctx context.Context, p *transport.Proc, args xdr.Marshaler, res xdr.Unmarshaler) error {
			return link.Call(ctx, p, args, res, nil, 0)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
