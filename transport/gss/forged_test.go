// Forged headers and bodies, as the server answers them.

package gss

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// TestForgedHeaders: each changed bit of the header is refused, and moves no window.
func TestForgedHeaders(t *testing.T) {
	conformance.Proves(t, "R2203-028", "R2203-036", "R2203-049")
	r := newRig(t, tcp, nil)
	p := r.handContext("alice")
	if err := p.add(5); err != nil {
		t.Fatalf("the first call: %v", err)
	}
	last := p.lastNumber()
	msg := encode(p.data(100000, transport.ServiceNone, tCount), words{1}.EncodeXDR)
	size := len(head(p.data(1, transport.ServiceNone, tCount)))
	for off := range size {
		if off >= 4 && off < 12 || off >= 24 && off < 40 && off != 35 {
			continue // message type, RPC version, flavor, lengths, version, message: other errors
		}
		if off >= 44 && off < 48 {
			continue // service
		}
		if off >= 48 && off < 68 {
			continue // the handle: another context
		}
		m := bytes.Clone(msg)
		m[off] ^= 1
		p.send(m)
		h, d := p.receive()
		if off == 35 { // another version
			checkDenied(t, "byte 35", h, d, oncrpc.AuthBadCred)
			continue
		}
		checkDenied(t, fmt.Sprintf("byte %d", off), h, d, oncrpc.GSSCredProblem)
	}
	for _, change := range []func(b []byte) []byte{
		func(b []byte) []byte { return b[:len(b)-1] },
		func(b []byte) []byte { return append(b, 0) },
		func(b []byte) []byte { return nil },
	} {
		h := p.data(100000, transport.ServiceNone, tCount)
		h.Verf.Body = change(h.Verf.Body)
		got, d := p.exchange(h, words{1}.EncodeXDR)
		checkDenied(t, "another verifier", got, d, oncrpc.GSSCredProblem)
	}
	if got := p.lastNumber(); got != last || r.runs.Load() != 0 {
		t.Errorf("the window ends at %d, want %d; %d calls ran, want none", got, last, r.runs.Load())
	}
	if err := p.add(6); err != nil {
		t.Errorf("a valid call afterwards: %v", err)
	}
}

// TestForgedBodies: each changed bit of protected arguments gives GARBAGE_ARGS, and nothing runs.
func TestForgedBodies(t *testing.T) {
	conformance.Proves(t, "R2203-033", "R2203-057", "R2203-058")
	r := newRig(t, tcp, nil)
	p := r.handContext("alice")
	seq := uint32(1)
	for _, service := range services[1:] {
		body := xdr.NewEncoder(nil)
		p.args(service, seq, words{7}.EncodeXDR)(body)
		for off := range body.Len() + body.Len()/4 {
			seq++
			e := xdr.NewEncoder(nil)
			p.args(service, seq, words{7}.EncodeXDR)(e)
			b := e.Bytes()
			if off < len(b) {
				b[off] ^= 0x80
			} else {
				b = b[:4*(off-len(b))] // each truncation
			}
			h, d := p.exchange(p.data(seq, service, tCount), func(e *xdr.Encoder) { e.Raw(b) })
			p.checkVerifier("a forged body", h, seq)
			if h.Accept != oncrpc.GarbageArgs || d.Remaining() != 0 {
				t.Errorf("service %d, change %d: %+v, want GARBAGE_ARGS", service, off, h)
			}
		}
	}
	if n := r.runs.Load(); n != 0 {
		t.Errorf("%d calls ran, want none", n)
	}
}

// TestBodyNumber: the body's sequence number must be the credential's.
func TestBodyNumber(t *testing.T) {
	conformance.Proves(t, "R2203-034", "R2203-040")
	r := newRig(t, tcp, nil)
	p := r.handContext("alice")
	for i, service := range services[1:] {
		seq := uint32(20 + i)
		h, _ := p.exchange(p.data(seq, service, tCount), p.sealed(service, seq-1, words{7}.EncodeXDR))
		p.checkVerifier("another number", h, seq)
		if h.Accept != oncrpc.GarbageArgs {
			t.Errorf("service %d: %+v, want GARBAGE_ARGS", service, h)
		}
	}
	if n := r.runs.Load(); n != 0 {
		t.Errorf("%d calls ran, want none", n)
	}
}

// TestShortBodies: a protected body too short for its number gives GARBAGE_ARGS, though its
// protection is valid.
func TestShortBodies(t *testing.T) {
	r := newRig(t, tcp, nil)
	p := r.handContext("alice")
	seq := uint32(1)
	for _, service := range services[1:] {
		for n := range 4 {
			h, _ := p.exchange(p.data(seq, service, tCount), func(e *xdr.Encoder) {
				body := make([]byte, n)
				if service == transport.ServicePrivacy {
					e.Opaque(p.ctx.Wrap(nil, body))
					return
				}
				e.Opaque(body)
				e.Opaque(p.ctx.MIC(nil, body))
			})
			p.checkVerifier("a short body", h, seq)
			if h.Accept != oncrpc.GarbageArgs {
				t.Errorf("service %d, %d bytes: %+v, want GARBAGE_ARGS", service, n, h)
			}
			seq++
		}
	}
	must.Succeed(t, p.add(seq))
}
