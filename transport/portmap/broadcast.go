// Calls through port mappers: a program on all machines of a network, whatever its port.

package portmap

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// Broadcast calls a program by the port mappers that receive b: by CALLIT of version 2 or 3, or
// BCAST of version 4 (RFC 1833 §2.2.1, §3.2). res has the results of the latest reply, and at the
// program's own UDP address when each is called, as by transport.Broadcast. The port mappers
// forward only successful replies. Many port mappers forward no calls, because that lets callers
// reach programs that trust the machine: Debian's does with its option -r, and a Table never.
func Broadcast(ctx context.Context, b *transport.Broadcast, vers uint32, p *transport.Proc, args xdr.Marshaler, res xdr.Unmarshaler, each func(at netip.AddrPort) (more bool)) error {
	e := xdr.NewEncoder(nil)
	if args != nil {
		args.EncodeXDR(e)
	}
	if len(e.Items()) > 0 {
		return fmt.Errorf("%s has an item, which a port mapper does not forward", p.Name)
	}
	ask := &rpcbind.CallArgs{Prog: p.Prog, Vers: p.Vers, Proc: p.Proc, Args: e.Bytes()}
	reply := &forwarded{vers: vers, res: res}
	callit := &transport.Proc{Prog: rpcbind.Program, Vers: vers, Proc: rpcbind.ProcCallit, Name: "RPCBPROC_BCAST"}
	return b.Call(ctx, callit, ask, reply, func(from netip.AddrPort) bool {
		at := reply.at
		if !at.Addr().IsValid() || at.Addr().IsUnspecified() {
			at = netip.AddrPortFrom(from.Addr(), at.Port())
		}
		return each(at)
	})
}

// A forwarded is a result of CALLIT or BCAST, with the results of the program inside.
type forwarded struct {
	vers uint32
	res  xdr.Unmarshaler
	at   netip.AddrPort
}

// DecodeXDR reads the result, and the results inside.
func (f *forwarded) DecodeXDR(d *xdr.Decoder) {
	var results []byte
	if f.vers == rpcbind.Version {
		var r rpcbind.CallRes
		r.DecodeXDR(d)
		d.CheckLimit(int(r.Port), 0xffff)
		f.at, results = netip.AddrPortFrom(netip.Addr{}, uint16(r.Port)), r.Results
	} else {
		var r rpcbind.RemoteRes
		r.DecodeXDR(d)
		at, err := rpcbind.ParseUniversalAddr(r.Addr)
		if err != nil {
			d.Fail(err)
		}
		f.at, results = at, r.Results
	}
	if d.Err() != nil || f.res == nil {
		return
	}
	inside := xdr.NewDecoder(results)
	if f.res.DecodeXDR(inside); inside.Err() != nil {
		d.Fail(inside.Err())
	}
}
