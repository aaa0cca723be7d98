// The server's lock manager: where it is, and calls to it.

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
)

// ErrNoLockManager is the error of calls to the lock manager of a server that has none which can be
// found.
var ErrNoLockManager = errors.New("the server has no lock manager (NLM 4)")

// The procedures that clients call, by number; the others are empty.
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

// lockSearch is how long it is not looked for again after no lock manager was found, lockSearchMost
// how long rpcbind and the lock manager can take to answer, and how long after a restart of the
// server they can take to start, and lockSearchEvery when they are asked again then.
const (
	lockSearch      = 5 * time.Second
	lockSearchMost  = 15 * time.Second
	lockSearchEvery = time.Second
)

// A lockManager is the connection to it, which is made with the first call.
type lockManager struct {
	search chan struct{} // has room for the one who looks for it

	mu     sync.Mutex // guards all below
	conn   *transport.Client
	own    bool // conn is for locks alone, and closed with the Client
	err    error
	failed time.Time // when err was found
	closed bool
}

// CallLockManager does one procedure of NLM 4 at the server: on the connection of NFS where it is
// there, else at Options.LockPort or where rpcbind says, over TCP. ErrNoLockManager: there is none.
// Slices that res keeps are valid in DecodeXDR only.
func (c *Client) CallLockManager(ctx context.Context, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) error {
	conn, err := c.lockConn(ctx)
	if err != nil {
		return err
	}
	if args == nil {
		args = void{}
	}
	if res == nil {
		res = void{}
	}
	err = conn.CallAs(ctx, c.auth, &lockProcs[proc], args, res, nil, 0)
	if errors.Is(err, transport.ErrProgUnavail) { // it was there before
		return ErrNoLockManager
	}
	return err
}

// LockManagerConnects is how often a connection to the lock manager has been made; 0: none has been
// needed.
func (c *Client) LockManagerConnects() uint64 {
	m := c.locks
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn == nil {
		return 0
	}
	return m.conn.Figures().Connects
}

// leave ends the connection to the lock manager of a server that the Client has left; lockMoves
// finds that of the next one.
func (m *lockManager) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = nil
	if m.own {
		m.conn.Leave("", errElsewhere)
	}
}

// lockConn is the connection to the lock manager.
func (c *Client) lockConn(ctx context.Context) (*transport.Client, error) {
	m := c.locks
	if conn, err := m.known(); conn != nil || err != nil {
		return conn, err
	}
	select {
	case m.search <- struct{}{}:
		defer func() { <-m.search }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if conn, err := m.known(); conn != nil || err != nil {
		return conn, err
	}
	conn, own, err := c.findLockManager(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err() // which says nothing of the server
	case err != nil:
		m.err, m.failed = err, time.Now()
	case m.closed && own:
		conn.Close()
		return nil, transport.ErrClosed
	default:
		m.conn, m.own, m.err = conn, own, nil
		if own && !(lockMoves{c}).Here(conn.Addr()) { // the Client has moved since, and leave found no connection yet
			conn.Leave("", errElsewhere)
		}
	}
	return conn, err
}

// known is what has been found before, an error for a time.
func (m *lockManager) known() (*transport.Client, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil && time.Since(m.failed) > lockSearch {
		m.err = nil
	}
	return m.conn, m.err
}

// findLockManager looks for the lock manager until it is known whether the server has one. A server
// that is dying has none either: so one that has none has to answer over NFS, and by the connection
// that it had before. A mount that waits for a dead server waits here too, as Linux's client does,
// whose calls to a lock manager are those of a hard mount.
func (c *Client) findLockManager(ctx context.Context) (conn *transport.Client, own bool, err error) {
	var starting time.Time // until when a server that has started again may still be without
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

// searchLockManager looks for the lock manager once, where it may be.
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
	if conn, err = transport.DialTCP(ctx, net.JoinHostPort(c.home.address(), strconv.Itoa(port)), cfg); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrNoLockManager, err)
	}
	return conn, true, nil
}

// lockPort is the TCP port of the lock manager.
func (c *Client) lockPort(ctx context.Context) (int, error) {
	if c.opt.LockPort != 0 {
		return c.opt.LockPort, nil
	}
	return c.getPort(ctx, nlm4.Program, nlm4.Version)
}

// lockMoves finds a lock manager that has another port after a restart, or is at another server. It
// is a transport.Moves.
type lockMoves struct{ c *Client }

// Connected keeps the locks at the server that the data is at.
func (m lockMoves) Connected(_ context.Context, addr string, _ transport.Try) error {
	if !m.Here(addr) {
		return &transport.MoveError{Err: errElsewhere}
	}
	return nil
}

// Here reports whether addr is at the host of the server.
func (m lockMoves) Here(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && host == m.c.home.address()
}

func (m lockMoves) Next(ctx context.Context, addr string) string {
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	port, err := m.c.lockPort(ctx)
	if err != nil {
		return addr
	}
	return net.JoinHostPort(m.c.home.address(), strconv.Itoa(port))
}

// close closes a connection for locks alone.
func (m *lockManager) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed = true; !m.own {
		return nil
	}
	m.own = false
	return m.conn.Close()
}
