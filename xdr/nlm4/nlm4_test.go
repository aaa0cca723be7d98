// Golden bytes, round trips, truncations and arbitrary bytes of the NLM types.

package nlm4

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
)

type message interface {
	xdr.Marshaler
	xdr.Unmarshaler
}

// lock and its bytes, written by hand from RFC 1813 §6.1.
var lock = Lock{Caller: []byte("abc"), FH: []byte{1, 2, 3, 4, 5}, Owner: []byte{9}, Svid: -2, Offset: 1 << 32, Length: 7}

const (
	cookieHex = "00000002" + "c1c20000"
	lockHex   = "00000003" + "61626300" + "00000005" + "0102030405000000" + "00000001" + "09000000" + "fffffffe" +
		"0000000100000000" + "0000000000000007"
)

var cookie = []byte{0xc1, 0xc2}

var golden = []struct {
	name string
	msg  message
	hex  string
}{
	{"TEST", &TestArgs{cookie, true, lock}, cookieHex + "00000001" + lockHex},
	{"LOCK", &LockArgs{cookie, true, false, lock, true, 5}, cookieHex + "00000001" + "00000000" + lockHex + "00000001" + "00000005"},
	{"CANCEL", &CancelArgs{cookie, false, true, lock}, cookieHex + "00000000" + "00000001" + lockHex},
	{"UNLOCK", &UnlockArgs{cookie, lock}, cookieHex + lockHex},
	{"SHARE", &ShareArgs{cookie, []byte("abc"), []byte{1}, []byte{2}, 3, 1, true},
		cookieHex + "00000003" + "61626300" + "00000001" + "01000000" + "00000001" + "02000000" + "00000003" + "00000001" + "00000001"},
	{"FREE_ALL", &Notify{[]byte("h"), -1}, "00000001" + "68000000" + "ffffffff"},
	{"res", &Res{cookie, Blocked}, cookieHex + "00000003"},
	{"TEST granted", &TestRes{Cookie: cookie}, cookieHex + "00000000"},
	{"TEST denied", &TestRes{cookie, Denied, Holder{true, 7, []byte{8}, 1, 2}},
		cookieHex + "00000001" + "00000001" + "00000007" + "00000001" + "08000000" + "0000000000000001" + "0000000000000002"},
	{"SHARE result", &ShareRes{cookie, DeniedNoLocks, 4}, cookieHex + "00000002" + "00000004"},
}

func encode(m xdr.Marshaler) []byte {
	e := xdr.NewEncoder(nil)
	m.EncodeXDR(e)
	return e.Bytes()
}

func fresh(m message) message { return reflect.New(reflect.TypeOf(m).Elem()).Interface().(message) }

func TestGolden(t *testing.T) {
	for _, g := range golden {
		if got := hex.EncodeToString(encode(g.msg)); got != g.hex {
			t.Errorf("%s: encoded %s, want %s", g.name, got, g.hex)
		}
		b, _ := hex.DecodeString(g.hex)
		back := fresh(g.msg)
		d := xdr.NewDecoder(b)
		back.DecodeXDR(d)
		if d.Err() != nil || d.Remaining() != 0 || !reflect.DeepEqual(back, g.msg) {
			t.Errorf("%s: decoded %+v, %d bytes left, %v", g.name, back, d.Remaining(), d.Err())
		}
		for n := range b {
			d := xdr.NewDecoder(b[:n:n])
			if back.DecodeXDR(d); d.Err() == nil {
				t.Errorf("%s: cut to %d bytes: no error", g.name, n)
			}
		}
	}
}

// TestLimits: what is longer than the protocol allows is refused, what is as long is taken.
func TestLimits(t *testing.T) {
	long := make([]byte, MaxName+2)
	at, over := long[:MaxName], long[:MaxName+1] // an object is as long as a name
	for _, c := range []struct {
		msg  message
		want error
	}{
		{&UnlockArgs{at, Lock{Caller: at, FH: at, Owner: at}}, nil},
		{&UnlockArgs{Cookie: over}, xdr.ErrLimit},
		{&UnlockArgs{Lock: Lock{Caller: over}}, xdr.ErrLimit},
		{&UnlockArgs{Lock: Lock{FH: over}}, xdr.ErrLimit},
		{&UnlockArgs{Lock: Lock{Owner: over}}, xdr.ErrLimit},
		{&Res{Cookie: over}, xdr.ErrLimit},
		{&Notify{Name: long}, xdr.ErrLimit},
		{&ShareArgs{Mode: 4}, xdr.ErrLimit},
		{&ShareArgs{Access: 4}, xdr.ErrLimit},
	} {
		d := xdr.NewDecoder(encode(c.msg))
		if fresh(c.msg).DecodeXDR(d); !errors.Is(d.Err(), c.want) {
			t.Errorf("%T %.40v: %v, want %v", c.msg, c.msg, d.Err(), c.want)
		}
	}
}

func TestStatusNames(t *testing.T) {
	if s := Failed.String() + " " + Status(10).String(); s != "NLM4_FAILED nlm4_stats(10)" {
		t.Error(s)
	}
}

// FuzzMessages: the first byte picks the message; what decodes must encode to bytes that decode to the same.
func FuzzMessages(f *testing.F) {
	for i, g := range golden {
		f.Add(append([]byte{byte(i)}, encode(g.msg)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		like := golden[int(b[0])%len(golden)].msg
		m, back := fresh(like), fresh(like)
		d := xdr.NewDecoder(b[1:])
		if m.DecodeXDR(d); d.Err() != nil {
			return
		}
		again := encode(m)
		d = xdr.NewDecoder(again)
		if back.DecodeXDR(d); d.Err() != nil || d.Remaining() != 0 || !bytes.Equal(encode(back), again) {
			t.Errorf("%+v, again %+v, %v", m, back, d.Err())
		}
	})
}
