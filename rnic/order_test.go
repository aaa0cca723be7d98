// What is there when: Reads behind Writes and Sends, and names that cannot be guessed.

package rnic

import (
	"bytes"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// TestReadYourWrites: a Read returns what was written before it, and is not answered
// before the Sends in front of it have been delivered.
func TestReadYourWrites(t *testing.T) {
	conformance.Proves(t, "R5040-157", "R5040-164", "R5040-245", "R5040-246")
	a, b := joined(t, DeviceConfig{}, DeviceConfig{}, 64)
	mr, _ := b.pd.RegMR(make([]byte, 4096), RemoteRead|RemoteWrite)
	mem := make([]byte, 4096)
	sink, _ := a.pd.RegMR(mem, LocalWrite)
	for i := range 500 {
		recv(t, b.qp, uint64(i), nil)
		data := bytes.Repeat([]byte{byte(i)}, 4096)
		post(t, a.qp, SendWR{Op: OpWrite, SGL: [][]byte{data}, RemoteSTag: mr.STag(), RemoteTO: mr.Base(), Unsignaled: true},
			SendWR{Op: OpSend, Unsignaled: true},
			SendWR{ID: uint64(i), Op: OpRead, MR: sink, Length: 4096, RemoteSTag: mr.STag(), RemoteTO: mr.Base()})
		a.want(t, OpRead, uint64(i), WCSuccess)
		if !bytes.Equal(mem, data) {
			t.Fatalf("round %d: the Read returned older octets", i)
		}
		var wc [2]WC
		if n := b.cq.Poll(wc[:]); n != 1 || wc[0].ID != uint64(i) {
			t.Fatalf("round %d: %d Sends have been delivered before the response", i, n)
		}
	}
}

// TestSTagsAreRandom: no order, no clusters, no quick reuse.
func TestSTagsAreRandom(t *testing.T) {
	conformance.Proves(t, "R5040-211", "R5040-212", "R5040-250")
	pd := Open(DeviceConfig{}).AllocPD()
	seen := map[uint32]bool{}
	var last uint32
	var buckets [16]int
	rising := 0
	const n = 2000
	for range n {
		mr, err := pd.AllocMR()
		if err != nil {
			t.Fatal(err)
		}
		if seen[mr.index] {
			t.Fatal("one index twice")
		}
		seen[mr.index] = true
		if mr.index > last {
			rising++
		}
		last = mr.index
		buckets[mr.index>>20]++
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
	freed := mr.index
	mr.Dereg()
	for range 100 {
		if mr, _ = pd.AllocMR(); mr.index == freed {
			t.Error("a freed index came back at once")
		}
	}
	keys := map[STag]bool{}
	for range 256 {
		if err := mr.Rereg(nil, 0); err != nil {
			t.Fatal(err)
		}
		if keys[mr.STag()] {
			t.Error("a key came back before all others")
		}
		keys[mr.STag()] = true
		mr.Invalidate()
	}
}

// asked has the peer read nothing of ours: the answer comes before all that is held back.
func (s *script) asked(msn uint32) {
	s.t.Helper()
	s.fpdu(untagged(0x41, 0x41, 0, 1, msn, 0, readReq(9, 9, 0, 0, 0)))
	s.wantSegment(tagged(0xc1, 0x42, 9, 9, nil))
}

// TestHeldBack: what ORD or a fence holds back is not on the wire before a response has come.
func TestHeldBack(t *testing.T) {
	conformance.Proves(t, "R5040-159", "R5040-173", "R5040-174", "R5040-247", "R6581-027", "R8166-031")
	s := scriptInitiator(t, ConnParams{ORD: 2})
	s.open()
	sink, _ := s.pd.RegMR(make([]byte, 1), LocalWrite)
	for range 3 {
		post(t, s.qp, SendWR{Op: OpRead, MR: sink, Length: 1, RemoteSTag: 1})
	}
	post(t, s.qp, SendWR{Op: OpSend, Fence: true})
	answer := func() { s.fpdu(tagged(0xc1, 0x42, sink.STag(), sink.Base(), []byte{1})) }
	read := func(msn uint32) {
		t.Helper()
		s.wantSegment(untagged(0x41, 0x41, 0, 1, msn, 0, readReq(sink.STag(), sink.Base(), 1, 1, 0)))
	}
	read(1)
	read(2)
	s.asked(1) // the third Read waits for a slot
	answer()
	read(3)
	s.asked(2) // the Send waits for all Reads
	answer()
	s.asked(3)
	answer()
	s.wantSegment(untagged(0x41, 0x43, 0, 0, 1, 0, nil))
}
