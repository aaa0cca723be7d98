// Golden bytes and truncations of the messages.

package gss

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// goldenCredential is hand-written from RFC 2203 §5, with a pad.
const goldenCredential = "00000001 00000003 7fffffff 00000002 00000005 0102030405000000"

func TestCredential(t *testing.T) {
	conformance.Proves(t, "R5403-001", "R5403-002", "R5403-008", "R2203-004", "R2203-005", "R2203-006", "R2203-007")
	b := must.Hex(t, goldenCredential)
	want := credential{messageDestroy, maxSeq - 1, transport.ServiceIntegrity, []byte{1, 2, 3, 4, 5}}
	if got := want.append(nil); !bytes.Equal(got, b) {
		t.Errorf("%+v is %x, want %x", want, got, b)
	}
	var got credential
	if err := got.parse(b); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("parsed %+v, %v, want %+v", got, err, want)
	}
	for n := range b {
		if n >= 25 { // only padding is missing
			break
		}
		if err := got.parse(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken", n, len(b))
		}
	}
	if err := got.parse(append(bytes.Clone(b), 0, 0, 0, 0)); !errors.Is(err, errCredential) {
		t.Errorf("bytes left over: %v, want %v", err, errCredential)
	}
	for _, row := range []struct {
		off  int
		v    byte
		want error
	}{{7, 4, errCredential}, {4, 1, errCredential}, {3, 0, errVersion}, {3, 2, errVersion}, {0, 1, errVersion}, {18, 1, errCredential}} {
		m := bytes.Clone(b)
		m[row.off] = row.v
		if err := got.parse(m); err != row.want {
			t.Errorf("byte %d is %d: %v, want %v", row.off, row.v, err, row.want)
		}
	}
	if n := int(messageData) | int(messageInit)<<4 | int(messageContinue)<<8 | int(messageDestroy)<<12; n != 0x3210 {
		t.Errorf("messages are %#x", n)
	}
	if n := transport.ServiceNone | transport.ServiceIntegrity<<4 | transport.ServicePrivacy<<8; n != 0x321 {
		t.Errorf("services are %#x", n)
	}
}

type coded interface {
	xdr.Marshaler
	xdr.Unmarshaler
}

func TestInitGolden(t *testing.T) {
	conformance.Proves(t, "R2203-016", "R2203-018", "R2203-066")
	for _, g := range []struct {
		msg, back coded
		hex       string
	}{
		{&initArg{[]byte{9, 8, 7}}, &initArg{}, "00000003 09080700"},
		{&initRes{[]byte{1, 2}, Failure, 7, 512, []byte{3}}, &initRes{}, "00000002 01020000 000d0000 00000007 00000200 00000001 03000000"},
		{&initRes{[]byte{1}, ContinueNeeded, 0, 0, []byte{4, 5, 6, 7}}, &initRes{}, "00000001 01000000 00000001 00000000 00000000 00000004 04050607"},
		{&initRes{nil, NoContext, 0, 0, nil}, &initRes{}, "00000000 00080000 00000000 00000000 00000000"},
		{&initRes{nil, DefectiveToken, 0, 0, nil}, &initRes{}, "00000000 00090000 00000000 00000000 00000000"},
		{&initRes{nil, CredentialsExpired, 0, 0, nil}, &initRes{}, "00000000 000b0000 00000000 00000000 00000000"},
		{&initRes{nil, Unavailable, 0, 0, nil}, &initRes{}, "00000000 00100000 00000000 00000000 00000000"},
		{&initRes{nil, Complete, 0, 0, nil}, &initRes{}, "00000000 00000000 00000000 00000000 00000000"},
	} {
		b := must.Hex(t, g.hex)
		e := xdr.NewEncoder(nil)
		if g.msg.EncodeXDR(e); !bytes.Equal(e.Bytes(), b) {
			t.Errorf("%+v is %x, want %x", g.msg, e.Bytes(), b)
		}
		d := xdr.NewDecoder(b)
		if g.back.DecodeXDR(d); d.Err() != nil || d.Remaining() != 0 || !reflect.DeepEqual(g.back, g.msg) {
			t.Errorf("decoded %+v, %v, want %+v", g.back, d.Err(), g.msg)
		}
		for n := range len(b) - 3 { // the last word may be padding
			d := xdr.NewDecoder(b[:n])
			if g.back.DecodeXDR(d); d.Err() == nil && n < len(b)-3 {
				t.Errorf("%+v: %d of %d bytes are taken", g.msg, n, len(b))
			}
		}
	}
	for major, want := range map[uint32]bool{Complete: false, ContinueNeeded: false, 2: false, Failure: true, 0x01000000: true} {
		if failed(major) != want {
			t.Errorf("failed(%#x) = %v, want %v", major, failed(major), want)
		}
	}
}

func FuzzCredential(f *testing.F) {
	f.Add(must.Hex(f, goldenCredential))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c, again credential
		if c.parse(b) != nil {
			return
		}
		if err := again.parse(c.append(nil)); err != nil || !reflect.DeepEqual(c, again) {
			t.Errorf("%+v, again %+v, %v", c, again, err)
		}
	})
}

func FuzzInit(f *testing.F) {
	f.Add(must.Hex(f, "00000002 01020000 000d0000 00000007 00000200 00000001 03000000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range [][2]coded{{&initArg{}, &initArg{}}, {&initRes{}, &initRes{}}} {
			d := xdr.NewDecoder(b)
			if m[0].DecodeXDR(d); d.Err() != nil {
				continue
			}
			e := xdr.NewEncoder(nil)
			m[0].EncodeXDR(e)
			d = xdr.NewDecoder(e.Bytes())
			back := xdr.NewEncoder(nil)
			m[1].DecodeXDR(d)
			if m[1].EncodeXDR(back); d.Err() != nil || !bytes.Equal(back.Bytes(), e.Bytes()) {
				t.Errorf("%+v, again %+v, %v", m[0], m[1], d.Err())
			}
		}
	})
}
