// Arbitrary bytes against the server's whole admission, and against the client's decoding.

package gss

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// FuzzAdmission sends calls with arbitrary credentials, verifiers and bodies. Without a MIC none
// runs, and another user's context goes on.
func FuzzAdmission(f *testing.F) {
	r := newRig(f, tcp, nil)
	victim, witness := r.handContext("alice"), r.handContext("bob")
	cred := func(m message, service transport.Service) []byte {
		return (&credential{message: m, seq: 7, service: service, handle: victim.handle}).append(nil)
	}
	init := xdr.NewEncoder(nil)
	(&initArg{r.realm.token("carol@TEST", "0123456789abcdef")}).EncodeXDR(init)
	for _, signed := range []bool{false, true} {
		for m := messageData; m <= messages; m++ {
			for service := transport.Service(0); service <= 4; service++ {
				f.Add(signed, uint8(tCount), cred(m, service), []byte{1, 2, 3}, init.Bytes())
				f.Add(signed, uint8(0), cred(m, service), []byte{}, []byte{0, 0, 0, 4, 0, 0, 0, 7})
			}
		}
		f.Add(signed, uint8(0), (&credential{message: messageInit}).append(nil), []byte{}, init.Bytes())
	}
	seq := uint32(0)
	f.Fuzz(func(t *testing.T, signed bool, proc uint8, cred, verf, body []byte) {
		if len(cred) > maxCred || len(verf) > maxCred || len(body) > 4000 || proc == tHold {
			return
		}
		runs := r.runs.Load()
		nc, err := net.Dial("tcp", r.addr)
		must.Succeed(t, err)
		defer nc.Close()
		p := &handPeer{t: t, rig: r, nc: nc, ctx: victim.ctx}
		h := p.header(&credential{}, uint32(proc))
		h.Cred.Body, h.Verf = cred, oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorGSS, Body: verf}
		if signed {
			p.sign(h)
		}
		if len(verf) == 0 && !signed {
			h.Verf.Flavor = oncrpc.FlavorNone
		}
		p.send(encode(h, func(e *xdr.Encoder) { e.Raw(body) }))
		nc.(*net.TCPConn).CloseWrite()
		nc.SetReadDeadline(time.Now().Add(20 * time.Second))
		reply, err := io.ReadAll(nc)
		if err != nil {
			t.Fatalf("the reply: %v", err)
		}
		if len(reply) > 0 {
			d := xdr.NewDecoder(reply[4:])
			var rh oncrpc.ReplyHeader
			if rh.DecodeXDR(d); d.Err() != nil || rh.XID != h.XID {
				t.Errorf("the reply %x: %v", reply, d.Err())
			}
		}
		if got := r.runs.Load(); got != runs && !signed {
			t.Errorf("a call without a MIC ran")
		}
		seq++
		witness.t = t
		if err := witness.add(seq); err != nil {
			t.Errorf("another user's call: %v", err)
		}
	})
}

// FuzzOpen decodes arbitrary protected bodies: none is taken except the sealed one.
func FuzzOpen(f *testing.F) {
	realm := newFakeRealm()
	ours, theirs := realm.context("a@TEST", "nonce", false), realm.context("a@TEST", "nonce", true)
	plain := append(binary.BigEndian.AppendUint32(nil, 9), "argument"...)
	for _, service := range services[1:] {
		e := xdr.NewEncoder(nil)
		s := &transport.Secured{Seq: 9, Service: service}
		p := &protection{theirs}
		p.Reserve(s, e)
		e.Raw(plain[4:])
		must.Succeed(f, p.Seal(s, e, 0, nil))
		f.Add(uint32(service), e.Bytes())
	}
	f.Fuzz(func(t *testing.T, service uint32, b []byte) {
		s := &transport.Secured{Seq: 9, Service: transport.Service(service%2 + 2)}
		d := xdr.NewDecoder(bytes.Clone(b))
		if (&protection{ours}).Open(s, d) != nil {
			return
		}
		if got := d.Rest(); !bytes.Equal(got, plain[4:]) {
			t.Errorf("opened %x", got)
		}
	})
}
