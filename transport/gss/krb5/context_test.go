// Per-message tokens between both ends, and each fault of a token.

package krb5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// eachContext runs a test with both ends of a context, for each enctype.
func eachContext(t *testing.T, f func(t *testing.T, from, to *Context)) {
	t.Helper()
	for _, et := range enctypes {
		i, a := contexts(t, et.id)
		t.Run(et.name+" initiator", func(t *testing.T) { f(t, i, a) })
		t.Run(et.name+" acceptor", func(t *testing.T) { f(t, a, i) })
	}
}

func TestTokens(t *testing.T) {
	eachContext(t, func(t *testing.T, from, to *Context) {
		mic, wrap := from.Overhead()
		for _, n := range []int{0, 1, 15, 16, 17, 1000, 100000} {
			plain := bytes.Repeat([]byte{byte(n)}, n)
			token := from.MIC([]byte("x"), plain[:n/2], plain[n/2:])[1:]
			if err := to.VerifyMIC(token, plain); err != nil || len(token) != mic {
				t.Errorf("MIC of %d bytes: %d bytes, %v, want %d", n, len(token), err, mic)
			}
			token = from.Wrap([]byte("x"), plain[:n/3], plain[n/3:])[1:]
			if len(token) != n+wrap {
				t.Errorf("Wrap of %d bytes: %d bytes, want %d more", n, len(token), wrap)
			}
			if got, err := to.Unwrap(token); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("Unwrap of %d bytes: %v", n, err)
			}
			token = from.WrapClear([]byte("x"), plain[:n/3], plain[n/3:])[1:]
			if got, sealed, err := to.UnwrapAny(token); err != nil || sealed || !bytes.Equal(got, plain) {
				t.Errorf("UnwrapAny of %d bytes: sealed %v, %v", n, sealed, err)
			}
		}
	})
}

// TestSequence: tokens' sequence numbers begin with the exchanged numbers and grow by one.
func TestSequence(t *testing.T) {
	conformance.Proves(t, "R4121-024", "R4121-025")
	a, _ := testAcceptor(t, "")
	f := newForgery(t, AES128SHA1)
	f.auth.seq = 1<<30 - 1
	_, reply, err := a.Accept(f.token())
	must.Succeed(t, err)
	got, err := f.initiator().Finish(reply)
	must.Succeed(t, err)
	c := got.(*Context)
	c.MIC(nil)
	c.Wrap(nil)
	token := c.WrapClear(nil)
	if n := binary.BigEndian.Uint64(token[8:]); n != 1<<30+1 {
		t.Errorf("the third token has number %d, want %d", n, 1<<30+1)
	}
}

// TestTokenHeaders: tokens begin with the bytes that RFC 4121 §4.2.6 demands.
func TestTokenHeaders(t *testing.T) {
	conformance.Proves(t, "R4121-022", "R4121-023", "R4121-027", "R4121-028", "R4121-029", "R4121-030", "R4121-031", "R4121-034", "R4121-043", "R4121-045")
	i, a := contexts(t, AES256SHA1)
	i.seq.Store(0x0102030405060708)
	a.seq.Store(7)
	for _, v := range []struct {
		token []byte
		want  string
	}{
		{i.MIC(nil), "040404ffffffffff0102030405060708"},
		{i.Wrap(nil), "050406ff000000000102030405060709"},
		{i.WrapClear(nil), "050404ff000c0000010203040506070a"},
		{a.MIC(nil), "040405ffffffffff0000000000000007"},
		{a.Wrap(nil), "050407ff000000000000000000000008"},
	} {
		if got := fmt.Sprintf("%x", v.token[:tokenHeader]); got != v.want {
			t.Errorf("header %s, want %s", got, v.want)
		}
	}
}

// sealed makes a Wrap token with from's key, and the given header, inner header, filler and
// rotation.
func sealed(from *Context, h, inner header, plain []byte, filler int, rotate int) []byte {
	var head, copied [tokenHeader]byte
	h.put(head[:])
	inner.put(copied[:])
	body := from.send.seal.seal(nil, copied[:], plain, make([]byte, filler))
	r := rotate % len(body)
	return append(append(head[:], body[len(body)-r:]...), body[:len(body)-r]...)
}

// TestRotation: each rotation, even one above the length, and each filler is accepted.
func TestRotation(t *testing.T) {
	conformance.Proves(t, "R4121-033", "R4121-039", "R4121-041", "R4121-042")
	eachContext(t, func(t *testing.T, from, to *Context) {
		plain := bytes.Repeat([]byte("rotate"), 100)
		for _, rotate := range []int{0, 1, 16, 28, 255, 256, 257, 400, 659, 660, 661, 65535} {
			for _, filler := range []int{0, 1, 15, 16, 1000} {
				h := header{id: idWrap, flags: from.sendFlags | flagSealed, ec: uint16(filler), rrc: uint16(rotate), seq: 9}
				inner := h
				inner.rrc = 0
				if got, err := to.Unwrap(sealed(from, h, inner, plain, filler, rotate)); err != nil || !bytes.Equal(got, plain) {
					t.Fatalf("rotation %d, filler %d: %v", rotate, filler, err)
				}
			}
			token := from.WrapClear(nil, plain)
			binary.BigEndian.PutUint16(token[6:], uint16(rotate))
			body := token[tokenHeader:]
			r := rotate % len(body)
			token = append(append(bytes.Clone(token[:tokenHeader]), body[len(body)-r:]...), body[:len(body)-r]...)
			if got, sealed, err := to.UnwrapAny(token); err != nil || sealed || !bytes.Equal(got, plain) {
				t.Fatalf("clear, rotation %d: %v", rotate, err)
			}
		}
	})
}

// TestInnerHeader: the encrypted copy must be the token's header.
func TestInnerHeader(t *testing.T) {
	conformance.Proves(t, "R4121-035", "R4121-037")
	eachContext(t, func(t *testing.T, from, to *Context) {
		h := header{id: idWrap, flags: from.sendFlags | flagSealed, seq: 9}
		for field, change := range map[string]func(*header){
			"id": func(h *header) { h.id = idMIC }, "flags": func(h *header) { h.flags ^= 1 << 6 }, "filler": func(h *header) { h.ec = 1 },
			"rotation": func(h *header) { h.rrc = 1 }, "number": func(h *header) { h.seq++ },
		} {
			inner := h
			change(&inner)
			if _, err := to.Unwrap(sealed(from, h, inner, []byte("plain"), 0, 0)); err == nil {
				t.Errorf("a token with another %s inside is taken", field)
			}
		}
		long := h
		long.ec = 100
		if _, err := to.Unwrap(sealed(from, long, long, []byte("plain"), 3, 0)); !errors.Is(err, errDefectiveToken) {
			t.Errorf("filler longer than the message: %v", err)
		}
	})
}

// TestAlteredTokens: a token with a changed bit or another length is refused.
func TestAlteredTokens(t *testing.T) {
	conformance.Proves(t, "R4121-029", "R4121-040", "R4121-044", "R4121-046")
	eachContext(t, func(t *testing.T, from, to *Context) {
		plain := []byte("some plain text of more than one block")
		mic, wrap, clear := from.MIC(nil, plain), from.Wrap(nil, plain), from.WrapClear(nil, plain)
		from.sendFlags |= flagSealed
		if to.VerifyMIC(from.MIC(nil, plain), plain) == nil {
			t.Error("a MIC token with the flag of sealed ones")
		}
		from.sendFlags &^= flagSealed
		for bit := range 8 * len(clear) {
			at, mask := bit/8, byte(1)<<(bit%8)
			if b := bytes.Clone(mic); at < len(b) {
				b[at] ^= mask
				if to.VerifyMIC(b, plain) == nil {
					t.Fatalf("MIC with bit %d of byte %d changed", bit%8, at)
				}
			}
			if b := bytes.Clone(wrap); at < len(b) {
				b[at] ^= mask
				if got, err := to.Unwrap(b); err == nil {
					t.Fatalf("Wrap with bit %d of byte %d changed: %q", bit%8, at, got)
				}
			}
			b := bytes.Clone(clear)
			b[at] ^= mask
			if got, _, err := to.UnwrapAny(b); err == nil {
				t.Fatalf("clear Wrap with bit %d of byte %d changed: %q", bit%8, at, got)
			}
		}
		for n := range mic {
			if to.VerifyMIC(mic[:n], plain) == nil {
				t.Fatalf("MIC of %d bytes", n)
			}
		}
		for n := range wrap {
			if _, err := to.Unwrap(bytes.Clone(wrap[:n])); err == nil {
				t.Fatalf("Wrap of %d bytes", n)
			}
		}
		for n := range clear {
			if _, _, err := to.UnwrapAny(bytes.Clone(clear[:n])); err == nil {
				t.Fatalf("clear Wrap of %d bytes", n)
			}
		}
		if to.VerifyMIC(append(bytes.Clone(mic), 0), plain) == nil {
			t.Error("MIC with a byte more")
		}
		if to.VerifyMIC(mic, plain[:10], plain[11:]) == nil {
			t.Error("MIC of other data")
		}
	})
}

// TestIdentifiers: a token with another identifier or filler is refused, even if a peer with the
// key has made its checksum.
func TestIdentifiers(t *testing.T) {
	conformance.Proves(t, "R4121-044", "R4121-046")
	eachContext(t, func(t *testing.T, from, to *Context) {
		for _, change := range []struct {
			at int
			v  byte
		}{{0, 4}, {1, 5}, {3, 0xfe}, {4, 0xfe}, {7, 0}} {
			s := from.send.sign.begin()
			header{id: idMIC, flags: from.sendFlags, seq: 9}.put(s.head[:])
			good := s.head[change.at] == change.v // byte 0 keeps its value
			s.head[change.at] = change.v
			token := bytes.Clone(s.head[:])
			token = append(token, s.checksum([][]byte{[]byte("x")})...)
			s.free()
			if err := to.VerifyMIC(token, []byte("x")); (err == nil) != good {
				t.Errorf("MIC with %#x as byte %d: %v", change.v, change.at, err)
			}
		}
		for at := range 4 {
			h := header{id: idWrap, flags: from.sendFlags | flagSealed, seq: 9}
			var head [tokenHeader]byte
			h.put(head[:])
			if at != 2 { // flags are tested elsewhere
				head[at] ^= 1
			}
			token := from.send.seal.seal(bytes.Clone(head[:]), head[:], []byte("x"))
			if _, err := to.Unwrap(token); (err == nil) != (at == 2) {
				t.Errorf("Wrap with %#x as byte %d: %v", head[at], at, err)
			}
		}
	})
}

// TestReflection: a token is refused at the end that has made it.
func TestReflection(t *testing.T) {
	conformance.Proves(t, "R4121-050")
	eachContext(t, func(t *testing.T, from, to *Context) {
		if err := from.VerifyMIC(from.MIC(nil, []byte("x")), []byte("x")); !errors.Is(err, errDirection) {
			t.Errorf("MIC: %v, want %v", err, errDirection)
		}
		if _, err := from.Unwrap(from.Wrap(nil, []byte("x"))); !errors.Is(err, errDirection) {
			t.Errorf("Wrap: %v, want %v", err, errDirection)
		}
		if _, _, err := from.UnwrapAny(from.WrapClear(nil, []byte("x"))); !errors.Is(err, errDirection) {
			t.Errorf("clear Wrap: %v, want %v", err, errDirection)
		}
	})
}

// TestUnwrapWantsSealed: where confidentiality is demanded, a readable token is refused.
func TestUnwrapWantsSealed(t *testing.T) {
	eachContext(t, func(t *testing.T, from, to *Context) {
		if got, err := to.Unwrap(from.WrapClear(nil, []byte("x"))); !errors.Is(err, errNotSealed) {
			t.Errorf("got %q, %v, want %v", got, err, errNotSealed)
		}
	})
}

// TestSubkeyFlag: if the acceptor has sent a subkey, a token without the subkey's flag is refused
// with an error of its own.
func TestSubkeyFlag(t *testing.T) {
	i, a := contexts(t, AES128SHA2)
	i.sendFlags &^= flagAcceptorSubkey
	if err := a.VerifyMIC(i.MIC(nil)); !errors.Is(err, errSubkey) {
		t.Errorf("MIC without the flag: %v, want %v", err, errSubkey)
	}
	if _, err := a.Unwrap(i.Wrap(nil)); !errors.Is(err, errSubkey) {
		t.Errorf("Wrap without the flag: %v, want %v", err, errSubkey)
	}
}

// TestOtherContext: tokens of another context are refused.
func TestOtherContext(t *testing.T) {
	for _, et := range enctypes {
		i, _ := contexts(t, et.id)
		_, a := contexts(t, et.id)
		if a.VerifyMIC(i.MIC(nil, []byte("x")), []byte("x")) == nil {
			t.Errorf("%s: MIC of another context", et.name)
		}
		if _, err := a.Unwrap(i.Wrap(nil, []byte("x"))); err == nil {
			t.Errorf("%s: Wrap of another context", et.name)
		}
	}
}

// TestConcurrent: both ends work in many goroutines at a time, and no sequence number is used
// twice.
func TestConcurrent(t *testing.T) {
	conformance.Proves(t, "R4121-024")
	i, a := contexts(t, AES256SHA2)
	numbers := make(chan uint64, 400)
	errs := make(chan error, 8)
	for range 8 {
		go func() {
			for n := range 50 {
				plain := bytes.Repeat([]byte{byte(n)}, 100*n)
				mic := i.MIC(nil, plain)
				numbers <- binary.BigEndian.Uint64(mic[8:])
				err := a.VerifyMIC(mic, plain)
				got, e := i.Unwrap(a.Wrap(nil, plain))
				if err = errors.Join(err, e); err == nil && !bytes.Equal(got, plain) {
					err = errors.New("other data")
				}
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Fatalf("concurrent tokens: %v", err)
		}
	}
	seen := map[uint64]bool{}
	for range 400 {
		n := <-numbers
		if seen[n] {
			t.Fatalf("number %d twice", n)
		}
		seen[n] = true
	}
}

// TestTokenAlloc: if dst has room, making and checking tokens allocates nothing.
func TestTokenAlloc(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	for _, et := range enctypes {
		i, a := contexts(t, et.id)
		buf := make([]byte, 0, 70000)
		parts := [][]byte{make([]byte, 1000), make([]byte, 64000)}
		var mic [64]byte
		for what, f := range map[string]func(){
			"MIC":       func() { i.MIC(buf, parts...) },
			"VerifyMIC": func() { _ = a.VerifyMIC(i.MIC(mic[:0], parts...), parts...) },
			"Wrap":      func() { i.Wrap(buf, parts...) },
			"Unwrap":    func() { _, _ = a.Unwrap(i.Wrap(buf, parts...)) },
		} {
			if n := testing.AllocsPerRun(100, f); n >= 1 {
				t.Errorf("%s: %s allocates %v times", et.name, what, n)
			}
		}
	}
}

// TestUnknownFlags: flags of later versions are ignored.
func TestUnknownFlags(t *testing.T) {
	conformance.Proves(t, "R4121-032")
	eachContext(t, func(t *testing.T, from, to *Context) {
		from.sendFlags |= 0xf8
		plain := []byte("plain")
		if err := to.VerifyMIC(from.MIC(nil, plain), plain); err != nil {
			t.Errorf("MIC: %v", err)
		}
		if got, err := to.Unwrap(from.Wrap(nil, plain)); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("Wrap: %q, %v", got, err)
		}
		if got, _, err := to.UnwrapAny(from.WrapClear(nil, plain)); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("clear Wrap: %q, %v", got, err)
		}
		from.sendFlags &= 0x07
	})
}

// TestFiller: a MIC token with other filler is malformed, even with a valid checksum.
func TestFiller(t *testing.T) {
	eachContext(t, func(t *testing.T, from, to *Context) {
		s := from.send.sign.begin()
		defer s.free()
		header{id: idMIC, flags: from.sendFlags}.put(s.head[:])
		s.head[5] = 0
		head := s.head
		token := append(head[:], s.checksum(nil)...)
		if err := to.VerifyMIC(token); !errors.Is(err, errDefectiveToken) {
			t.Errorf("got %v, want %v", err, errDefectiveToken)
		}
	})
}
