// The dispatcher without a network: bytes in, bytes out.

package transport

import (
	"bytes"
	"context"
	"encoding/hex"
	"net"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A tape is a carrier that records each call's end.
type tape struct {
	ctx   context.Context
	calls gate
	work  connQueues
	lost  func() // ends ctx
	ends  chan tapeEnd
	peer  peer
	via   carrier // of its calls; nil: the tape

	receiver *receiver // nil: workers run the calls
	more     bool      // others have arrived with each call
	waits    bool      // input waits after each call
	uncorked int
}

type tapeEnd struct {
	how   string // "reply", "chunks", "drop"
	reply []byte
}

func newTape(ip string) *tape {
	t := &tape{ends: make(chan tapeEnd, 100), ctx: context.Background()}
	t.calls.init(100, 1<<40)
	t.work.most, t.work.slots = 4, 100
	t.peer.init(&net.TCPAddr{IP: net.ParseIP(ip), Port: 700})
	return t
}

// cut ends the connection, possibly before replies have arrived.
func (t *tape) cut() *tape {
	t.peer.origin.ended(fateCut)
	return t
}

func (t *tape) queues() *connQueues { return &t.work }

func (t *tape) request(*Call) *rpcrdma.Request { return nil }

func (t *tape) rejectChunks(c *Call) { t.end(c, tapeEnd{how: "chunks"}) }
func (t *tape) drop(c *Call)         { t.end(c, tapeEnd{how: "drop"}) }
func (t *tape) reply(c *Call) {
	var g gatherList
	var b bytes.Buffer
	g.message(&c.socket.mark, &c.res)
	g.writeTo(&b, nil)
	t.end(c, tapeEnd{"reply", b.Bytes()[markLen:]})
}

func (t *tape) uncork(*Call)          { t.uncorked++ }
func (t *tape) inputWaits(*Call) bool { return t.waits }

// buffer returns nil beyond a limit, like every carrier's.
func (t *tape) buffer(_ *Call, n int) []byte {
	if n < 0 || n > 4<<20 {
		return nil
	}
	return make([]byte, n)
}

func (t *tape) end(c *Call, e tapeEnd) {
	c.recycle()
	t.calls.leave(0)
	t.ends <- e
}

// start passes a message to the dispatcher. leads is dispatcher.serve's result.
func (t *tape) start(s *Server, m chunks.Message) (leads bool) {
	t.calls.tryEnter()
	if t.work.client == nil {
		s.pool.join(&t.work, t.peer.client())
	}
	var via carrier = t
	if t.via != nil {
		via = t.via
	}
	c := getCall(via)
	c.Ctx = t.ctx
	c.args.Reset(m.Stream, m.Items)
	c.res.Reset(make([]byte, 0, 64))
	c.here, c.ownLoop, c.more = t.receiver, t.receiver != nil, t.more
	return s.dispatcher.serve(c, &t.peer)
}

// do passes a message to the dispatcher, and returns the call's end.
func (t *tape) do(s *Server, m chunks.Message) tapeEnd {
	t.start(s, m)
	return <-t.ends
}

// unhex parses hexadecimal digits with blanks between them.
func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		panic(err)
	}
	return b
}

func newTestServer(t testing.TB) (*Server, *testProgram) {
	p := newTestProgram()
	s := NewServer(ServerConfig{}, p.program(), &Program{Name: "OTHER", Number: testProg, Version: 5, Procs: nil})
	t.Cleanup(func() {
		p.release()
		s.Shutdown(context.Background())
	})
	return s, p
}

const noAuth = "00000000 00000000 00000000 00000000 " // credential and verifier

// Each kind of answer in RFC 5531 §9 is sent byte for byte.
func TestDispatchGolden(t *testing.T) {
	conformance.Proves(t, "R8166-001", "R8166-002", "R8166-194", "R8267-019", "R8267-021")
	s, _ := newTestServer(t)
	const head = "0000beef 00000000 00000002 20000a11 00000003 "
	const sys = "00000001 0000001c 00000007 00000002 61620000 000003e8 00000064 00000001 00000005 00000000 00000000 "
	for _, tc := range []struct{ name, call, want string }{
		{"NULL", head + "00000000" + noAuth, "0000beef 00000001 00000000 00000000 00000000 00000000"},
		{"AUTH_SYS", head + "00000001" + sys + "00000002 00000003", "0000beef 00000001 00000000 00000000 00000000 00000000 00000005"},
		{"ADD", head + "00000001" + noAuth + "00000002 00000003", "0000beef 00000001 00000000 00000000 00000000 00000000 00000005"},
		{"bytes behind the arguments", head + "00000001" + noAuth + "00000002 00000003 99999999", "0000beef 00000001 00000000 00000000 00000000 00000000 00000005"},
		{"GARBAGE_ARGS", head + "00000001" + noAuth + "00000002 000000", "0000beef 00000001 00000000 00000000 00000000 00000004"},
		{"PROC_UNAVAIL nil", head + "0000000a" + noAuth, "0000beef 00000001 00000000 00000000 00000000 00000003"},
		{"PROC_UNAVAIL beyond", head + "ffffffff" + noAuth, "0000beef 00000001 00000000 00000000 00000000 00000003"},
		{"SYSTEM_ERR", head + "00000007" + noAuth, "0000beef 00000001 00000000 00000000 00000000 00000005"},
		{"SYSTEM_ERR of a panic", head + "00000005" + noAuth, "0000beef 00000001 00000000 00000000 00000000 00000005"},
		{"AUTH_TOOWEAK", head + "00000006" + noAuth, "0000beef 00000001 00000001 00000001 00000005"},
		{"PROG_UNAVAIL", "00000001 00000000 00000002 000186a3 00000003 00000000" + noAuth, "00000001 00000001 00000000 00000000 00000000 00000001"},
		{"PROG_MISMATCH", "00000001 00000000 00000002 20000a11 00000004 00000000" + noAuth, "00000001 00000001 00000000 00000000 00000000 00000002 00000003 00000005"},
		{"RPC_MISMATCH", "00000001 00000000 00000003 20000a11 00000003 00000000" + noAuth, "00000001 00000001 00000001 00000000 00000002 00000002"},
		{"RPC_MISMATCH, nothing more", "00000001 00000000 00000001", "00000001 00000001 00000001 00000000 00000002 00000002"},
		{"AUTH_REJECTEDCRED short", head + "00000000 00000002 00000000 00000000 00000000", "0000beef 00000001 00000001 00000001 00000002"},
		{"AUTH_REJECTEDCRED gss", head + "00000000 00000006 00000004 01020304 00000000 00000000", "0000beef 00000001 00000001 00000001 00000002"},
		{"AUTH_BADCRED cut", head + "00000000 00000001 00000004 00000000 00000000 00000000", "0000beef 00000001 00000001 00000001 00000001"},
		{"AUTH_BADCRED empty", head + "00000000 00000001 00000000 00000000 00000000", "0000beef 00000001 00000001 00000001 00000001"},
		{"AUTH_BADCRED over 400", head + "00000000 00000001 00000191", "0000beef 00000001 00000001 00000001 00000001"},
		{"AUTH_BADCRED 17 groups", head + "00000000 00000001 00000014 00000000 00000000 00000000 00000000 00000011 00000000 00000000", "0000beef 00000001 00000001 00000001 00000001"},
		{"AUTH_BADVERF over 400", head + "00000000 00000000 00000000 00000000 00000191", "0000beef 00000001 00000001 00000001 00000003"},
		{"AUTH_BADVERF flavour", head + "00000000 00000000 00000000 00000001 00000000", "0000beef 00000001 00000001 00000001 00000003"},
	} {
		got := newTape("10.0.0.1").do(s, chunks.Message{Stream: unhex(tc.call)})
		if got.how != "reply" || !bytes.Equal(got.reply, unhex(tc.want)) {
			t.Errorf("%s: %s %x, want %s", tc.name, got.how, got.reply, tc.want)
		}
	}
}

// A message that is no call, or is truncated in its header, gets no answer.
func TestDispatchDrops(t *testing.T) {
	s, p := newTestServer(t)
	whole := unhex("0000beef 00000000 00000002 20000a11 00000003 00000008" + noAuth)
	for n := range len(whole) {
		if got := newTape("10.0.0.1").do(s, chunks.Message{Stream: whole[:n]}); got.how != "drop" {
			t.Errorf("%d bytes: %s %x", n, got.how, got.reply)
		}
	}
	reply := unhex("0000beef 00000001 00000000 00000000 00000000 00000000")
	if got := newTape("10.0.0.1").do(s, chunks.Message{Stream: reply}); got.how != "drop" {
		t.Errorf("a reply: %s", got.how)
	}
	if n := p.runs.Load(); n != 0 {
		t.Errorf("the procedure ran %d times", n)
	}
}

// writeCall returns a WRITE call without its opaque of n bytes.
func writeCall(n uint32, proc uint32) []byte {
	var e xdr.Encoder
	h := oncrpc.CallHeader{XID: 5, Prog: testProg, Vers: testVers, Proc: proc}
	h.EncodeXDR(&e)
	e.Uint32(n)
	e.Uint32(n)
	return e.Bytes()
}

// Arguments in chunks are accepted if they fit the call, and otherwise refused: RFC 8166 §4.5.2
// [R8166-161], RFC 8166 §6.1 [R8166-188 R8166-189].
func TestDispatchItems(t *testing.T) {
	conformance.Proves(t, "R8166-056", "R8166-161", "R8166-162", "R8166-183", "R8166-185", "R8166-188", "R8166-189", "R8267-014")
	s, p := newTestServer(t)
	data := []byte("0123456789")
	for _, tc := range []struct {
		name string
		msg  chunks.Message
		want string
	}{
		{"in place", chunks.Message{Stream: writeCall(10, tWrite), Items: []xdr.Item{{Off: 48, Data: data}}}, "success"},
		{"other length", chunks.Message{Stream: writeCall(9, tWrite), Items: []xdr.Item{{Off: 48, Data: data}}}, "garbage"},
		{"other Position", chunks.Message{Stream: writeCall(10, tWrite), Items: []xdr.Item{{Off: 44, Data: data}}}, "chunks"},
		{"Position behind", chunks.Message{Stream: writeCall(10, tWrite), Items: []xdr.Item{{Off: 52, Data: data}}}, "chunks"},
		{"Position in the header", chunks.Message{Stream: writeCall(10, tWrite), Items: []xdr.Item{{Off: 28, Data: data}}}, "chunks"},
		{"one too many", chunks.Message{Stream: writeCall(10, tWrite), Items: []xdr.Item{{Off: 48, Data: data}, {Off: 48, Data: data}}}, "chunks"},
		{"no length, one item", chunks.Message{Stream: writeCall(0, tWrite), Items: []xdr.Item{{Off: 48, Data: data}}}, "chunks"},
		{"procedure without items", chunks.Message{Stream: writeCall(10, tCount), Items: []xdr.Item{{Off: 48, Data: data}}}, "chunks"},
	} {
		got := newTape("10.0.0.1").do(s, tc.msg)
		how := got.how
		if how == "reply" {
			how = map[byte]string{0: "success", 4: "garbage"}[got.reply[23]]
		}
		if how != tc.want {
			t.Errorf("%s: %s, want %s (%x)", tc.name, how, tc.want, got.reply)
		}
	}
	if n := p.runs.Load(); n != 0 {
		t.Errorf("a procedure without items ran %d times", n)
	}
}
