// The nfsrdmad command: an NFSv3 server over RDMA and TCP.

// Command nfsrdmad exports directories by NFS version 3, over RPC-over-RDMA with a software RNIC,
// and over TCP.
package main

import (
	"os"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/program"
)

func main() { os.Exit(program.Main(nil)) }
