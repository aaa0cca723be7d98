// The protocols in --version, from the numbers that the programs send.

// Package protocols lists the protocols of the programs, with their versions.
package protocols

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nfsacl3"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
	"github.com/nfsrdma/nfsrdma/xdr/nsm"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// Programs lists the RPC programs in the order of --version, each with its number, name and
// versions.
var Programs = []struct {
	Number      uint32
	Name        string
	First, Last uint32
}{
	{nfs3.Program, "NFS", nfs3.Version, nfs3.Version},
	{mount3.Program, "MOUNT", mount3.Version, mount3.Version},
	{nfsacl3.Program, "NFSACL", nfsacl3.Version, nfsacl3.Version},
	{nlm4.Program, "NLM", nlm4.Version, nlm4.Version},
	{nsm.Program, "NSM", nsm.Version, nsm.Version},
	{rpcbind.Program, "rpcbind", rpcbind.Version, rpcbind.Version4},
}

// transports are the transports of the RPC programs. Their versions appear in headers for which we
// have a single version.
const transports = "RPC-over-RDMA 1, by iWARP (MPA 1 and 2, DDP 1, RDMAP 1) and RoCEv2; ONC RPC 2 over TCP and UDP"

// List returns the protocols as text, in two lines.
func List() string {
	var s string
	for i, p := range Programs {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("%s %d", p.Name, p.First)
		if p.Last != p.First {
			s += fmt.Sprintf(" to %d", p.Last)
		}
	}
	return "protocols: " + s + "\ntransports: " + transports
}
