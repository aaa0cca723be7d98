// Registration with the port mapper of this host (RFC 1833 §3, version 2).

package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// A Portmap is a port mapper. NFS on its well-known ports needs none, but
// clients that ask it where a program is will find what has been registered.
type Portmap struct {
	Addr string // "": 127.0.0.1:111, where alone it takes registrations
}

// ErrPortTaken is a registration that the port mapper refused: another server
// has the program, or only a privileged process may register.
var ErrPortTaken = errors.New("rpcbind: registration refused")

// portmapTimeout bounds each exchange with the port mapper, which is on this host.
const portmapTimeout = 2 * time.Second

// Set registers the programs on a TCP port. Where there is no port mapper it
// fails at once, with a *ConnectError.
func (m Portmap) Set(ctx context.Context, port int, programs ...*Program) error {
	return m.each(ctx, rpcbind.ProcSet, port, programs, func(p *Program, done bool) error {
		if !done {
			return fmt.Errorf("%w: program %d version %d", ErrPortTaken, p.Number, p.Version)
		}
		return nil
	})
}

// Unset takes the registrations of the programs back. Those that are not there do no harm.
func (m Portmap) Unset(ctx context.Context, programs ...*Program) error {
	return m.each(ctx, rpcbind.ProcUnset, 0, programs, func(*Program, bool) error { return nil })
}

func (m Portmap) each(ctx context.Context, proc uint32, port int, programs []*Program, check func(*Program, bool) error) error {
	addr := m.Addr
	if addr == "" {
		addr = "127.0.0.1:111"
	}
	c, err := DialTCP(ctx, addr, ClientConfig{Service: "rpcbind", CallTimeout: portmapTimeout, MaxRetries: -1})
	if err != nil {
		return err
	}
	defer c.Close()
	call := &Proc{Prog: rpcbind.Program, Vers: rpcbind.VersPmap, Proc: proc, Name: "rpcbind", MaxReply: 4}
	for _, p := range programs {
		args := rpcbind.Mapping{Prog: p.Number, Vers: p.Version, Prot: rpcbind.TCP, Port: uint32(port)}
		var res rpcbind.BoolRes
		if err := c.Call(ctx, call, &args, &res, nil, 0); err != nil {
			return err
		}
		if err := check(p, res.OK); err != nil {
			return err
		}
	}
	return nil
}
