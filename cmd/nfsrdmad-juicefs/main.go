// The nfsrdmad-juicefs command: an NFSv3 server of JuiceFS volumes over RDMA and TCP.

// Command nfsrdmad-juicefs serves JuiceFS volumes with nfsrdmad's commands and flags. Any number of
// servers may serve one volume, without a FUSE mount.
package main

import (
	"os"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/program"
)

func main() { os.Exit(program.Main(kind())) }
