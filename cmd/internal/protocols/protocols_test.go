// The list has the RFCs' program and version numbers.

package protocols

import (
	"strings"
	"testing"
)

// TestList: the line of programs is complete, and has each number once.
func TestList(t *testing.T) {
	programs, carried, ok := strings.Cut(List(), "\n")
	if want := "protocols: NFS 3, MOUNT 3, NFSACL 3, NLM 4, NSM 1, rpcbind 2 to 4"; programs != want {
		t.Errorf("%q, want %q", programs, want)
	}
	if !ok || !strings.HasPrefix(carried, "transports: RPC-over-RDMA 1") || strings.Contains(carried, "\n") {
		t.Errorf("%q", carried)
	}
	// RFC 1813 §2.1, §5.1; RFC 1833 §2.1; XNFS for NLM and NSM; NFSACL's number is Solaris's and
	// Linux's.
	for i, want := range []uint32{100003, 100005, 100227, 100021, 100024, 100000} {
		if Programs[i].Number != want {
			t.Errorf("%s is %d, want %d", Programs[i].Name, Programs[i].Number, want)
		}
	}
}
