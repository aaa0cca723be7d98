// Peers that ask for much and take nothing: closed windows, and chunks that are never given.

package hostile

import (
	"net"
	"strconv"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/test/stack/peer"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// memory is the servers' budget for data over RDMA, for arguments over TCP and for results over
// TCP.
const memory = 16 << 20

// greedy returns a server with a large file, a large directory and little memory, and the file's
// handle.
func greedy(t *testing.T) (*target, nfs3.FH) {
	t.Helper()
	data := pattern(1 << 20)
	a := attackWith(t, rig.Config{
		Server: transport.ServerConfig{Budget: mem.NewBudget(memory)},
		Export: func(fs nfsserver.FS) {
			ref, _, err := fs.Create(nfsserver.Self(), fs.Root(), "large", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o666})
			if err == nil {
				_, err = fs.WriteAt(nfsserver.Self(), ref, data, 0)
			}
			for i := range 8000 {
				if err == nil {
					_, _, err = fs.Create(nfsserver.Self(), fs.Root(), "name "+strconv.Itoa(i), &nfsserver.SetAttr{})
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	})
	xid := peer.XID()
	a.Message(peer.Inline(xid, peer.NFS(xid, nfs3.ProcLookup, &nfs3.DirOpArgs{Dir: a.root, Name: []byte("large")})))
	r := a.WantAccept("LOOKUP", xid, 0)
	var res nfs3.LookupRes
	res.DecodeXDR(r.D)
	return a, res.FH
}

// narrow makes a connection's receive window small.
func narrow(c net.Conn) { c.(*net.TCPConn).SetReadBuffer(4 << 10) }

// deaf returns a peer that has made its first call, and will read no more.
func (a *target) deaf() *peer.Peer {
	a.t.Helper()
	p := peer.Dial(a.t, a.s.RDMA)
	narrow(p.C)
	p.Null("before")
	return p
}

// asks uses all credits for calls with these lists.
func asks(p *peer.Peer, proc uint32, args xdr.Marshaler, lists func(*rpcrdma.Header)) {
	for range peer.Grant {
		xid := peer.XID()
		p.Message(append(peer.Header(xid, rpcrdma.ProcMsg, lists), peer.NFS(xid, proc, args)...))
	}
}

const deafPeers = 6

// TestClosedWindowREAD: peers request megabytes and keep their windows closed. The waiting data is
// bounded by the memory budget, and other clients get their share of it.
func TestClosedWindowREAD(t *testing.T) {
	a, fh := greedy(t)
	b := newBound(t)
	for range deafPeers {
		asks(a.deaf(), nfs3.ProcRead, &nfs3.ReadArgs{FH: fh, Count: 1 << 20}, func(h *rpcrdma.Header) {
			h.AddWrite(chunks.Segment{Handle: 5, Length: 1 << 20})
		})
		a.works()
	}
	served(t, a.s)
	b.within("READs that nobody takes", memory+deafPeers*perConn+small, 64+deafPeers*80)
}

func TestClosedWindowREADDIRPLUS(t *testing.T) {
	a, _ := greedy(t)
	b := newBound(t)
	for range deafPeers {
		asks(a.deaf(), nfs3.ProcReaddirplus, &nfs3.ReaddirplusArgs{Dir: a.root, Dircount: 1 << 20, Maxcount: 1 << 20}, func(h *rpcrdma.Header) {
			h.SetReply(chunks.Segment{Handle: 5, Length: 2 << 20})
		})
		a.works()
	}
	served(t, a.s)
	b.within("listings that nobody takes", memory+deafPeers*perConn+small, 64+deafPeers*80)
}

func TestClosedWindowTCP(t *testing.T) {
	a, fh := greedy(t)
	b := newBound(t)
	for i := range deafPeers {
		p := peer.DialTCP(t, a.s.TCP)
		narrow(p.C)
		for range 128 {
			xid := peer.XID()
			if i%2 == 0 {
				p.Message(peer.NFS(xid, nfs3.ProcRead, &nfs3.ReadArgs{FH: fh, Count: 1 << 20}))
			} else {
				p.Message(peer.NFS(xid, nfs3.ProcReaddirplus, &nfs3.ReaddirplusArgs{Dir: a.root, Dircount: 1 << 20, Maxcount: 1 << 20}))
			}
		}
		a.works()
	}
	served(t, a.s)
	b.within("replies that nobody takes", 2*memory+deafPeers*perConn+small, 64+deafPeers*80)
}

// TestAdvertisedGigabyte: peers offer a gigabyte in Read chunks and never send it. The server's
// Reads wait for the budget. An offer alone costs no memory.
func TestAdvertisedGigabyte(t *testing.T) {
	a, fh := greedy(t)
	b := newBound(t)
	for range deafPeers {
		p := a.deaf()
		for range peer.Grant {
			xid := peer.XID()
			stream, pos := peer.Reduced(xid, nfs3.ProcWrite, &nfs3.WriteArgs{FH: fh, Count: 1 << 20, Data: make([]byte, 1<<20)})
			p.Message(append(peer.Header(xid, rpcrdma.ProcMsg, func(h *rpcrdma.Header) { h.Read = one(pos, 5, 1<<20, 0) }), stream...))
		}
		a.works()
	}
	served(t, a.s)
	b.within("chunks that never come", memory+deafPeers*perConn+small, 64+deafPeers*80)
}

// TestAdvertisedRecords: peers announce large records over TCP, begin them, and never end them.
// Their memory is bounded.
func TestAdvertisedRecords(t *testing.T) {
	a, _ := greedy(t)
	b := newBound(t)
	n := some(40, 400)
	for range n {
		p := peer.DialTCP(t, a.s.TCP)
		p.Say(append(peer.Mark(2<<20, true), make([]byte, 20<<10)...))
	}
	a.works()
	b.within("records that never end", uint64(memory+n*(512<<10)+small), 64+4*n)
}
