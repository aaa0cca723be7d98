// The nfsrdmad command: an NFSv3 server over RDMA and TCP.

// Command nfsrdmad exports directories by NFS version 3 over RPC-over-RDMA on a
// software iWARP RNIC, and over TCP.
package main

import (
	"fmt"
	"os"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
)

func main() {
	root := newRoot()
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "nfsrdmad:", cli.OneLine(root, err))
		os.Exit(1)
	}
}
