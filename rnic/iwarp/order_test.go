// Order: Reads after Writes and Sends, and STags that cannot be guessed.

package iwarp

import (
	"bytes"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// TestReadYourWrites: a Read returns bytes written before it, and is answered only after earlier
// Sends have been delivered.
func TestReadYourWrites(t *testing.T) {
	conformance.Proves(t, "R5040-157", "R5040-164", "R5040-245", "R5040-246")
	a, b := joined(t, rnic.DeviceConfig{}, rnic.DeviceConfig{}, 64)
	mr, _ := b.pd.RegMR(make([]byte, 4096), rnic.RemoteRead|rnic.RemoteWrite)
	mem := make([]byte, 4096)
	sink, _ := a.pd.RegMR(mem, rnic.LocalWrite)
	for i := range 500 {
		recv(t, b.qp, uint64(i), nil)
		data := bytes.Repeat([]byte{byte(i)}, 4096)
		post(t, a.qp, rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{data}, RemoteSTag: mr.STag(), RemoteTO: mr.Base(), Unsignaled: true},
			rnic.SendWR{Op: rnic.OpSend, Unsignaled: true},
			rnic.SendWR{ID: uint64(i), Op: rnic.OpRead, MR: sink, Length: 4096, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
		a.want(t, rnic.OpRead, uint64(i), rnic.WCSuccess)
		if !bytes.Equal(mem, data) {
			t.Fatalf("round %d: the Read returned older bytes", i)
		}
		var wc [2]rnic.WC
		if n := b.cq.Poll(wc[:]); n != 1 || wc[0].ID != uint64(i) {
			t.Fatalf("round %d: %d Sends have been delivered before the response", i, n)
		}
	}
}

// TestSTagsAreRandom: STags have no order and no clusters, and are not soon reused.
func TestSTagsAreRandom(t *testing.T) {
	conformance.Proves(t, "R5040-211", "R5040-212", "R5040-250")
	pd := Open(rnic.DeviceConfig{}).AllocPD()
	seen := map[rnic.STag]bool{}
	var last rnic.STag
	var buckets [16]int
	rising := 0
	const n = 2000
	for range n {
		mr, err := pd.AllocMR()
		if err != nil {
			t.Fatalf("AllocMR: %v", err)
		}
		if seen[(mr.STag() >> 8)] {
			t.Fatal("one index twice")
		}
		seen[(mr.STag() >> 8)] = true
		if (mr.STag() >> 8) > last {
			rising++
		}
		last = (mr.STag() >> 8)
		buckets[mr.STag()>>28]++
	}
	if rising < n/3 || rising > 2*n/3 {
		t.Errorf("%d of %d indexes are above the one before", rising, n)
	}
	for i, k := range buckets {
		if k < n/32 || k > n/8 {
			t.Errorf("%d of %d indexes are in sixteenth %d", k, n, i)
		}
	}
	mr, _ := pd.AllocMR()
	freed := (mr.STag() >> 8)
	mr.Dereg()
	for range 100 {
		if mr, _ = pd.AllocMR(); (mr.STag() >> 8) == freed {
			t.Error("a freed index came back at once")
		}
	}
	keys := map[rnic.STag]bool{}
	for range 256 {
		if err := mr.Rereg(nil, 0); err != nil {
			t.Fatalf("Rereg: %v", err)
		}
		if keys[mr.STag()] {
			t.Error("a key came back before all others")
		}
		keys[mr.STag()] = true
		mr.Invalidate()
	}
}
