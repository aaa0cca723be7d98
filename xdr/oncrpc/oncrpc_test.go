// Golden bytes, truncations, bad values and allocations for the RPC headers.

package oncrpc

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr"
)

type message interface {
	xdr.Marshaler
	xdr.Unmarshaler
}

var caller = AuthSys{Stamp: 1, Machine: []byte("host5"), UID: 1000, GID: 100, NumGIDs: 2, GIDs: [MaxGIDs]uint32{4, 24}}

const callerHex = "00000001" + "00000005686f737435000000" + "000003e8" + "00000064" + "00000002" + "00000004" + "00000018"

// golden has each header with its bytes, hand-written from RFC 5531 §9.
var golden = []struct {
	name string
	msg  message
	hex  string
}{
	{"NULL call", &CallHeader{XID: 0x1a2b3c01, Prog: 100003, Vers: 3},
		"1a2b3c01 00000000 00000002 000186a3 00000003 00000000 00000000 00000000 00000000 00000000"},
	{"call with bodies", &CallHeader{1, 2, 3, 4, OpaqueAuth{FlavorShort, []byte{9, 8, 7, 6, 5}}, OpaqueAuth{FlavorGSS, []byte{1}}},
		"00000001 00000000 00000002 00000002 00000003 00000004 00000002 00000005 0908070605000000 00000006 00000001 01000000"},
	{"success", &ReplyHeader{XID: 0x1a2b3c02}, "1a2b3c02 00000001 00000000 00000000 00000000 00000000"},
	{"success with verifier", &ReplyHeader{XID: 2, Verf: OpaqueAuth{FlavorSys, []byte{1, 2}}},
		"00000002 00000001 00000000 00000001 00000002 01020000 00000000"},
	{"PROG_UNAVAIL", &ReplyHeader{XID: 2, Accept: ProgUnavail}, "00000002 00000001 00000000 00000000 00000000 00000001"},
	{"PROG_MISMATCH", &ReplyHeader{XID: 2, Accept: ProgMismatch, Low: 3, High: 4},
		"00000002 00000001 00000000 00000000 00000000 00000002 00000003 00000004"},
	{"PROC_UNAVAIL", &ReplyHeader{XID: 2, Accept: ProcUnavail}, "00000002 00000001 00000000 00000000 00000000 00000003"},
	{"GARBAGE_ARGS", &ReplyHeader{XID: 2, Accept: GarbageArgs}, "00000002 00000001 00000000 00000000 00000000 00000004"},
	{"SYSTEM_ERR", &ReplyHeader{XID: 2, Accept: SystemErr}, "00000002 00000001 00000000 00000000 00000000 00000005"},
	{"RPC_MISMATCH", &ReplyHeader{XID: 2, Denied: true, Low: 2, High: 2}, "00000002 00000001 00000001 00000000 00000002 00000002"},
	{"AUTH_ERROR", &ReplyHeader{XID: 2, Denied: true, Reject: AuthError, Auth: AuthTooWeak}, "00000002 00000001 00000001 00000001 00000005"},
	{"AUTH_SYS", &caller, callerHex},
	{"AUTH_NONE", &OpaqueAuth{}, "00000000 00000000"},
}

func encode(m xdr.Marshaler) []byte {
	e := xdr.NewEncoder(nil)
	m.EncodeXDR(e)
	return e.Bytes()
}

// fresh returns a new message of m's type.
func fresh(m message) message {
	return reflect.New(reflect.TypeOf(m).Elem()).Interface().(message)
}

func TestGolden(t *testing.T) {
	conformance.Proves(t, "R8166-001")
	for _, g := range golden {
		b := must.Hex(t, g.hex)
		if got := encode(g.msg); !bytes.Equal(got, b) {
			t.Errorf("%s: encoded %x, want %x", g.name, got, b)
		}
		back := fresh(g.msg)
		d := xdr.NewDecoder(b)
		if back.DecodeXDR(d); d.Err() != nil || d.Remaining() != 0 || !bytes.Equal(encode(back), b) {
			t.Errorf("%s: decoded %+v, %d bytes left, %v", g.name, back, d.Remaining(), d.Err())
		}
		for n := range b {
			d := xdr.NewDecoder(b[:n:n])
			if back := fresh(g.msg); true {
				if back.DecodeXDR(d); d.Err() == nil && !bytes.Equal(encode(back), b) {
					t.Errorf("%s: %d of %d bytes are taken", g.name, n, len(b))
				}
			}
		}
		if h, ok := g.msg.(*ReplyHeader); ok && h.OK() != strings.HasPrefix(g.name, "success") {
			t.Errorf("%s: OK is %v", g.name, h.OK())
		}
	}
}

// TestFaults: each error is reported, with the XID for an answer.
func TestFaults(t *testing.T) {
	call := encode(&CallHeader{XID: 7, Prog: 1, Vers: 2})
	reply := encode(&ReplyHeader{XID: 7})
	with := func(b []byte, off int, v byte) []byte {
		b = bytes.Clone(b)
		b[off] = v
		return append(b, make([]byte, 512)...)
	}
	for _, c := range []struct {
		name string
		b    []byte
		msg  message
		want error
	}{
		{"reply as call", with(call, 7, 1), &CallHeader{}, ErrNotCall},
		{"version 3", with(call, 11, 3), &CallHeader{}, ErrRPCVersion},
		{"credential of 0x191 bytes", with(with(call, 30, 1), 31, 0x91), &CallHeader{}, ErrCred},
		{"huge credential", with(call, 28, 0xff), &CallHeader{}, ErrCred},
		{"huge verifier", with(call, 36, 0xff), &CallHeader{}, ErrVerf},
		{"call as reply", with(reply, 7, 0), &ReplyHeader{}, ErrNotReply},
		{"reply_stat 2", with(reply, 11, 2), &ReplyHeader{}, xdr.ErrValue},
		{"huge verifier of a reply", with(reply, 16, 0xff), &ReplyHeader{}, ErrVerf},
		{"accept_stat 6", with(reply, 23, 6), &ReplyHeader{}, xdr.ErrValue},
		{"reject_stat 2", with(with(reply, 11, 1), 15, 2), &ReplyHeader{}, xdr.ErrValue},
		{"huge opaque_auth", with(reply, 16, 0xff)[12:], &OpaqueAuth{}, xdr.ErrLimit},
	} {
		d := xdr.NewDecoder(c.b)
		if c.msg.DecodeXDR(d); !errors.Is(d.Err(), c.want) {
			t.Errorf("%s: %v, want %v", c.name, d.Err(), c.want)
		}
		switch h := c.msg.(type) {
		case *CallHeader:
			if h.XID != 7 {
				t.Errorf("%s: XID %d", c.name, h.XID)
			}
		case *ReplyHeader:
			if h.XID != 7 {
				t.Errorf("%s: XID %d", c.name, h.XID)
			}
		}
	}
	atLimit := &CallHeader{Cred: OpaqueAuth{FlavorGSS, make([]byte, maxAuth)}, Verf: OpaqueAuth{FlavorGSS, make([]byte, maxAuth)}}
	d := xdr.NewDecoder(encode(atLimit))
	if (&CallHeader{}).DecodeXDR(d); d.Err() != nil {
		t.Errorf("bodies of 400 bytes: %v", d.Err())
	}
}

func TestAuthSys(t *testing.T) {
	var a AuthSys
	if err := a.Parse(must.Hex(t, callerHex)); err != nil || !reflect.DeepEqual(a, caller) || !reflect.DeepEqual(a.Groups(), []uint32{4, 24}) {
		t.Errorf("%+v, %v", a, err)
	}
	if err := a.Parse(append(must.Hex(t, callerHex), 0)); !errors.Is(err, xdr.ErrValue) {
		t.Errorf("a byte left over: %v", err)
	}
	a = AuthSys{Machine: make([]byte, MaxMachine)}
	if a.SetGroups(make([]uint32, 20)); a.NumGIDs != 16 {
		t.Errorf("%d of 20 groups", a.NumGIDs)
	}
	if b := encode(&a); len(b) > maxAuth || a.Parse(b) != nil {
		t.Errorf("the largest body has %d bytes", len(b))
	}
	b := encode(&a)
	b[4+4+256+8+3] = 17
	if err := a.Parse(append(b, 0, 0, 0, 0)); !errors.Is(err, xdr.ErrLimit) || a.NumGIDs != 0 {
		t.Errorf("17 groups: %v", err)
	}
	a = AuthSys{Machine: make([]byte, MaxMachine+1)}
	if err := a.Parse(encode(&a)); !errors.Is(err, xdr.ErrLimit) {
		t.Errorf("a name of 256 bytes: %v", err)
	}
}

func TestStrings(t *testing.T) {
	for got, want := range map[string]string{
		Call.String(): "CALL", Success.String(): "SUCCESS", SystemErr.String(): "SYSTEM_ERR", AcceptStat(6).String(): "accept_stat(6)",
		AuthError.String(): "AUTH_ERROR", AuthTooWeak.String(): "AUTH_TOOWEAK", GSSCtxProblem.String(): "RPCSEC_GSS_CTXPROBLEM",
		AuthStat(8).String(): "auth_stat(8)", FlavorGSS.String(): "RPCSEC_GSS", Flavor(4).String(): "auth_flavor(4)",
		FlavorKrb5.String(): "krb5", FlavorKrb5i.String(): "krb5i", FlavorKrb5p.String(): "krb5p", Flavor(390006).String(): "auth_flavor(390006)",
		Flavor(390002).String(): "auth_flavor(390002)",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestDoNotAllocate(t *testing.T) {
	var e xdr.Encoder
	var d xdr.Decoder
	var call CallHeader
	var reply ReplyHeader
	var sys AuthSys
	buf := make([]byte, 0, 512)
	in := CallHeader{XID: 1, Prog: 2, Cred: OpaqueAuth{FlavorSys, must.Hex(t, callerHex)}}
	ok := ReplyHeader{XID: 1}
	if n := testing.AllocsPerRun(100, func() {
		e.Reset(buf)
		in.EncodeXDR(&e)
		d.Reset(e.Bytes(), nil)
		call.DecodeXDR(&d)
		if err := sys.Parse(call.Cred.Body); err != nil || d.Err() != nil {
			t.Fatal(err, d.Err())
		}
		e.Reset(buf)
		ok.EncodeXDR(&e)
		d.Reset(e.Bytes(), nil)
		reply.DecodeXDR(&d)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
