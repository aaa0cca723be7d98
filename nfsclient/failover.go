// Several servers of one volume: which one a Client uses, and where it goes when that one dies.
//
// All connections of a Client are to one server at a time: what is written UNSTABLE to one is not
// seen, nor committed, by another, whose attributes of the file are older, too. Clients begin with
// a server that is drawn, so that all are used. When a server does not answer the next one is
// tried, and before a call goes there it is asked for the roots that are mounted: a server that
// does not know their handles, or has something else by them, serves another volume and is not
// used.

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

// oneDialTimeout bounds an attempt to connect to one of several servers; tests put another in its
// place.
var oneDialTimeout = 5 * time.Second

// drawn is the server that a Client begins with, of n; tests put another in its place.
var drawn = rand.IntN

// A location is where the server of a Client is.
type location interface {
	transport.Moves
	address() string // the host
}

// A group is several servers. It is a location.
type group struct {
	// Set once.
	servers []Target                     // of one server each
	told    func(addr string, err error) // Options.Moved, or nothing

	search sync.Mutex // held by who looks for the next server; before mu

	mu      sync.Mutex // guards all below; transport.Client has locks that come before it
	turn    int        // the server that is used or tried
	left    []string   // further addresses of its name, "host:port"
	addr    string     // where it is, "host:port"
	settled bool       // it has answered there
	used    string     // the address that calls go to, or went to last; "": none did
	links   []*transport.Client
	leave   func() // has other services move, too
	roots   []root
	moves   uint64            // to another server
	refused map[string]string // servers that are not used, and why
}

// A root is a directory that is mounted: every server has to have it by the same handle.
type root struct {
	fh           nfs3.FH
	fsid, fileid uint64
}

func newGroup(t Target, told func(string, error)) *group {
	if told == nil {
		told = func(string, error) {}
	}
	g := &group{servers: t.Servers(), told: told, refused: map[string]string{}, leave: func() {}}
	g.turn = drawn(len(g.servers))
	return g
}

// addresses are those of a server's name, "host:port".
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

func (g *group) address() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	host, _, _ := net.SplitHostPort(g.addr)
	return host
}

// inUse is the host that calls go to.
func (g *group) inUse() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	host, _, _ := net.SplitHostPort(g.used)
	return host
}

// Here reports whether addr is the server that is used.
func (g *group) Here(addr string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.addr == addr
}

// try has the Client be at addr from now on, unless that fails.
func (g *group) try(turn int, addr string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turn, g.addr, g.left, g.settled = turn, addr, nil, false
}

// begin has the connections of the Client move together, and what leave closes besides.
func (g *group) begin(conns []*conn, leave func()) {
	g.mu.Lock()
	for _, k := range conns {
		g.links = append(g.links, k.Client)
	}
	g.leave = leave
	addr := g.addr
	g.mu.Unlock()
	for _, k := range conns { // one may have moved already
		k.Leave(addr, errElsewhere)
	}
}

// mounted enters a root.
func (g *group) mounted(r root) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.roots = append(g.roots, r)
}

// errElsewhere ends connections to a server that the other connections have left.
var errElsewhere = errors.New("the client uses another server now")

// Connected settles at a server that has answered, and has all connections go there.
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
	links, leave := g.links, g.leave
	g.mu.Unlock()
	if moved {
		for _, l := range links {
			l.Leave(addr, errElsewhere)
		}
		leave()
		g.told(addr, nil)
	}
	return nil
}

// check asks a server that is new for the roots.
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

// refuse tells once of a server that is not used.
func (g *group) refuse(addr string, err error) {
	g.mu.Lock()
	known := g.refused[addr] == err.Error()
	g.refused[addr] = err.Error()
	g.mu.Unlock()
	if !known {
		g.told(addr, err)
	}
}

// check asks a server for a root; a MoveError: it serves another volume.
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

// Next goes to the next address, and the next server, when nobody answers at addr. That another
// connection is up there says nothing: one that nobody uses does not notice the end of its server.
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

// advance is Next from the address of the moment. search is held.
func (g *group) advance(ctx context.Context, from string) string {
	g.mu.Lock()
	turn, left := g.turn, g.left
	g.mu.Unlock()
	for range len(g.servers) {
		if len(left) > 0 {
			break
		}
		turn = (turn + 1) % len(g.servers)
		left, _ = addresses(ctx, g.servers[turn]) // one without an address is passed over
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.addr != from || len(left) == 0 { // or a connection has come back to where it was
		return g.addr
	}
	g.turn, g.addr, g.left, g.settled = turn, left[0], left[1:], false
	return g.addr
}

// dialGroup makes the first connection, to the first of the servers that takes it.
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

// dialServer makes the first connection to one server, in a fair share of the time for n.
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

// several reports whether there is more than one server.
func (c *Client) several() *group {
	g, _ := c.home.(*group)
	return g
}

// Moves is how often another server has taken the place of the one before.
func (c *Client) Moves() uint64 {
	g := c.several()
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.moves
}

// followRoot has further servers asked for a root before they are used.
func (c *Client) followRoot(ctx context.Context, fh nfs3.FH) error {
	g := c.several()
	if g == nil {
		return nil
	}
	attr, err := c.Getattr(ctx, fh)
	if err == nil {
		g.mounted(root{fh: fh, fsid: attr.Fsid, fileid: attr.Fileid})
	}
	return err
}

// CheckServers asks each of several servers that answers whether it serves the volume that is
// mounted, and returns the error of the first that does not. silent is told of each that does not
// answer.
func (c *Client) CheckServers(ctx context.Context, silent func(server string, err error)) error {
	g := c.several()
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

// checkAt asks for the roots over a connection of its own.
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
