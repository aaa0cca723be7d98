// The server's lock manager: finding it and calling it.

package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// ErrNoLockManager is the error of lock calls if the server's lock manager cannot be found.
var ErrNoLockManager = errors.New("the server has no lock manager (NLM 4)")

// Procedures called by clients, by number; the others are empty.
var lockProcs = func() (p [nlm4.ProcGrantedRes + 1]transport.Proc) {
	const res = 4 + nlm4.MaxObject + 4
	for n, x := range map[uint32]struct {
		name string
		most int
	}{
		nlm4.ProcNull: {"NLM_NULL", 0}, nlm4.ProcTest: {"NLM_TEST", res + 4 + 4 + 4 + nlm4.MaxObject + 8 + 8},
		nlm4.ProcLock: {"NLM_LOCK", res}, nlm4.ProcCancel: {"NLM_CANCEL", res}, nlm4.ProcUnlock: {"NLM_UNLOCK", res},
		nlm4.ProcGrantedRes: {"NLM_GRANTED_RES", 0},
	} {
		p[n] = transport.Proc{Prog: nlm4.Program, Vers: nlm4.Version, Proc: n, Name: x.name, MaxReply: x.most}
	}
	return p
}()

// lockSearch is the pause after a failed search. lockSearchMost bounds the wait for the answers of
// rpcbind and the lock manager, and for their start after a restart of the server. Meanwhile the
// client asks every lockSearchEvery.
const (
	lockSearch      = 5 * time.Second
	lockSearchMost  = 15 * time.Second
	lockSearchEvery = time.Second
)

// A lockManager is the connection to the server's lock manager, made by the first call.
type lockManager struct {
	search chan struct{} // one token, for the searching goroutine

	mu     sync.Mutex // guards all below
	conn   *transport.Client
	own    bool // conn is used only for locks, and closed with the Client
	err    error
	failed time.Time // when err was found
	closed bool
}

// CallLockManager runs one procedure of the server's NLM 4. It uses the NFS connection if NLM is
// there. Otherwise it uses TCP to Options.LockPort or rpcbind's port. ErrNoLockManager: the server
// has none. Slices kept by res are valid only in DecodeXDR.
func (c *Client) CallLockManager(ctx context.Context, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) error {
	conn, err := c.lockConn(ctx)
	if err != nil {
		return err
	}
	auth := c.auth
	if conn != c.conns[0].Client && c.flavor != oncrpc.FlavorSys { // Linux's lock manager gets AUTH_SYS beside Kerberos
		auth = c.other
	}
	if args == nil {
		args = void{}
	}
	if res == nil {
		res = void{}
	}
	err = conn.CallAs(ctx, auth, &lockProcs[proc], args, res, nil, 0)
	if errors.Is(err, transport.ErrProgUnavail) { // the lock manager was there before
		return ErrNoLockManager
	}
	return err
}

// LockManagerConnects returns the number of connections made to the lock manager; 0: no call needed
// one.
func (c *Client) LockManagerConnects() uint64 {
	m := c.locks
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn == nil {
		return 0
	}
	return m.conn.Figures().Connects
}

// leave closes the lock connection to a server that the Client has left; lockMoves finds the next
// server's.
func (m *lockManager) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = nil
	if m.own {
		m.conn.Leave("", errElsewhere)
	}
}

// lockConn returns the connection to the lock manager.
func (c *Client) lockConn(ctx context.Context) (*transport.Client, error) {
	m := c.locks
	if conn, err := m.cached(); conn != nil || err != nil {
		return conn, err
	}
	select {
	case m.search <- struct{}{}:
		defer func() { <-m.search }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if conn, err := m.cached(); conn != nil || err != nil {
		return conn, err
	}
	conn, own, err := c.findLockManager(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err() // ctx ended: this proves nothing about the server
	case err != nil:
		m.err, m.failed = err, time.Now()
	case m.closed && own:
		conn.Close()
		return nil, transport.ErrClosed
	default:
		m.conn, m.own, m.err = conn, own, nil
		// After a move meanwhile, leave found no connection to close.
		if own && !(lockMoves{c}).Here(conn.Addr()) {
			conn.Leave("", errElsewhere)
		}
	}
	return conn, err
}

// cached returns the earlier result; an error counts for lockSearch.
func (m *lockManager) cached() (*transport.Client, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil && time.Since(m.failed) > lockSearch {
		m.err = nil
	}
	return m.conn, m.err
}

// findLockManager searches until it is known whether the server has a lock manager. A dying server
// has no lock manager either. So the server also has to answer over NFS, on the connection from
// before the search. A mount that waits for a dead server waits here too, like Linux's client,
// which calls lock managers as hard mounts do.
func (c *Client) findLockManager(ctx context.Context) (conn *transport.Client, own bool, err error) {
	var starting time.Time // until this time a restarted server may still lack its lock manager
	for {
		before := c.conns[0].Figures().Connects
		conn, own, err = c.searchLockManager(ctx)
		if !errors.Is(err, ErrNoLockManager) || ctx.Err() != nil {
			return conn, own, err
		}
		if alive := c.conns[0].Call(ctx, &lockProcs[nlm4.ProcNull], void{}, void{}, nil, 0); alive != nil && !errors.Is(alive, transport.ErrProgUnavail) {
			return nil, false, alive
		}
		switch now := time.Now(); {
		case c.conns[0].Figures().Connects != before:
			starting = now.Add(lockSearchMost)
		case !now.Before(starting):
			return nil, false, err
		}
		select {
		case <-time.After(lockSearchEvery):
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// searchLockManager tries each possible place once.
func (c *Client) searchLockManager(ctx context.Context) (conn *transport.Client, own bool, err error) {
	if c.opt.LockPort == 0 {
		err := c.conns[0].Call(ctx, &lockProcs[nlm4.ProcNull], void{}, void{}, nil, 0)
		if !errors.Is(err, transport.ErrProgUnavail) {
			return c.conns[0].Client, false, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lockSearchMost)
	defer cancel()
	port, err := c.lockPort(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("%w: neither on its NFS port, nor does rpcbind know one: %w", ErrNoLockManager, err)
	}
	cfg := c.cfg
	cfg.Service, cfg.Responding, cfg.Moves = "nlm", nil, lockMoves{c}
	// With TLS the lock manager must have it too, at each connection: the port comes from a reply
	// in clear, and an attacker who grants locks lets two programs write at once.
	conn, err = transport.DialTCP(ctx, net.JoinHostPort(c.server.address(), strconv.Itoa(port)), cfg)
	switch {
	case isNoTLS(err):
		return nil, false, fmt.Errorf("%w with TLS, and beside TLS no lock call goes in clear: %w", ErrNoLockManager, err)
	case err != nil:
		return nil, false, fmt.Errorf("%w: %w", ErrNoLockManager, err)
	}
	return conn, true, nil
}

// lockPort returns the lock manager's TCP port.
func (c *Client) lockPort(ctx context.Context) (int, error) {
	if c.opt.LockPort != 0 {
		return c.opt.LockPort, nil
	}
	return c.getPort(ctx, nlm4.Program, nlm4.Version)
}

// lockMoves finds the lock manager at a new port after a restart, or at another server. It
// implements transport.Moves.
type lockMoves struct{ c *Client }

// Connected keeps the locks at the same server as the data.
func (m lockMoves) Connected(_ context.Context, addr string, _ transport.Try) error {
	if !m.Here(addr) {
		return &transport.MoveError{Err: errElsewhere}
	}
	return nil
}

// Here reports whether addr is on the server's host.
func (m lockMoves) Here(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && host == m.c.server.address()
}

// Next asks for the lock manager's present port, at the server in use.
func (m lockMoves) Next(ctx context.Context, addr string) string {
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	port, err := m.c.lockPort(ctx)
	if err != nil {
		return addr
	}
	return net.JoinHostPort(m.c.server.address(), strconv.Itoa(port))
}

// close closes a connection used only for locks.
func (m *lockManager) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed = true; !m.own {
		return nil
	}
	m.own = false
	return m.conn.Close()
}
