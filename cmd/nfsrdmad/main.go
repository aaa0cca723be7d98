// The nfsrdmad command: an NFSv3 server over RDMA and TCP.

// Command nfsrdmad exports directories by NFS version 3 over RPC-over-RDMA on a
// software iWARP RNIC, and over TCP.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := newRoot().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "nfsrdmad:", err)
		os.Exit(1)
	}
}
