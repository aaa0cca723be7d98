// The calls that the clients in FuzzServer send, and the replies that they require.

package nfsserver_test

import (
	"encoding/binary"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nfsacl3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A line is a connection of one client.
type line interface {
	raw(b []byte)           // sends bytes
	call(m *fuzzCall)       // sends a call
	reply() *chunks.Message // returns the oldest reply; nil: none
	close()
	lost() bool // the server has closed the connection, or may be out of step
}

// fuzzACL is the first number of NFSACL's procedures in a script.
const fuzzACL = 64

// A fuzzCall is one call as the script describes it.
type fuzzCall struct {
	flags byte
	xid   uint32
	proc  uint32
	msg   []byte
	tail  int // number of bytes at the end that may become a Read chunk
}

// step runs one step of the script.
func (h *fuzzHost) step(s *rnictest.Script) {
	flags, proc := s.Byte(), uint32(s.Byte())
	first, args := h.handle(s.Byte()), s.Take(s.Word())
	l := h.line(flags & fuzzRDMA)
	if flags&fuzzRaw != 0 {
		l.raw(args)
		synctest.Wait()
		for l.reply() != nil {
			continue
		}
		return
	}
	if flags&fuzzAgain == 0 {
		h.xid++
	}
	c := &fuzzCall{flags: flags, xid: h.xid, proc: proc}
	var e xdr.Encoder
	head := oncrpc.CallHeader{XID: h.xid, Prog: nfs3.Program, Vers: 3, Proc: proc}
	switch {
	case flags&fuzzMount != 0:
		head.Prog = mount3.Program
	case proc >= fuzzACL:
		head.Prog, head.Proc = nfsacl3.Program, proc-fuzzACL
	}
	who := oncrpc.AuthSys{Machine: []byte("fuzz")}
	if flags&fuzzUser != 0 {
		who.UID, who.GID = 1000, 100
	}
	head.Cred = oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorSys, Body: encoded(&who)}
	head.EncodeXDR(&e)
	if flags&fuzzMount == 0 && proc != nfs3.ProcNull {
		first.EncodeXDR(&e)
	}
	e.Raw(args)
	if flags&fuzzMount == 0 && (proc == nfs3.ProcRename || proc == nfs3.ProcLink) {
		second := h.handle(s.Byte())
		second.EncodeXDR(&e)
		args = s.Take(s.Word())
		e.Raw(args)
	}
	c.msg, c.tail = e.Bytes(), len(args)
	l.call(c)
	synctest.Wait()
	h.check(l, c)
}

// handle returns a received handle, or a forged one.
func (h *fuzzHost) handle(i byte) nfs3.FH {
	if int(i) < len(h.handles) {
		return h.handles[i]
	}
	if len(h.handles) == 0 {
		return nfs3.FH{}
	}
	b := append([]byte(nil), h.handles[0].Bytes()...)
	b[int(i)%len(b)] ^= i
	fh, _ := nfs3.MakeFH(b[:len(b)-int(i>>5)])
	return fh
}

// check checks that the call has got its reply.
func (h *fuzzHost) check(l line, c *fuzzCall) {
	m := l.reply()
	if m == nil {
		if !l.lost() {
			h.t.Errorf("no answer to %+v", c)
		}
		return
	}
	var d xdr.Decoder
	d.Reset(m.Stream, m.Items)
	var head oncrpc.ReplyHeader
	head.DecodeXDR(&d)
	if d.Err() != nil || head.XID != c.xid && !l.lost() {
		h.t.Errorf("%+v is answered with %x", c, m.Stream)
	}
	switch {
	case head.Denied, head.Accept == oncrpc.SystemErr:
		h.t.Errorf("%+v is answered with %+v", c, head)
	case head.Accept == oncrpc.Success && head.XID == c.xid:
		h.results(c, &d)
	}
}

// results checks that the reply has the procedure's results, and keeps their handles.
func (h *fuzzHost) results(c *fuzzCall, d *xdr.Decoder) {
	var res xdr.Unmarshaler
	if c.flags&fuzzMount != 0 {
		res = mountResult(c.proc)
	} else {
		res = result(c.proc)
	}
	if res != nil {
		res.DecodeXDR(d)
	}
	if d.Err() != nil || d.Remaining() > 0 || d.ItemsLeft() > 0 {
		h.t.Fatalf("%+v: %T: %v, %d bytes left", c, res, d.Err(), d.Remaining())
	}
	switch r := res.(type) {
	case *mount3.MntRes:
		if r.Status == mount3.OK {
			h.keep(nfs3.MakeFH(r.Handle))
		}
	case *nfs3.LookupRes:
		if r.Status == nfs3.OK {
			h.keep(r.FH, nil)
		}
	case *nfs3.CreateRes:
		if r.Status == nfs3.OK && r.FH.Present {
			h.keep(r.FH.FH, nil)
		}
	}
}

func (h *fuzzHost) keep(fh nfs3.FH, _ error) {
	for _, old := range h.handles {
		if old == fh {
			return
		}
	}
	h.handles = append(h.handles, fh)
}

func mountResult(proc uint32) xdr.Unmarshaler {
	switch proc {
	case mount3.ProcMnt:
		return new(mount3.MntRes)
	case mount3.ProcDump:
		return new(mount3.DumpRes)
	case mount3.ProcExport:
		return new(mount3.ExportRes)
	}
	return nil
}

func result(proc uint32) xdr.Unmarshaler {
	switch proc {
	case nfs3.ProcGetattr:
		return new(nfs3.GetattrRes)
	case fuzzACL + nfsacl3.ProcGetACL:
		return new(nfsacl3.GetACLRes)
	case fuzzACL + nfsacl3.ProcSetACL:
		return new(nfsacl3.SetACLRes)
	case nfs3.ProcLookup:
		return new(nfs3.LookupRes)
	case nfs3.ProcAccess:
		return new(nfs3.AccessRes)
	case nfs3.ProcReadlink:
		return new(nfs3.ReadlinkRes)
	case nfs3.ProcRead:
		return new(nfs3.ReadRes)
	case nfs3.ProcWrite:
		return new(nfs3.WriteRes)
	case nfs3.ProcCreate, nfs3.ProcMkdir, nfs3.ProcSymlink, nfs3.ProcMknod:
		return new(nfs3.CreateRes)
	case nfs3.ProcSetattr, nfs3.ProcRemove, nfs3.ProcRmdir:
		return new(nfs3.WccRes)
	case nfs3.ProcRename:
		return new(nfs3.RenameRes)
	case nfs3.ProcLink:
		return new(nfs3.LinkRes)
	case nfs3.ProcReaddir:
		return new(nfs3.ReaddirRes)
	case nfs3.ProcReaddirplus:
		return new(nfs3.ReaddirplusRes)
	case nfs3.ProcFsstat:
		return new(nfs3.FsstatRes)
	case nfs3.ProcFsinfo:
		return new(nfs3.FsinfoRes)
	case nfs3.ProcPathconf:
		return new(nfs3.PathconfRes)
	case nfs3.ProcCommit:
		return new(nfs3.CommitRes)
	}
	return nil
}

// line returns the connection with number i, and opens it if necessary.
func (h *fuzzHost) line(i byte) line {
	if h.lines[i] != nil && !h.lines[i].lost() {
		return h.lines[i]
	}
	if h.lines[i] != nil {
		h.lines[i].close()
	}
	if i == 0 {
		h.lines[i] = dialFuzzTCP(h.t, h.tcp)
	} else {
		h.lines[i] = dialFuzzRDMA(h.t, h.rdma)
	}
	return h.lines[i]
}

func u32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }
