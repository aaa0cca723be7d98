// Peer-to-peer start-up as initiator: which message comes first, and that nothing comes before it.

package iwarp

import (
	"context"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// The bytes of the three messages, of the answer to the Read, and of the Terminate when
// nothing is in common.
const (
	rtrSendHex     = "0012414300000000000000000000000100000000587be8c4"
	rtrWriteHex    = "000ec140000000010000000000000000ebd34c5f"
	rtrReadHex     = "002e41410000000000000001000000010000000000000000000000000000000000000000000000010000000000000000ba10e3c9"
	rtrResponseHex = "000ec1420000000000000000000000006975d6ca"
	noRTRHex       = "0016414700000000000000020000000100000000200700001bd2babe"
)

// initiates connects a QP to a script, which has read its Request and sends reply.
func initiates(t *testing.T, p rnic.ConnParams, want, reply string) (s *script, ended chan error) {
	t.Helper()
	s = &script{side: newSide(t, rnic.DeviceConfig{}, 4), t: t}
	ours, theirs := pipeTCP(t)
	s.c = theirs
	theirs.SetDeadline(time.Now().Add(time.Minute))
	ended = make(chan error, 1)
	go func() { ended <- s.dev.ConnectOver(t.Context(), s.qp, ours, p) }()
	s.wantBytes(must.Hex(t, reqKey+want))
	s.say(must.Hex(t, repKey+reply))
	return s, ended
}

// TestRTROfInitiator checks the announced RTRs, the choice among those that the Reply allows, and
// the bytes sent. The ULP's Send follows the RTR, although it is posted before Connect returns.
func TestRTROfInitiator(t *testing.T) {
	conformance.Proves(t, "R6581-002", "R6581-003", "R6581-039", "R6581-040", "R6581-047", "R6581-053", "R6581-054")
	const all = RTRSend | RTRWrite | RTRRead
	for _, c := range []struct {
		name        string
		kinds       RTR
		want, reply string
		first       string
		msn         uint32 // of the Send that follows
	}{
		{"Write of all", all, "50020004c008c008", "5002000480088008", rtrWriteHex, 1},
		{"all of all", all, "50020004c008c008", "50020004c008c008", rtrWriteHex, 1},
		{"Read or Send", all, "50020004c008c008", "50020004c0084008", rtrReadHex, 1},
		{"Send of all", all, "50020004c008c008", "50020004c0080008", rtrSendHex, 2},
		{"more than was offered", RTRSend, "50020004c0080008", "50020004c008c008", rtrSendHex, 2},
		{"Write alone", RTRWrite, "5002000480088008", "5002000480088008", rtrWriteHex, 1},
		{"Read alone, IRD 1", RTRRead, "5002000480084008", "5002000480014008", rtrReadHex, 1},
		{"Read without a slot", RTRRead | RTRSend, "50020004c0084008", "50020004c0004008", rtrSendHex, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, ended := initiates(t, rnic.ConnParams{IRD: 8, ORD: 8, Provider: ConnOptions{RTR: c.kinds, Settle: 20 * time.Millisecond}}, c.want, c.reply)
			until(t, func() bool { return s.qp.PostSend(rnic.SendWR{ID: 7, Op: rnic.OpSend}) == nil })
			s.wantBytes(must.Hex(t, c.first))
			if c.first == rtrReadHex {
				s.wantSegment(untagged(0x41, 0x43, 0, 0, c.msn, 0, nil))
				select {
				case err := <-ended:
					t.Fatalf("Connect returned before the Read was answered: %v", err)
				default:
				}
				s.say(must.Hex(t, rtrResponseHex))
			} else {
				s.wantSegment(untagged(0x41, 0x43, 0, 0, c.msn, 0, nil))
			}
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			s.want(t, rnic.OpSend, 7, rnic.WCSuccess) // the RTR itself has no completion
			readsAfter(t, s, c.first == rtrReadHex)
		})
	}
}

// readsAfter checks that a Read can be posted and completes: the slot of an RTR has been released.
func readsAfter(t *testing.T, s *script, second bool) {
	t.Helper()
	mr, err := s.pd.RegMR(make([]byte, 8), rnic.LocalWrite)
	if err != nil || s.qp.ORD() == 0 {
		return
	}
	msn := uint32(1)
	if second {
		msn = 2
	}
	post(t, s.qp, rnic.SendWR{ID: 8, Op: rnic.OpRead, MR: mr, Length: 8, RemoteSTag: 5, RemoteTO: 6})
	s.wantSegment(untagged(0x41, 0x41, 0, 1, msn, 0, readReq(mr.STag(), mr.Base(), 8, 5, 6)))
	s.fpdu(tagged(0xc1, 0x42, mr.STag(), mr.Base(), make([]byte, 8)))
	s.want(t, rnic.OpRead, 8, rnic.WCSuccess)
}

// A responder that sends too early, as siw can, only makes us ready sooner.
func TestResponderBeforeRTR(t *testing.T) {
	s, ended := initiates(t, rnic.ConnParams{IRD: 8, ORD: 8, Provider: ConnOptions{RTR: RTRWrite, Settle: time.Hour}}, "5002000480088008", "5002000480088008")
	until(t, func() bool { return s.qp.State() != rnic.StateIdle })
	recv(t, s.qp, 1, make([]byte, 8))
	s.fpdu(untagged(0x41, 0x43, 0, 0, 1, 0, []byte("early")))
	s.wantBytes(must.Hex(t, rtrWriteHex))
	s.want(t, rnic.OpRecv, 1, rnic.WCSuccess)
	s.c.Close()
	s.qp.Close()
	<-ended
}

// Between two of our ends the responder may send first, with any RTR, with or without markers and
// CRCs.
func TestResponderSpeaksFirst(t *testing.T) {
	conformance.Proves(t, "R6581-003")
	for _, cfg := range []rnic.DeviceConfig{{}, {CRC: rnic.CRCOff}, {Markers: true}} {
		for _, kinds := range []RTR{RTRWrite, RTRRead, RTRSend, RTRRead | RTRSend, RTRWrite | RTRRead | RTRSend} {
			a, b := newSide(t, cfg, 4), newSide(t, cfg, 4)
			recv(t, a.qp, 1, make([]byte, 8))
			recv(t, b.qp, 2, nil)
			l, err := b.dev.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatalf("Listen: %v", err)
			}
			accepted := make(chan error, 1)
			go func() {
				r, err := l.Accept(context.Background())
				if err == nil {
					err = r.Accept(b.qp, rnic.ConnParams{})
				}
				accepted <- err
			}()
			if err := a.dev.Connect(t.Context(), a.qp, l.Addr().String(), rnic.ConnParams{Provider: ConnOptions{RTR: kinds, Settle: -1}}); err != nil {
				t.Fatalf("Connect: %v", err)
			}
			if err := <-accepted; err != nil {
				t.Fatal(err)
			}
			post(t, b.qp, rnic.SendWR{ID: 3, Op: rnic.OpSend, SGL: [][]byte{[]byte("first")}})
			a.want(t, rnic.OpRecv, 1, rnic.WCSuccess)
			if kinds == RTRSend {
				b.want(t, rnic.OpRecv, 2, rnic.WCSuccess)
			}
			b.want(t, rnic.OpSend, 3, rnic.WCSuccess)
			l.Close()
			a.qp.Close()
			b.qp.Close()
		}
	}
}
