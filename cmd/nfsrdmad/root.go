// The command line: nfsrdmad and its commands.

package main

import (
	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/spf13/cobra"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "nfsrdmad",
		Short: "NFSv3 server over RDMA (software iWARP) and TCP",
		Long: `nfsrdmad exports directories by NFS version 3 over RPC-over-RDMA, on a software
iWARP RNIC that needs no RDMA hardware and no kernel module, and over TCP. Which
clients may use them the exports file says: nfsrdma-exports(5).`,
		Annotations: map[string]string{cli.Section: "8"},
		Example: `  nfsrdmad serve /srv/data
  nfsrdmad serve --memory
  nfsrdmad serve --exports /etc/nfsrdma/exports`,
	}
	root.AddCommand(newServe(), newCheck(), newStatus(), newClients(), newLocks(), newExports(), newReload(), newDrain(), newGrammar())
	cli.Prepare(root, grammarPage())
	return root
}
