// MPA start-up that is wrong, and streams that break off.

package hostile

import (
	"fmt"
	"net"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/stack/peer"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// silent wants these bytes, sent as start-up, to end the connection with no byte in answer (RFC
// 5044 §7.1.2 [R5044-123]).
func silent(t *testing.T, what string, b []byte) {
	t.Helper()
	t.Run(what, func(t *testing.T) { silence(t, b) })
}

func silence(t *testing.T, b []byte) {
	s, works := rig.Attacked(t, rig.Config{})
	p := peer.Raw(t, s.RDMA)
	p.Say(b)
	p.WantEnd("start-up")
	works()
}

func request(change func(f *mpa.Frame, b []byte) []byte) []byte {
	f := peer.Request()
	return change(f, mpa.AppendFrame(nil, f))
}

// TestDataBehindRequest: data after the Request, sent before the Reply has come, ends the
// connection.
func TestDataBehindRequest(t *testing.T) {
	xid := peer.XID()
	h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpSend), MSN: 1}
	call := mpa.AppendFPDU(nil, true, h.Append(nil), peer.Inline(xid, peer.NFS(xid, nfs3.ProcNull, nil)))
	for name, tail := range map[string][]byte{"one byte": {0}, "a call": call} {
		silent(t, name, request(func(_ *mpa.Frame, b []byte) []byte { return append(b, tail...) }))
	}
}

func TestPrivateData513(t *testing.T) {
	silent(t, "513", request(func(_ *mpa.Frame, b []byte) []byte {
		b[18], b[19] = 513>>8, 513&0xff
		return append(b[:20], make([]byte, 513)...)
	}))
}

// TestPrivateData512: the maximum of private data is accepted.
func TestPrivateData512(t *testing.T) {
	s, works := rig.Attacked(t, rig.Config{})
	f := peer.Request()
	f.PrivateData = append(make([]byte, 500), f.PrivateData...)
	peer.DialWith(t, s.RDMA, f).Null("508 bytes of private data")
	f.HasEnhanced, f.Rev = false, mpa.Rev1
	f.PrivateData = append(make([]byte, 4), f.PrivateData...)
	peer.DialWith(t, s.RDMA, f).Null("512 bytes of private data, revision 1")
	works()
}

func TestRequestWithReplyKey(t *testing.T) {
	silent(t, "key", request(func(f *mpa.Frame, _ []byte) []byte {
		f.Reply = true
		return mpa.AppendFrame(nil, f)
	}))
}

func TestRequestRevisions(t *testing.T) {
	for _, rev := range []byte{0, 3, 255} {
		silent(t, fmt.Sprint(rev), request(func(_ *mpa.Frame, b []byte) []byte { b[17] = rev; return b }))
	}
}

// TestEnhancedWithoutRoom: an enhanced block that is announced and does not fit ends the
// connection.
func TestEnhancedWithoutRoom(t *testing.T) {
	for n := range byte(4) {
		silent(t, fmt.Sprint(n), request(func(_ *mpa.Frame, b []byte) []byte { b[19] = n; return b[:20+int(n)] }))
	}
}

// TestFINInsideFPDU: a FIN at any byte in an FPDU ends the connection.
func TestFINInsideFPDU(t *testing.T) {
	s, works := rig.Attacked(t, rig.Config{})
	xid := peer.XID()
	h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpSend), MSN: 2}
	f := mpa.AppendFPDU(nil, true, h.Append(nil), peer.Inline(xid, peer.NFS(xid, nfs3.ProcNull, nil)))
	for n := 0; n < len(f); n += 3 {
		p := peer.Dial(t, s.RDMA)
		p.Null("before")
		p.Say(f[:n])
		p.C.(*net.TCPConn).CloseWrite()
		p.WantEnd("FIN")
		p.C.Close()
	}
	works()
}

// fpdu wants a Terminate with this code in answer to an FPDU in the middle of a stream.
func fpdu(t *testing.T, what string, b []byte, code term.Code) {
	t.Helper()
	t.Run(what, func(t *testing.T) {
		a := attack(t)
		a.Say(b)
		got := a.WantTerminate(what, code)
		if code.Layer == term.LayerLLP && (got.HasSegLen || len(got.DDP) > 0) {
			t.Errorf("the Terminate returns headers") // RFC 5040 §4.8 [R5040-083]
		}
		a.works()
	})
}

// framed returns an FPDU of any length with a good CRC, which AppendFPDU would not make.
func framed(ulpdu []byte) []byte {
	b := append([]byte{byte(len(ulpdu) >> 8), byte(len(ulpdu))}, ulpdu...)
	b = append(b, make([]byte, mpa.Pad(len(ulpdu)))...)
	b = append(b, 0, 0, 0, 0)
	mpa.PutCRC(b[len(b)-4:], mpa.CRC32C(b[:len(b)-4]))
	return b
}

func TestFPDULength0(t *testing.T) { fpdu(t, "length 0", framed(nil), term.MPAMarker) }

func TestFPDULength1(t *testing.T) {
	fpdu(t, "length 1", framed([]byte{0x41}), term.DDPLocal)
	fpdu(t, "length 13", framed(make([]byte, 13)), term.DDPLocal)
}

// TestFPDULength65535: an FPDU of maximum length, with more bytes than the receive has, gets a
// Terminate.
func TestFPDULength65535(t *testing.T) {
	h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpSend), MSN: 2}
	fpdu(t, "length 65535", framed(append(h.Append(nil), make([]byte, 65535-18)...)), term.DDPTooLong)
}

func TestCRCWrong(t *testing.T) {
	conformance.Proves(t, "R5044-064", "R5044-163")
	xid := peer.XID()
	h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpSend), MSN: 2}
	good := mpa.AppendFPDU(nil, true, h.Append(nil), peer.Inline(xid, peer.NFS(xid, nfs3.ProcNull, nil)), []byte{1})
	for where, at := range map[string]int{"header": 10, "payload": 60, "pad": len(good) - 5, "CRC": len(good) - 1} {
		bad := append([]byte(nil), good...)
		bad[at] ^= 1
		fpdu(t, "wrong in "+where, bad, term.MPACRC)
	}
}
