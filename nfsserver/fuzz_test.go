// A whole server with arbitrary clients, over TCP and RDMA, in simulated time.

package nfsserver_test

import (
	"bytes"
	"context"
	"testing"
	"testing/cryptotest"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nfsacl3"
)

// A step in a script is: flags, procedure, handle, argument bytes, second handle, further argument
// bytes. Arguments follow one handle in each procedure except NULL, and two in RENAME and LINK.
const (
	fuzzRDMA      = 1 << iota // over RDMA instead of TCP
	fuzzMount                 // a call of MOUNT, which has no handles
	fuzzRaw                   // the bytes are a stream or a Send, not arguments
	fuzzUser                  // as a user other than root
	fuzzAgain                 // with the XID of the previous call
	fuzzTail                  // RDMA: the last bytes come as a Read chunk
	fuzzLongCall              // RDMA: the whole call comes as a Read chunk
	fuzzLongReply             // RDMA: the client offers a Reply chunk
)

// Longer scripts add little, and take time from others.
const (
	maxScript = 4096
	maxSteps  = 24
)

// FuzzServer: a script consists of calls, with handles from earlier replies, and raw bytes. Every
// call must be answered, with its procedure's type of reply, and never with a server failure.
func FuzzServer(f *testing.F) {
	for _, s := range serverSeeds() {
		f.Add(s)
		for i := range s { // repeats the script over RDMA
			if s[i] == 0 {
				over := bytes.Clone(s)
				over[i] |= fuzzRDMA
				f.Add(over)
				break
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > maxScript {
			return
		}
		cryptotest.SetGlobalRandom(t, 1)
		synctest.Test(t, func(t *testing.T) {
			s := rnictest.Script(b)
			h := newFuzzHost(t)
			for n := 0; n < maxSteps && s.More(); n++ {
				h.step(&s)
			}
			h.end()
		})
	})
}

// scripted returns a call as bytes of a script.
func scripted(flags byte, proc uint32, handle byte, args xdr.Marshaler, more ...byte) []byte {
	b := encoded(args)
	return append(append([]byte{flags, byte(proc), handle, byte(len(b) >> 8), byte(len(b))}, b...), more...)
}

// A noHandle encodes arguments without their leading handle.
type noHandle struct{ m xdr.Marshaler }

func (n noHandle) EncodeXDR(e *xdr.Encoder) { e.Raw(encoded(n.m)[4:]) }

func encoded(m xdr.Marshaler) (out []byte) {
	e := xdr.NewEncoder(nil)
	m.EncodeXDR(e)
	at := 0
	for _, it := range e.Items() { // puts the items back in their places
		out = append(append(out, e.Bytes()[at:it.Off]...), it.Data...)
		out = append(out, make([]byte, xdr.Pad(len(it.Data)))...)
		at = it.Off
	}
	return append(out, e.Bytes()[at:]...)
}

func serverSeeds() (seeds [][]byte) {
	name := func(s string) nfs3.DirOpArgs { return nfs3.DirOpArgs{Name: []byte(s)} }
	file, dir, other := name("file"), name("dir"), name("other")
	create := scripted(0, nfs3.ProcCreate, 0, noHandle{&nfs3.CreateArgs{Where: file, Attr: nfs3.Sattr{SetMode: true, Mode: 0o644}}})
	mkdir := scripted(0, nfs3.ProcMkdir, 0, noHandle{&nfs3.MkdirArgs{Where: dir}})
	write := scripted(0, nfs3.ProcWrite, 1, noHandle{&nfs3.WriteArgs{Offset: 5, Count: 8, Stable: nfs3.FileSync, Data: []byte("8 bytes.")}})
	add := func(steps ...[]byte) { seeds = append(seeds, bytes.Join(steps, nil)) }
	for _, flags := range []byte{0, fuzzRDMA, fuzzRDMA | fuzzLongCall, fuzzRDMA | fuzzLongReply, fuzzUser, fuzzRDMA | fuzzTail} {
		on := func(proc uint32, handle byte, args xdr.Marshaler, more ...byte) {
			add(create, mkdir, write, scripted(flags, proc, handle, noHandle{args}, more...), write)
		}
		for _, proc := range []uint32{nfs3.ProcNull, nfs3.ProcGetattr, nfs3.ProcReadlink, nfs3.ProcFsinfo, nfs3.ProcFsstat, nfs3.ProcPathconf} {
			on(proc, 1, &nfs3.FHArgs{})
		}
		list := []nfsacl3.Entry{{Tag: nfsacl3.TagUserObj, Perm: 6}, {Tag: nfsacl3.TagGroupObj, Perm: 4}, {Tag: nfsacl3.TagOther}}
		on(fuzzACL+nfsacl3.ProcGetACL, 1, &nfsacl3.GetACLArgs{Mask: nfsacl3.MaskAll})
		on(fuzzACL+nfsacl3.ProcSetACL, 1, &nfsacl3.SetACLArgs{ACLs: nfsacl3.ACLs{Mask: nfsacl3.MaskAccess, Access: list}})
		for _, proc := range []uint32{nfs3.ProcLookup, nfs3.ProcRemove, nfs3.ProcRmdir} {
			on(proc, 0, &file)
			on(proc, 0, &dir)
		}
		on(nfs3.ProcSetattr, 1, &nfs3.SetattrArgs{Attr: nfs3.Sattr{SetMode: true, Mode: 0o700, SetSize: true, Size: 3, MtimeHow: nfs3.SetToClientTime}})
		on(nfs3.ProcAccess, 1, &nfs3.AccessArgs{Access: nfs3.AccessAll})
		on(nfs3.ProcRead, 1, &nfs3.ReadArgs{Offset: 2, Count: 20})
		on(nfs3.ProcCommit, 1, &nfs3.CommitArgs{})
		on(nfs3.ProcWrite, 1, &nfs3.WriteArgs{Count: 3, Data: []byte("abc")})
		on(nfs3.ProcCreate, 2, &nfs3.CreateArgs{Where: other, Mode: nfs3.Exclusive})
		on(nfs3.ProcMkdir, 2, &nfs3.MkdirArgs{Where: other})
		on(nfs3.ProcSymlink, 2, &nfs3.SymlinkArgs{Where: other, Path: []byte("target")})
		on(nfs3.ProcMknod, 2, &nfs3.MknodArgs{Where: other, Type: nfs3.TypeFIFO})
		on(nfs3.ProcRename, 0, &file, append([]byte{2, 0, 12}, encoded(noHandle{&other})...)...)
		on(nfs3.ProcLink, 1, raw(nil), append([]byte{2, 0, 12}, encoded(noHandle{&other})...)...)
		on(nfs3.ProcReaddir, 0, &nfs3.ReaddirArgs{Count: 4096})
		on(nfs3.ProcReaddirplus, 0, &nfs3.ReaddirplusArgs{Dircount: 4096, Maxcount: 4096})
		for proc := range uint32(6) {
			add(scripted(flags|fuzzMount, proc, 0, &mount3.PathArgs{Path: "/x"}), scripted(flags|fuzzMount, mount3.ProcDump, 0, raw(nil)))
		}
	}
	add(create, scripted(fuzzAgain, nfs3.ProcCreate, 0, noHandle{&nfs3.CreateArgs{Where: file, Attr: nfs3.Sattr{SetMode: true, Mode: 0o644}}}))
	add(scripted(fuzzRaw, 0, 0, raw{0x80, 0, 0, 4, 1, 2, 3, 4}), create)
	add(scripted(fuzzRaw|fuzzRDMA, 0, 0, raw{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}), create)
	return seeds
}

// A raw encodes as its bytes, unchanged.
type raw []byte

func (r raw) EncodeXDR(e *xdr.Encoder) {
	if r == nil {
		r = make(raw, 4) // stands for the handle, which noHandle removes
	}
	e.Raw(r)
}

// A fuzzHost is a server and its clients.
type fuzzHost struct {
	t       *testing.T
	srv     *nfsserver.Server
	rpc     *transport.Server
	tcp     *rnictest.Listener
	rdma    *rnictest.Listener
	ended   chan error
	lines   [2]line // TCP and RDMA, nil until used
	handles []nfs3.FH
	xid     uint32
}

func newFuzzHost(t *testing.T) *fuzzHost {
	fs := memfs.New(memfs.Options{Limit: 8 << 20, Mode: 0o777})
	srv, err := nfsserver.New(nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/x", FS: fs}}, Key: [nfsserver.KeySize]byte{1}})
	if err != nil {
		t.Fatalf("nfsserver.New: %v", err)
	}
	h := &fuzzHost{t: t, srv: srv, tcp: rnictest.Listen(), rdma: rnictest.Listen(), ended: make(chan error, 2), xid: 100}
	h.rpc = transport.NewServer(transport.ServerConfig{Workers: 4, RDMA: rpcrdma.Config{Credits: 4}}, srv.Programs()...)
	dev := iwarp.Open(rnic.DeviceConfig{})
	go func() { h.ended <- h.rpc.ServeTCP(h.tcp) }()
	go func() { h.ended <- h.rpc.ServeRDMA(dev, dev.ListenOn(h.rdma)) }()
	h.step(new(rnictest.Script(scripted(fuzzMount, mount3.ProcMnt, 0, &mount3.PathArgs{Path: "/x"}))))
	if len(h.handles) != 1 {
		t.Fatal("not mounted")
	}
	return h
}

func (h *fuzzHost) end() {
	for _, l := range h.lines {
		if l != nil {
			l.close()
		}
	}
	if err := h.rpc.Shutdown(context.Background()); err != nil {
		h.t.Errorf("Shutdown: %v", err)
	}
	for range 2 {
		if err := <-h.ended; err != transport.ErrClosed {
			h.t.Error(err)
		}
	}
	h.srv.Close()
}
