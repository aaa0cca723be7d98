// Bad RPC over RDMA and over TCP: each truncation and each wrong word gets the answer of its layer.

package stack

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/stack/peer"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A caller is a scripted peer of either transport.
type caller interface {
	call(stream []byte)
	want(what string) (oncrpc.ReplyHeader, *xdr.Decoder)
	Null(what string)
}

type rdmaCaller struct{ *peer.Peer }

func (c rdmaCaller) call(stream []byte) {
	xid := uint32(0)
	if len(stream) >= 4 {
		xid = xdr.NewDecoder(stream).Uint32()
	}
	c.Message(peer.Inline(xid, stream))
}

func (c rdmaCaller) want(what string) (oncrpc.ReplyHeader, *xdr.Decoder) {
	c.T.Helper()
	r := c.Want()
	if r.Proc != 0 {
		c.T.Fatalf("%s: got %v", what, r.Proc)
	}
	return r.RPC, r.D
}

type tcpCaller struct{ *peer.TCP }

func (c tcpCaller) call(stream []byte) { c.Message(stream) }

func (c tcpCaller) want(what string) (oncrpc.ReplyHeader, *xdr.Decoder) {
	c.T.Helper()
	return c.Want(what)
}

// overCallers runs f with a scripted peer of each transport.
func overCallers(t *testing.T, f func(t *testing.T, c caller)) {
	t.Run("rdma", func(t *testing.T) {
		s, works := attacked(t)
		f(t, rdmaCaller{peer.Dial(t, s.RDMA)})
		works()
	})
	t.Run("tcp", func(t *testing.T) {
		s, works := attacked(t)
		f(t, tcpCaller{peer.DialTCP(t, s.TCP)})
		works()
	})
}

// TestBadRPCHeader: each fault in the RPC header of a call gets its answer.
func TestBadRPCHeader(t *testing.T) {
	cred := func(flavor, n uint32) []byte {
		return append(peer.Words(flavor, n), make([]byte, xdr.RoundUp(int(n)))...)
	}
	none := cred(0, 0)
	sys := func(gids uint32) []byte {
		body := append(peer.Words(0, 0, 0, 0, gids), make([]byte, 4*gids)...)
		return append(peer.Words(1, uint32(len(body))), body...)
	}
	denied := func(a oncrpc.AuthStat) oncrpc.ReplyHeader {
		return oncrpc.ReplyHeader{Denied: true, Reject: oncrpc.AuthError, Auth: a}
	}
	overCallers(t, func(t *testing.T, c caller) {
		for _, k := range []struct {
			name                   string
			vers, prog, pvers, prc uint32
			cred, verf             []byte
			want                   oncrpc.ReplyHeader
		}{
			{"RPC version 0", 0, nfs3.Program, 3, 0, none, none, oncrpc.ReplyHeader{Denied: true, Low: 2, High: 2}},
			{"RPC version 3", 3, nfs3.Program, 3, 0, none, none, oncrpc.ReplyHeader{Denied: true, Low: 2, High: 2}},
			{"unknown program", 2, 100228, 3, 0, none, none, oncrpc.ReplyHeader{Accept: oncrpc.ProgUnavail}},
			{"program 2^32-1", 2, 1<<32 - 1, 3, 0, none, none, oncrpc.ReplyHeader{Accept: oncrpc.ProgUnavail}},
			{"NFS version 2", 2, nfs3.Program, 2, 0, none, none, oncrpc.ReplyHeader{Accept: oncrpc.ProgMismatch, Low: 3, High: 3}},
			{"NFS version 4", 2, nfs3.Program, 4, 0, none, none, oncrpc.ReplyHeader{Accept: oncrpc.ProgMismatch, Low: 3, High: 3}},
			{"MOUNT version 1", 2, mount3.Program, 1, 0, none, none, oncrpc.ReplyHeader{Accept: oncrpc.ProgMismatch, Low: 3, High: 3}},
			{"procedure 22", 2, nfs3.Program, 3, 22, none, none, oncrpc.ReplyHeader{Accept: oncrpc.ProcUnavail}},
			{"procedure 2^32-1", 2, nfs3.Program, 3, 1<<32 - 1, none, none, oncrpc.ReplyHeader{Accept: oncrpc.ProcUnavail}},
			{"flavor 6", 2, nfs3.Program, 3, 0, cred(6, 20), none, denied(oncrpc.AuthRejectedCred)},
			{"flavor 77", 2, nfs3.Program, 3, 0, cred(77, 0), none, denied(oncrpc.AuthRejectedCred)},
			{"credential of 401 bytes", 2, nfs3.Program, 3, 0, cred(0, 401), none, denied(oncrpc.AuthBadCred)},
			{"credential of 2^32-1 bytes", 2, nfs3.Program, 3, 0, peer.Words(1, 1<<32-1), none, denied(oncrpc.AuthBadCred)},
			{"AUTH_SYS of 17 groups", 2, nfs3.Program, 3, 0, sys(17), none, denied(oncrpc.AuthBadCred)},
			{"AUTH_SYS with bytes left over", 2, nfs3.Program, 3, 0, cred(1, 24), none, denied(oncrpc.AuthBadCred)},
			{"AUTH_SYS of no bytes", 2, nfs3.Program, 3, 0, cred(1, 0), none, denied(oncrpc.AuthBadCred)},
			{"verifier of 401 bytes", 2, nfs3.Program, 3, 0, none, cred(0, 401), denied(oncrpc.AuthBadVerf)},
			{"verifier of another flavor", 2, nfs3.Program, 3, 0, none, cred(1, 8), denied(oncrpc.AuthBadVerf)},
		} {
			xid := peer.XID()
			msg := append(peer.Words(xid, 0, k.vers, k.prog, k.pvers, k.prc), k.cred...)
			c.call(append(msg, k.verf...))
			got, _ := c.want(k.name)
			k.want.XID = xid
			got.Verf = oncrpc.OpaqueAuth{}
			if fmt.Sprint(got) != fmt.Sprint(k.want) {
				t.Errorf("%s: got %+v, want %+v", k.name, got, k.want)
			}
			c.Null(k.name)
		}
	})
}

// goodArgs returns for each procedure arguments that decode if they are whole.
func goodArgs() [nfs3.NumProcs]xdr.Marshaler {
	fh, _ := nfs3.MakeFH(bytes.Repeat([]byte{7}, 32))
	where := nfs3.DirOpArgs{Dir: fh, Name: []byte("name")}
	return [nfs3.NumProcs]xdr.Marshaler{
		nfs3.ProcGetattr: &nfs3.GetattrArgs{FH: fh}, nfs3.ProcSetattr: &nfs3.SetattrArgs{FH: fh},
		nfs3.ProcLookup: &where, nfs3.ProcAccess: &nfs3.AccessArgs{FH: fh, Access: 63},
		nfs3.ProcReadlink: &nfs3.ReadlinkArgs{FH: fh}, nfs3.ProcRead: &nfs3.ReadArgs{FH: fh, Count: 100},
		nfs3.ProcWrite: &nfs3.WriteArgs{FH: fh, Count: 5, Data: []byte("hello")}, nfs3.ProcCreate: &nfs3.CreateArgs{Where: where},
		nfs3.ProcMkdir: &nfs3.MkdirArgs{Where: where}, nfs3.ProcSymlink: &nfs3.SymlinkArgs{Where: where, Path: []byte("there")},
		nfs3.ProcMknod: &nfs3.MknodArgs{Where: where, Type: nfs3.TypeFIFO}, nfs3.ProcRemove: &where, nfs3.ProcRmdir: &where,
		nfs3.ProcRename: &nfs3.RenameArgs{From: where, To: where}, nfs3.ProcLink: &nfs3.LinkArgs{FH: fh, Link: where},
		nfs3.ProcReaddir: &nfs3.ReaddirArgs{Dir: fh, Count: 4096}, nfs3.ProcReaddirplus: &nfs3.ReaddirplusArgs{Dir: fh, Maxcount: 4096},
		nfs3.ProcFsstat: &nfs3.FsstatArgs{FH: fh}, nfs3.ProcFsinfo: &nfs3.FsinfoArgs{FH: fh},
		nfs3.ProcPathconf: &nfs3.PathconfArgs{FH: fh}, nfs3.ProcCommit: &nfs3.CommitArgs{FH: fh},
	}
}

// TestBadArgs: truncated arguments get GARBAGE_ARGS, and whole ones with a foreign handle
// NFS3ERR_BADHANDLE. Random arguments get one of the two.
func TestBadArgs(t *testing.T) {
	overCallers(t, func(t *testing.T, c caller) {
		for n, args := range goodArgs() {
			if args == nil {
				continue // NULL has none
			}
			proc := uint32(n)
			head := len(peer.NFS(0, proc, nil))
			size := len(peer.NFS(0, proc, args))
			for cut := head; cut <= size; cut++ {
				xid := peer.XID()
				c.call(peer.NFS(xid, proc, args)[:cut])
				what := fmt.Sprintf("%s, %d of %d bytes", nfs3.Bindings[n].Name, cut-head, size-head)
				got, d := c.want(what)
				want := oncrpc.GarbageArgs
				whole := cut == size
				if proc == nfs3.ProcWrite || proc == nfs3.ProcSymlink {
					// clients may leave the last pad out, and these end with 5 bytes
					whole = cut > size-4
				}
				if whole {
					want = oncrpc.Success
				}
				if got.XID != xid || got.Denied || got.Accept != want {
					t.Fatalf("%s: got %+v, want %v", what, got, want)
				}
				if st := nfs3.Status(d.Uint32()); whole && st != nfs3.ErrBadHandle {
					t.Errorf("%s: %v", what, st)
				}
			}
			for i := range trials() / 4 {
				xid := peer.XID()
				noise := randomBytes(uint64(i)<<8|uint64(n), i*7%300)
				if i%2 == 0 { // a handle of good length in front
					noise = append(peer.Words(32), noise...)
				}
				c.call(append(peer.NFS(xid, proc, nil), noise...))
				got, d := c.want("noise")
				if st := nfs3.Status(d.Uint32()); got.XID != xid || got.Accept != oncrpc.GarbageArgs && (!got.OK() || st != nfs3.ErrBadHandle) {
					t.Errorf("%s with arguments %x: %+v, %v", nfs3.Bindings[n].Name, noise, got, st)
				}
			}
		}
		c.Null("bad arguments")
	})
}
