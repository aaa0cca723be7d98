// The tests' program and servers, over TCP and RDMA, and a peer that writes calls by hand.

package gss

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

func TestMain(m *testing.M) {
	machine.QuietLog()
	os.Exit(m.Run())
}

const (
	testProg = 0x20000a29
	testVers = 1
)

// The test program's procedures.
const (
	tNull  = iota
	tAdd   // two words: their sum; inline
	tRead  // count: opaque of that many bytes, as an item
	tWrite // opaque (item): count and sum of its bytes
	tCount // not idempotent: number of runs
	tHold  // waits until released
	tFail  // SYSTEM_ERR
	tWeak  // AUTH_TOOWEAK
	tProcs
)

// A testProgram counts its calls, and notes the last one's Cred.
type testProgram struct {
	nulls, runs atomic.Uint32
	entered     chan struct{}
	hold        chan struct{}

	mu    sync.Mutex
	cred  transport.Cred
	owner transport.Owner
}

func (p *testProgram) program() *transport.Program {
	procs := make([]transport.Procedure, tProcs)
	procs[tNull] = transport.Procedure{Name: "NULL", Inline: true, Idempotent: true, Run: func(*transport.Call) error {
		p.nulls.Add(1)
		return nil
	}}
	procs[tAdd] = transport.Procedure{Name: "ADD", Inline: true, Idempotent: true, Run: func(c *transport.Call) error {
		a, b := c.Args.Uint32(), c.Args.Uint32()
		if err := c.ArgsErr(); err != nil {
			return err
		}
		c.Res.Uint32(a + b)
		return nil
	}}
	procs[tRead] = transport.Procedure{Name: "READ", Inline: true, Idempotent: true, Run: func(c *transport.Call) error {
		n := c.Args.Uint32()
		if err := c.ArgsErr(); err != nil {
			return err
		}
		if c.TakesDeferredItem(int(n)) && c.Security().Service.CoversBody() {
			return transport.ErrSystem
		}
		b := c.Buffer(int(n))
		if b == nil {
			return transport.ErrSystem
		}
		fill(b)
		c.Res.Uint32(n)
		c.Res.Item(b)
		return nil
	}}
	procs[tWrite] = transport.Procedure{Name: "WRITE", Idempotent: true, ArgItem: true, Run: func(c *transport.Call) error {
		b := c.Args.Item(2 << 20)
		if err := c.ArgsErr(); err != nil {
			return err
		}
		c.Res.Uint32(uint32(len(b)))
		c.Res.Uint32(crc32.ChecksumIEEE(b))
		return nil
	}}
	procs[tCount] = transport.Procedure{Name: "COUNT", Run: func(c *transport.Call) error {
		c.Args.Uint32()
		if err := c.ArgsErr(); err != nil {
			return err
		}
		c.Res.Uint32(p.runs.Add(1))
		return nil
	}}
	procs[tHold] = transport.Procedure{Name: "HOLD", Run: func(c *transport.Call) error {
		p.entered <- struct{}{}
		<-p.hold
		c.Res.Uint32(p.runs.Add(1))
		return nil
	}}
	procs[tFail] = transport.Procedure{Name: "FAIL", Idempotent: true, Run: func(*transport.Call) error { return transport.ErrSystem }}
	procs[tWeak] = transport.Procedure{Name: "WEAK", Idempotent: true, Run: func(*transport.Call) error {
		return &transport.AuthError{Stat: oncrpc.AuthTooWeak}
	}}
	return &transport.Program{Name: "TEST", Number: testProg, Version: testVers, Procs: procs, Authorize: func(c *transport.Call) oncrpc.AuthStat {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cred, p.owner = c.Cred, c.Owner
		return oncrpc.AuthOK
	}}
}

// last returns the last call's Cred and Owner.
func (p *testProgram) last() (transport.Cred, transport.Owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cred, p.owner
}

func fill(b []byte) {
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
}

func testProc(n uint32) *transport.Proc {
	return &transport.Proc{Prog: testProg, Vers: testVers, Proc: n, Name: "test", MaxReply: 64}
}

type words []uint32

func (w words) EncodeXDR(e *xdr.Encoder) {
	for _, v := range w {
		e.Uint32(v)
	}
}

func (w words) DecodeXDR(d *xdr.Decoder) {
	for i := range w {
		w[i] = d.Uint32()
	}
}

type readRes struct {
	n    uint32
	data []byte
}

func (r *readRes) DecodeXDR(d *xdr.Decoder) { r.n, r.data = d.Uint32(), d.Item(2<<20) }

type writeArgs struct{ data []byte }

func (w *writeArgs) EncodeXDR(e *xdr.Encoder) { e.Item(w.data) }

// A network is a transport for calls.
type network struct {
	name string
	rdma bool
}

var networks = []network{{"TCP", false}, {"RDMA", true}}

// A rig is a server with the test program.
type rig struct {
	*testProgram
	t      testing.TB
	net    network
	realm  *fakeRealm
	gss    *Server
	server *transport.Server
	addr   string
}

// mapUser refuses mallory, and gives each other principal a UID by the length of its name.
func mapUser(principal string) (transport.Cred, bool) {
	return transport.Cred{UID: 1000 + uint32(len(principal)), GID: 100, GIDs: []uint32{7}}, principal != "mallory@TEST"
}

func newRig(t testing.TB, n network, change func(r *rig, g *ServerConfig, s *transport.ServerConfig)) *rig {
	t.Helper()
	r := &rig{t: t, net: n, realm: newFakeRealm(), testProgram: &testProgram{entered: make(chan struct{}, 1024), hold: make(chan struct{})}}
	gcfg := ServerConfig{Acceptor: &fakeAcceptor{realm: r.realm}, Map: mapUser}
	var scfg transport.ServerConfig
	if change != nil {
		change(r, &gcfg, &scfg)
	}
	r.gss = NewServer(gcfg)
	scfg.Security = []transport.SecurityFlavor{r.gss}
	r.server = transport.NewServer(scfg, r.program())
	done := make(chan error, 1)
	if n.rdma {
		dev := iwarp.Open(rnic.DeviceConfig{})
		l, err := dev.Listen("tcp", "127.0.0.1:0")
		must.Succeed(t, err)
		r.addr = l.Addr().String()
		go func() { done <- r.server.ServeRDMA(dev, l) }()
	} else {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must.Succeed(t, err)
		r.addr = l.Addr().String()
		go func() { done <- r.server.ServeTCP(l) }()
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.server.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-done; err != transport.ErrClosed {
			t.Errorf("Serve = %v, want ErrClosed", err)
		}
	})
	return r
}

// client returns a client that is connected until the test ends.
func (r *rig) client(cfg transport.ClientConfig) *transport.Client {
	r.t.Helper()
	var c *transport.Client
	var err error
	if r.net.rdma {
		c, err = transport.DialRDMA(context.Background(), iwarp.Open(rnic.DeviceConfig{}), r.addr, cfg)
	} else {
		c, err = transport.DialTCP(context.Background(), r.addr, cfg)
	}
	must.Succeed(r.t, err)
	r.t.Cleanup(func() { c.Close() })
	return c
}

// overEach runs a test over each network.
func overEach(t *testing.T, f func(t *testing.T, n network)) {
	for _, n := range networks {
		t.Run(n.name, func(t *testing.T) { f(t, n) })
	}
}

var services = []transport.Service{transport.ServiceNone, transport.ServiceIntegrity, transport.ServicePrivacy}

// A handPeer writes calls by hand over TCP, in its own context.
type handPeer struct {
	t      testing.TB
	rig    *rig
	nc     net.Conn
	xid    uint32
	ctx    Context
	handle []byte
}

// hand returns a handPeer with a new connection.
func (r *rig) hand() *handPeer {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.addr)
	must.Succeed(r.t, err)
	r.t.Cleanup(func() { nc.Close() })
	return &handPeer{t: r.t, rig: r, nc: nc}
}

// handContext connects and creates a context.
func (r *rig) handContext(user string) *handPeer {
	r.t.Helper()
	p := r.hand()
	init := &fakeInitiator{realm: r.realm, principal: user + "@TEST"}
	token, err := init.Start(context.Background())
	must.Succeed(r.t, err)
	h, d := p.exchange(p.header(&credential{message: messageInit}, 0), (&initArg{token}).EncodeXDR)
	var res initRes
	res.DecodeXDR(d)
	if !h.OK() || d.Err() != nil || res.major != Complete {
		r.t.Fatalf("INIT: %+v, %+v, %v", h, res, d.Err())
	}
	p.ctx, err = init.Finish(res.token)
	must.Succeed(r.t, err)
	p.handle = res.handle
	if err := p.ctx.VerifyMIC(h.Verf.Body, []byte{0, 0, 2, 0}); err != nil || h.Verf.Flavor != oncrpc.FlavorGSS || res.window != 512 {
		r.t.Fatalf("INIT's verifier %+v for the window %d: %v", h.Verf, res.window, err)
	}
	return p
}

// header returns the next call's header with a credential.
func (p *handPeer) header(c *credential, proc uint32) *oncrpc.CallHeader {
	p.xid++
	return &oncrpc.CallHeader{XID: p.xid, Prog: testProg, Vers: testVers, Proc: proc,
		Cred: oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorGSS, Body: c.append(nil)}}
}

// head returns the bytes of a header up to the end of its credential.
func head(h *oncrpc.CallHeader) []byte {
	e := xdr.NewEncoder(nil)
	bare := *h
	bare.Verf = oncrpc.OpaqueAuth{}
	bare.EncodeXDR(e)
	return e.Bytes()[:e.Len()-8]
}

// sign sets the header's verifier.
func (p *handPeer) sign(h *oncrpc.CallHeader) *oncrpc.CallHeader {
	h.Verf = oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorGSS, Body: p.ctx.MIC(nil, head(h))}
	return h
}

// data returns the signed header of a data call.
func (p *handPeer) data(seq uint32, service transport.Service, proc uint32) *oncrpc.CallHeader {
	return p.sign(p.header(&credential{seq: seq, service: service, handle: p.handle}, proc))
}

// encode encodes a call.
func encode(h *oncrpc.CallHeader, args func(e *xdr.Encoder)) []byte {
	e := xdr.NewEncoder(nil)
	h.EncodeXDR(e)
	if args != nil {
		args(e)
	}
	return e.Bytes()
}

// sealed returns arguments that are protected, with the sequence number seq in the body.
func (p *handPeer) sealed(service transport.Service, seq uint32, args func(e *xdr.Encoder)) func(e *xdr.Encoder) {
	body := xdr.NewEncoder(nil)
	body.Uint32(seq)
	if args != nil {
		args(body)
	}
	return func(e *xdr.Encoder) {
		if service == transport.ServiceIntegrity {
			e.Opaque(body.Bytes())
			e.Opaque(p.ctx.MIC(nil, body.Bytes()))
			return
		}
		e.Opaque(p.ctx.Wrap(nil, body.Bytes()))
	}
}

// args returns arguments protected by the service.
func (p *handPeer) args(service transport.Service, seq uint32, args func(e *xdr.Encoder)) func(e *xdr.Encoder) {
	if service == transport.ServiceNone {
		return args
	}
	return p.sealed(service, seq, args)
}

// send writes a record.
func (p *handPeer) send(msg []byte) {
	p.t.Helper()
	_, err := p.nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(msg))|1<<31), msg...))
	must.Succeed(p.t, err)
}

// receive reads a reply.
func (p *handPeer) receive() (*oncrpc.ReplyHeader, *xdr.Decoder) {
	p.t.Helper()
	p.nc.SetReadDeadline(time.Now().Add(20 * time.Second))
	var mark [4]byte
	_, err := io.ReadFull(p.nc, mark[:])
	must.Succeed(p.t, err)
	msg := make([]byte, binary.BigEndian.Uint32(mark[:])&^(1<<31))
	_, err = io.ReadFull(p.nc, msg)
	must.Succeed(p.t, err)
	d := xdr.NewDecoder(msg)
	var h oncrpc.ReplyHeader
	h.DecodeXDR(d)
	must.Succeed(p.t, d.Err())
	return &h, d
}

// exchange sends a call and returns its reply.
func (p *handPeer) exchange(h *oncrpc.CallHeader, args func(e *xdr.Encoder)) (*oncrpc.ReplyHeader, *xdr.Decoder) {
	p.t.Helper()
	return p.exchangeBytes(encode(h, args))
}

func (p *handPeer) exchangeBytes(msg []byte) (*oncrpc.ReplyHeader, *xdr.Decoder) {
	p.t.Helper()
	p.send(msg)
	h, d := p.receive()
	if xid := binary.BigEndian.Uint32(msg); h.XID != xid {
		p.t.Fatalf("the reply has XID %d, want %d", h.XID, xid)
	}
	return h, d
}

// dropped sends a message that must get no reply: a later call's reply comes first.
func (p *handPeer) dropped(what string, msg []byte) {
	p.t.Helper()
	p.send(msg)
	p.xid++
	h, _ := p.exchange(&oncrpc.CallHeader{XID: p.xid, Prog: testProg, Vers: testVers, Proc: tNull}, nil)
	if !h.OK() {
		p.t.Errorf("%s: the call after it: %+v", what, h)
	}
}

// lastNumber returns the end of the window at the server.
func (p *handPeer) lastNumber() uint32 {
	w := &p.rig.gss.contexts.find(p.handle).window
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// add makes a valid call, and reports an error unless it succeeds.
func (p *handPeer) add(seq uint32) error {
	p.t.Helper()
	h, d := p.exchange(p.data(seq, transport.ServiceNone, tAdd), words{1, 2}.EncodeXDR)
	switch {
	case !h.OK():
		return &transport.AuthError{Stat: h.Auth}
	case p.ctx.VerifyMIC(h.Verf.Body, binary.BigEndian.AppendUint32(nil, seq)) != nil:
		return errors.New("wrong verifier")
	case d.Uint32() != 3:
		return errors.New("wrong sum")
	}
	return nil
}
