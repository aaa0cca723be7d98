// Replies with a size that depends on the call.

package nfs3

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// A READ or READDIR reply grows up to the call's count, a READDIRPLUS reply up to its maxcount, a
// READLINK reply up to the client's limit for paths. Other replies have a fixed limit.
func TestGrows(t *testing.T) {
	conformance.Proves(t, "R8166-193", "R8267-003", "R8267-004", "R8267-005")
	want := map[uint32]Grows{ProcRead: GrowsCount, ProcReaddir: GrowsCount, ProcReaddirplus: GrowsMaxcount, ProcReadlink: GrowsPath}
	for proc := range uint32(NumProcs) {
		b := &Bindings[proc]
		if b.Grows != want[proc] {
			t.Errorf("%s grows by %d", b.Name, b.Grows)
		}
		if got := b.Extra(4093); got != 4096 && b.Grows != GrowsNot || got != 0 && b.Grows == GrowsNot {
			t.Errorf("%s: 4093 add %d bytes", b.Name, got)
		}
	}
	// A server may apply the count to the entries alone. Then MaxReply must have room for the
	// verifier, the attributes and the words around the list as well (RFC 1813 §3.3.16, §3.3.17).
	for _, proc := range []uint32{ProcReaddir, ProcReaddirplus} {
		if n := Bindings[proc].MaxReply; n < statusSize+postOpAttr+verfSize+2*4 {
			t.Errorf("%s: %d bytes beside the entries", Bindings[proc].Name, n)
		}
	}
}

// The program is 100003, version 3, with 22 procedures (RFC 1813 §2, §3).
func TestNumbers(t *testing.T) {
	conformance.Proves(t, "R8166-219")
	if Program != 100003 || Version != 3 || NumProcs != 22 || ProcRead != 6 || ProcWrite != 7 || ProcCommit != 21 {
		t.Error(Program, Version, NumProcs, ProcRead, ProcWrite, ProcCommit)
	}
}
