// The nfsrdmad-juicefs command: an NFSv3 server of JuiceFS volumes over RDMA and TCP.

// Command nfsrdmad-juicefs serves JuiceFS volumes by the commands and flags of nfsrdmad: any number of servers one
// volume, with no FUSE mount in between.
package main

import (
	"os"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/program"
)

func main() { os.Exit(program.Main(kind())) }
