// nfsrdma doctor: finds obstacles to a working mount.

package main

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/doctor"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/spf13/cobra"
)

// errUnwell ends the program with status 1. All findings have been printed.
var errUnwell = errors.New("something that matters does not work: see the lines with FAIL")

func newDoctor(s *session.Session) *cobra.Command {
	var o doctor.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor SERVER[:/EXPORT]",
		Short: "Find out why a mount does not work",
		Long: `Test each step between this machine and a working mount, and print a remedy for
each failure. The steps are:

  network  the name, the route, the ports, and large packets
  RDMA     MPA start-up of iWARP or a RoCE connection, and RPC-over-RDMA
  server   the programs that answer, MOUNT, and your identity there
  data     with --write, a file that is written, read back and removed
  local    what the kernel and FUSE need on this machine

At its end doctor prints the mount commands that should work. Several servers are
tested one by one. The result of a test is one of these:

  OK    the test passed
  WARN  the test failed, but a mount can work without it
  FAIL  a mount cannot work before this is fixed
  SKIP  the test was not possible

The exit status is 1 if a test failed. With nfs:// or --proto tcp the mount over TCP
must work. Otherwise the mount over RDMA must work, by the protocol of --rdma.`,
		Example: `  nfsrdma doctor server
  nfsrdma doctor server:/export
  nfsrdma doctor --write nfsrdma://server:20049/export
  nfsrdma doctor --json nfs://server/export`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := s.Server(args[0])
			if err != nil {
				return err
			}
			well := true
			for _, one := range t.Servers() {
				of := o
				if err := examined(s, &of, one, args[0]); err != nil {
					return err
				}
				ok, err := examine(cmd, of, asJSON)
				if err != nil {
					return err
				}
				well = well && ok
			}
			if !well {
				return errUnwell
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Write, "write", false, "write a small file in the export, compare it, and remove it")
	f.BoolVar(&asJSON, "json", false, "print the results as JSON")
	f.IntVar(&o.RDMAPort, "rdma-port", 0, "the RDMA `PORT` of the server (default: of the URL, or 20049)")
	f.IntVar(&o.TCPPort, "tcp-port", 0, "the TCP `PORT` of the server (default: of the URL, or 2049)")
	return cmd
}

// examine reports on one server. It returns true if no check failed.
func examine(cmd *cobra.Command, o doctor.Options, asJSON bool) (bool, error) {
	out := cmd.OutOrStdout()
	tell := func(f doctor.Finding) { doctor.Print(out, f) }
	if asJSON {
		tell = nil
	}
	r := doctor.Examine(cmd.Context(), o, tell)
	if err := cmd.Context().Err(); err != nil {
		return false, err
	}
	if !asJSON {
		doctor.PrintEnd(out, r)
		return r.OK, nil
	}
	enc := json.NewEncoder(text.JSONWriter(out))
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return r.OK, enc.Encode(r)
}

// examined sets the options according to the server argument and the connection flags.
func examined(s *session.Session, o *doctor.Options, t nfsclient.Target, arg string) error {
	flags, err := s.Options(t)
	if err != nil {
		return err
	}
	o.Host, o.TCP, o.MountPort, o.CRC = t.Host, t.Transport == nfsclient.TCP, flags.MountPort, flags.CRC
	o.Provider = flags.Provider
	if o.Security, err = s.Security(); err != nil {
		return err
	}
	if t.Path != "/" || strings.HasSuffix(arg, ":/") {
		o.Export = t.Path
	}
	port := &o.RDMAPort
	if o.TCP {
		port = &o.TCPPort
	}
	if *port == 0 {
		*port = t.Port
	}
	for _, p := range []int{o.RDMAPort, o.TCPPort} {
		if p < 0 || p > 65535 {
			return errors.New("--rdma-port and --tcp-port are in 1..65535")
		}
	}
	return nil
}
