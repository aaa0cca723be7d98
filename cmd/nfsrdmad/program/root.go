// The command line: a program and its commands.

// Package program is the implementation of nfsrdmad, shared with related programs. It has no stable
// API.
package program

import (
	"errors"
	"fmt"
	"os"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/protocols"
	"github.com/spf13/cobra"
)

// Main runs the program and returns its exit status. Without a Kind the program is nfsrdmad, which
// serves directories.
func Main(k *Kind) int {
	root := NewRoot(k)
	out := cli.NewOutput(os.Stdout, nil)
	root.SetOut(out)
	ran, err := root.ExecuteC()
	status := 0
	var output *cli.OutputError
	if err != nil && !errors.As(err, &output) {
		fmt.Fprintf(os.Stderr, "%s: %s\n", root.Name(), cli.OneLine(root, err))
		status = 1
	}
	if err := out.Close(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", root.Name(), cli.WriteError(ran, err))
		status = 1
	}
	return status
}

func newRoot() *cobra.Command { return NewRoot(nil) }

// NewRoot returns the command line of a program.
func NewRoot(k *Kind) *cobra.Command {
	root := &cobra.Command{
		Use:   "nfsrdmad",
		Short: "Serve directories by NFSv3 over RDMA and TCP, in user space",
		Long: `nfsrdmad exports directories by NFS version 3 over RDMA (software iWARP and RoCEv2)
and over TCP. It needs no RDMA hardware and no kernel module. The exports file says
which clients can use which directories: see nfsrdma-exports(5).`,
		Annotations: map[string]string{cli.Section: "8", cli.Protocols: protocols.List()},
		Example: `  nfsrdmad serve /srv/data
  nfsrdmad serve --memory
  nfsrdmad serve --exports /etc/nfsrdma/exports`,
	}
	root.AddCommand(newServe(k), newCheck(k), newStatus(k), newClients(k), newLocks(k), newExports(k), newReload(k), newDrain(k), newCert(k), newGrammar())
	if k == nil {
		cli.Prepare(root, grammarPage())
		return root
	}
	k.describe(root)
	root.AddCommand(k.Commands...)
	cli.Prepare(root) // the exports file's page belongs to nfsrdmad
	return root
}
