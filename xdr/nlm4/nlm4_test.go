// Golden bytes, round trips, truncations and arbitrary bytes for the NLM types.

package nlm4

import (
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/internal/xdrtest"
)

// lock and its bytes, hand-written from RFC 1813 §6.1.
var lock = Lock{Caller: []byte("abc"), FH: []byte{1, 2, 3, 4, 5}, Owner: []byte{9}, Svid: -2, Offset: 1 << 32, Length: 7}

const (
	cookieHex = "00000002" + "c1c20000"
	lockHex   = "00000003" + "61626300" + "00000005" + "0102030405000000" + "00000001" + "09000000" + "fffffffe" +
		"0000000100000000" + "0000000000000007"
)

var cookie = []byte{0xc1, 0xc2}

var golden = []xdrtest.Golden{
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

func TestGolden(t *testing.T) { xdrtest.Check(t, golden) }

// TestLimits: lengths over the protocol's limit are refused, equal ones accepted.
func TestLimits(t *testing.T) {
	long := make([]byte, MaxName+2)
	at, over := long[:MaxName], long[:MaxName+1] // objects and names have the same limit
	for _, c := range []struct {
		msg  xdrtest.Message
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
		d := xdr.NewDecoder(xdrtest.Encode(c.msg))
		if xdrtest.Fresh(c.msg).DecodeXDR(d); !errors.Is(d.Err(), c.want) {
			t.Errorf("%T %.40v: %v, want %v", c.msg, c.msg, d.Err(), c.want)
		}
	}
}

func TestStatusNames(t *testing.T) {
	if s := Failed.String() + " " + Status(10).String(); s != "NLM4_FAILED nlm4_stats(10)" {
		t.Error(s)
	}
}

func FuzzMessages(f *testing.F) { xdrtest.Fuzz(f, golden) }
