// Program 100000, versions 2 to 4, over a Table.

package portmap

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// Programs returns the port mapper, to be served over TCP and UDP.
//
// All callers may query it. Only local root and the process's own user may change it, identified by
// the kernel as the owner of the call's socket. CALLIT, BCAST and INDIRECT are missing: they would
// make a port mapper call other programs for its callers.
func (t *Table) Programs() []*transport.Program {
	null := transport.Procedure{Name: "NULL", Inline: true, Idempotent: true, Run: func(*transport.Call) error { return nil }}
	ask := func(name string, run func(*transport.Call) error) transport.Procedure {
		return transport.Procedure{Name: name, Inline: true, Idempotent: true, Run: run}
	}
	change := func(name string, run func(*transport.Call) error) transport.Procedure {
		return transport.Procedure{Name: name, Inline: true, Run: run}
	}
	two := []transport.Procedure{
		rpcbind.ProcNull:    null,
		rpcbind.ProcSet:     change("SET", t.pmapSet),
		rpcbind.ProcUnset:   change("UNSET", t.pmapUnset),
		rpcbind.ProcGetport: ask("GETPORT", t.getport),
		rpcbind.ProcDump:    ask("DUMP", t.pmapDump),
	}
	three := []transport.Procedure{
		rpcbind.ProcNull:    null,
		rpcbind.ProcSet:     change("SET", t.rpcbSet),
		rpcbind.ProcUnset:   change("UNSET", t.rpcbUnset),
		rpcbind.ProcGetaddr: ask("GETADDR", func(c *transport.Call) error { return t.getaddr(c, false) }),
		rpcbind.ProcDump:    ask("DUMP", t.rpcbDump),
		rpcbind.ProcGettime: ask("GETTIME", gettime),
	}
	four := append([]transport.Procedure(nil), three...)
	four = append(four, make([]transport.Procedure, int(rpcbind.ProcGetversaddr)+1-len(four))...)
	four[rpcbind.ProcGetversaddr] = ask("GETVERSADDR", func(c *transport.Call) error { return t.getaddr(c, true) })

	versions := []*transport.Program{
		{Name: "portmap", Version: rpcbind.Version, Procs: two},
		{Name: "rpcbind", Version: rpcbind.Version3, Procs: three},
		{Name: "rpcbind", Version: rpcbind.Version4, Procs: four},
	}
	for _, p := range versions {
		p.Number = rpcbind.Program
	}
	return versions
}

// mayChange returns the owner for a change; ok is false if the caller has no right to change the
// table.
func mayChange(c *transport.Call) (owner string, ok bool) {
	if c.Owner.Kind != transport.OwnerLocal || c.Owner.UID != 0 && c.Owner.UID != uint32(os.Geteuid()) {
		return "", false
	}
	if c.Owner.UID == 0 {
		return superuser, true
	}
	return strconv.FormatUint(uint64(c.Owner.UID), 10), true
}

// args decodes a call's arguments.
func args(c *transport.Call, v xdr.Unmarshaler) error {
	v.DecodeXDR(c.Args)
	return c.ArgsErr()
}

// pmapNetids are version 2's transports, only for IPv4.
var pmapNetids = map[uint32]string{rpcbind.TCP: rpcbind.NetTCP, rpcbind.UDP: rpcbind.NetUDP}

// pmapSet does SET of version 2: it adds an IPv4 binding at all addresses of this machine.
func (t *Table) pmapSet(c *transport.Call) error {
	var m rpcbind.Mapping
	if err := args(c, &m); err != nil {
		return err
	}
	owner, ok := mayChange(c)
	ok = ok && m.Port <= 0xffff
	c.Res.Bool(ok && t.set(&rpcbind.Binding{Prog: m.Prog, Vers: m.Vers, Netid: pmapNetids[m.Prot],
		Addr: rpcbind.UniversalAddr(netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(m.Port)))}, owner))
	return nil
}

// pmapUnset does UNSET of version 2: it removes a program from all version-2 transports, regardless
// of the protocol in the arguments (RFC 1833 §3.2).
func (t *Table) pmapUnset(c *transport.Call) error {
	var m rpcbind.Mapping
	if err := args(c, &m); err != nil {
		return err
	}
	done := false
	if owner, ok := mayChange(c); ok {
		for _, netid := range pmapNetids {
			done = t.unset(m.Prog, m.Vers, netid, owner) || done
		}
	}
	c.Res.Bool(done)
	return nil
}

// getport does GETPORT; port 0 in the reply means "not registered".
func (t *Table) getport(c *transport.Call) error {
	var m rpcbind.Mapping
	if err := args(c, &m); err != nil {
		return err
	}
	at, _ := t.find(service{m.Prog, m.Vers, pmapNetids[m.Prot]}, false)
	c.Res.Uint32(uint32(at.Port()))
	return nil
}

// pmapDump does DUMP of version 2, which omits IPv6 and RDMA.
func (t *Table) pmapDump(c *transport.Call) error {
	var res rpcbind.DumpRes
	for _, b := range t.list() {
		at, _ := rpcbind.ParseUniversalAddr(b.Addr)
		for prot, netid := range pmapNetids {
			if b.Netid == netid {
				res.Mappings = append(res.Mappings, rpcbind.Mapping{Prog: b.Prog, Vers: b.Vers, Prot: prot, Port: uint32(at.Port())})
			}
		}
	}
	return encode(c, &res)
}

// rpcbSet does SET of versions 3 and 4.
func (t *Table) rpcbSet(c *transport.Call) error {
	var b rpcbind.Binding
	if err := args(c, &b); err != nil {
		return err
	}
	owner, ok := mayChange(c)
	c.Res.Bool(ok && t.set(&b, owner))
	return nil
}

// rpcbUnset does UNSET of versions 3 and 4; an empty netid means all transports.
func (t *Table) rpcbUnset(c *transport.Call) error {
	var b rpcbind.Binding
	if err := args(c, &b); err != nil {
		return err
	}
	owner, ok := mayChange(c)
	c.Res.Bool(ok && t.unset(b.Prog, b.Vers, b.Netid, owner))
	return nil
}

// getaddr does GETADDR and, with exact, GETVERSADDR. A caller that names no supported transport
// gets the address for the transport of its call (RFC 1833 §2.2.1).
func (t *Table) getaddr(c *transport.Call, exact bool) error {
	var b rpcbind.Binding
	if err := args(c, &b); err != nil {
		return err
	}
	s := serviceOf(&b)
	if !slices.Contains(netids, s.netid) {
		s.netid = netidOf(c.Remote)
	}
	var res rpcbind.AddrRes
	if at, ok := t.find(s, exact); ok {
		res.Addr = rpcbind.UniversalAddr(reachable(at, b.Addr))
	}
	return encode(c, &res)
}

// reachable returns at as the caller can reach it. asked is the address at which the caller reached
// this port mapper: a program listening at all addresses also listens there.
func reachable(at netip.AddrPort, asked string) netip.AddrPort {
	here, err := rpcbind.ParseUniversalAddr(asked)
	if err != nil || !at.Addr().IsUnspecified() || here.Addr().Is4() != at.Addr().Is4() {
		return at
	}
	return netip.AddrPortFrom(here.Addr(), at.Port())
}

// netidOf returns a call's transport.
func netidOf(remote net.Addr) string {
	netid, ip := rpcbind.NetTCP, net.IP(nil)
	switch a := remote.(type) {
	case *net.TCPAddr:
		ip = a.IP
	case *net.UDPAddr:
		netid, ip = rpcbind.NetUDP, a.IP
	}
	if ip != nil && ip.To4() == nil {
		netid += "6"
	}
	return netid
}

func (t *Table) rpcbDump(c *transport.Call) error {
	return encode(c, &rpcbind.ListRes{Bindings: t.list()})
}

// gettime does GETTIME: it returns the seconds of the Unix epoch.
func gettime(c *transport.Call) error {
	return encode(c, &rpcbind.TimeRes{Seconds: uint32(time.Now().Unix())})
}

// encode writes results that may exceed the reply's buffer.
func encode(c *transport.Call, res xdr.Marshaler) error {
	e := xdr.NewEncoder(nil)
	res.EncodeXDR(e)
	if !c.Room(e.Len()) {
		return transport.ErrSystem
	}
	c.Res.Raw(e.Bytes())
	return nil
}
