// Golden bytes, truncations, limits and arbitrary bytes for the NSM types.

package nsm

import (
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/internal/xdrtest"
)

// golden has each message with its hand-written bytes.
var golden = []xdrtest.Golden{
	{"stat_chge", &StatChange{[]byte("host"), -3}, "00000004" + "686f7374" + "fffffffd"},
	{"sm_stat_res", &StatRes{Fail, 7}, "00000001" + "00000007"},
}

func TestGolden(t *testing.T) { xdrtest.Check(t, golden) }

func TestLimits(t *testing.T) {
	for n, want := range map[int]error{maxName: nil, maxName + 1: xdr.ErrLimit} {
		var c StatChange
		d := xdr.NewDecoder(xdrtest.Encode(&StatChange{Name: make([]byte, n)}))
		if c.DecodeXDR(d); !errors.Is(d.Err(), want) {
			t.Errorf("a name of %d bytes: %v, want %v", n, d.Err(), want)
		}
	}
}

func FuzzMessages(f *testing.F) { xdrtest.Fuzz(f, golden) }
